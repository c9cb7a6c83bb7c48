"""What the doctor found, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gateway import __version__
from gateway.doctor.base import SEVERITIES, Finding


@dataclass(frozen=True, slots=True)
class Looked:
    """A server that was looked at. kind: `auto` where it did not answer; checks: how many were made."""

    name: str
    url: str
    kind: str
    version: str | None
    up: bool
    checks: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """findings: the serious ones first; measured: figures of a probe or canary; seconds: that it all took; scraped: seconds
    since somebody asked the running gateway for its metrics, None if nobody did or no gateway runs."""

    findings: tuple[Finding, ...]
    servers: tuple[Looked, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    scraped: float | None = None

    @property
    def fine(self) -> bool:
        return all(finding.severity != "serious" for finding in self.findings)

    @property
    def summary(self) -> str:
        count = Counter(finding.severity for finding in self.findings)
        found = f"{count['serious']} serious, {count['advice']} advice, {count['note']} note{'s' * (count['note'] != 1)}"
        servers = f"{len(self.servers)} server{'s' * (len(self.servers) != 1)}: " if self.servers else ""
        return f"{servers}{found} in {self.seconds:.1f} s"

    def data(self) -> dict[str, Any]:
        return {
            "warmgate": __version__,
            "ok": self.fine,
            "summary": self.summary,
            "seconds": round(self.seconds, 2),
            "scraped": None if self.scraped is None else round(self.scraped, 1),
            "servers": [asdict(server) for server in self.servers],
            "measured": dict(self.measured),
            "findings": [asdict(finding) for finding in self.findings],
        }


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """The serious ones first, else in the order in which they were found."""
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))
