"""The contract suite: what is relied on of each kind of server, as probes that any server can be asked.

The same list runs on simulated servers, on a real llama.cpp server and, as `warmgate doctor --contract URL`, on a user's own.
Nothing is destroyed, answers are cut to a few tokens, every wait has a limit, and no prompt holds anything of the user's. What
changes the server's state (loading, unloading, slot files) is asked only if that is wanted.
"""

from __future__ import annotations

from gateway.contract.base import Finding, Probe, Result
from gateway.contract.probes import PROBES
from gateway.contract.report import Report, Row
from gateway.contract.suite import examine

__all__ = ["PROBES", "Finding", "Probe", "Report", "Result", "Row", "examine"]
