"""The doctor: settings that keep prompts from being reused, on the servers, in the gateway, and in what clients do.

Each check is a row of a visible table, one file per kind of server. They ask what can be asked without loading, waking or
changing anything; the few prompts they send are invented and of one token's answer.
"""

from __future__ import annotations

from gateway.doctor.checks import SERVER_CHECKS, SETUP_CHECKS
from gateway.doctor.examine import diagnose
from gateway.doctor.report import Report

__all__ = ["SERVER_CHECKS", "SETUP_CHECKS", "Report", "diagnose"]
