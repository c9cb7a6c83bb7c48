"""Reading reports in tests."""

from __future__ import annotations

from typing import Literal

from gateway.contract import Finding, Report
from tests.support.fake_server import FakeServer
from tests.support.replies import Reply

LONG = " ".join(["one"] * 300)
"""An answer that lasts long enough to be left, where a fake sends it with gaps."""


def talkative(fake: FakeServer) -> FakeServer:
    fake.answer = lambda ask: Reply(text=LONG)
    fake.gap = 0.002
    return fake


def named(report: Report, result: Literal["ok", "differs", "skipped"]) -> dict[str, str]:
    """Names of the probes with this result -> what they found."""
    return {row.name: row.finding.detail for row in report.rows if row.finding.result == result}


def finding(report: Report, name: str) -> Finding:
    return next(row.finding for row in report.rows if row.name == name)
