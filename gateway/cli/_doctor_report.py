"""What the doctor found, for people: one block for each finding, the serious ones first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli._found import TITLES
from gateway.doctor.base import Finding, Severity
from gateway.doctor.report import Looked, Report
from gateway.logs import printable
from gateway.units import show_duration

STYLES: dict[Severity, str] = {"serious": "bold red", "advice": "yellow", "note": "dim"}
LONGEST = 600  # characters of a sentence


def show(report: Report) -> None:
    console = Console()
    for server in report.servers:
        console.print(Text(printable(_server(server), LONGEST)))
    if report.scraped is not None:
        console.print(Text(f"metrics: last scraped {show_duration(round(report.scraped))} ago"))
    if report.findings:
        console.print(_table(report.findings))
    console.print(Text(printable(report.summary, LONGEST)))


def _server(server: Looked) -> str:
    what = " ".join(part for part in (TITLES.get(server.kind, server.kind), server.version) if part)
    return f"{server.name}: {what} at {server.url}{'' if server.up else ', not answering'}"


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 1, 0))
    for title in ("severity", "where", "finding", "seen, why, and what to do"):
        table.add_column(title, overflow="fold")
    for found in findings:
        severity = Text(found.severity, STYLES[found.severity])
        table.add_row(severity, Text(printable(found.where, 80)), Text(found.name), Text("\n").join(_words(found)))
    return table


def _words(found: Finding) -> Iterator[Text]:
    yield Text(printable(found.seen, LONGEST))
    yield Text(found.why, "dim")
    yield Text(printable(f"Fix: {found.fix}", LONGEST), "green")
