"""`warmgate doctor`: what is wrong here? With `--contract URL`: does that server behave as its kind is relied on to behave?"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.backends import KINDS
from gateway.contract.base import Result
from gateway.contract.probes import PROBES
from gateway.contract.report import Report
from gateway.contract.suite import NotExamined, examine
from gateway.logs import printable

STYLES: dict[Result, str] = {"ok": "green", "differs": "bold red", "skipped": "dim"}
NAMES = sorted(set(KINDS) - {"auto"})
LONGEST_DETAIL = 600  # characters


@click.command("doctor")
@click.option("--contract", "url", metavar="URL", help="Examine the model server at this address.")
@click.option("--kind", type=click.Choice(NAMES), help="What the server is.  [default: find out]")
@click.option("--model", help="The model to ask.  [default: one that is loaded, else the first]")
@click.option("--api-key", envvar="WARMGATE_DOCTOR_KEY", help="The server's key; better given in WARMGATE_DOCTOR_KEY.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this probe, or those that fit a pattern such as 'stream-*'.")
@click.option("--mutating", is_flag=True, help="Also load and unload the model, and save a slot to a file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, fit for a bug report: host, key and directories are masked.")
def command(
    url: str | None,
    kind: str | None,
    model: str | None,
    api_key: str | None,
    only: tuple[str, ...],
    mutating: bool,
    as_json: bool,
) -> None:
    """Find out whether a server keeps its contract: streams, counts, caches, errors, limits, disconnects.

    Invented prompts and a few tokens each; nothing is loaded or unloaded on purpose without --mutating. Exit code 1 if anything
    differs.
    """
    if url is None:
        raise click.UsageError("Say what to examine: --contract http://127.0.0.1:11434")
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--contract takes an address such as http://127.0.0.1:11434")
    _check_names(only)
    console = Console(stderr=True)
    try:
        with console.status("looking at the server") as status:
            report = asyncio.run(
                examine(
                    url,
                    kind=kind,
                    model=model,
                    key=api_key,
                    only=only,
                    mutating=mutating,
                    progress=lambda name: status.update(name),
                )
            )
    except NotExamined as error:
        click.echo(json.dumps({"ok": False, "problem": str(error)}, indent=2) if as_json else error, err=not as_json)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps(report.data(), indent=2))
    else:
        _print(report)
    sys.exit(0 if report.fine else 1)


def _check_names(only: Sequence[str]) -> None:
    """A name that fits no probe of any kind is a mistake, not an empty run."""
    for pattern in only:
        if not any(fnmatchcase(probe.name, pattern) for probe in PROBES):
            raise click.UsageError(f"There is no probe {pattern!r}; there are: {', '.join(probe.name for probe in PROBES)}")


def _print(report: Report) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("probe", "result", "found"):
        table.add_column(title, overflow="fold")
    table.add_column("seconds", justify="right")
    for row in report.rows:
        found = row.finding
        result = Text(found.result, STYLES[found.result])
        table.add_row(row.name, result, Text(printable(found.detail, LONGEST_DETAIL)), f"{row.seconds:.2f}")
    console = Console()
    console.print(table)
    console.print(Text(printable(f"\n{report.summary}".strip(), LONGEST_DETAIL)))
