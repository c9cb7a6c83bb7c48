"""`warmgate doctor`: what keeps prompts from being reused here, and what to do about it.

With `--contract URL`: does that server behave as its kind is relied on to behave? With `--probe` and `--canary`: how does one
model behave?
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import httpx
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.backends import KINDS
from gateway.backends.control import describe
from gateway.cli import _admin, _doctor_report, _found
from gateway.contract.base import Result, Settled
from gateway.contract.probes import PROBES
from gateway.contract.report import Report
from gateway.contract.suite import NotExamined, examine
from gateway.doctor.examine import canary_model, diagnose, probe_model
from gateway.doctor.report import Report as Diagnosis
from gateway.errors import WarmgateError
from gateway.logs import printable

STYLES: dict[Result, str] = {"ok": "green", "differs": "bold red", "skipped": "dim"}
NAMES = sorted(set(KINDS) - {"auto"})
LONGEST_DETAIL = 600  # characters

Look = Callable[..., Coroutine[Any, Any, Diagnosis]]


@click.command("doctor")
@click.option("--config", "path", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file of the gateway.")
@click.option("--probe", metavar="MODEL", help="Measure whether this model reuses prompts, with a few small requests.")
@click.option("--canary", metavar="MODEL", help="Look whether conversations with this model leak into each other.")
@click.option("--direct", is_flag=True, help="With --probe and --canary: ask the server itself, not through the gateway.")
@click.option("--contract", "url", metavar="URL", help="Examine the model server at this address.")
@click.option("--kind", type=click.Choice(NAMES), help="With --contract: what the server is.  [default: find out]")
@click.option("--model", help="With --contract: the model to ask.  [default: one that is loaded, else the first]")
@click.option(
    "--api-key", envvar="WARMGATE_DOCTOR_KEY", help="With --contract: the server's key; better given in WARMGATE_DOCTOR_KEY."
)
@click.option("--only", multiple=True, metavar="NAME", help="With --contract: only probes like this, such as 'stream-*'.")
@click.option("--mutating", is_flag=True, help="With --contract: also load and unload the model, and save a slot to a file.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; no keys, and with --contract no host and directories either."
)
def command(
    path: Path | None,
    probe: str | None,
    canary: str | None,
    direct: bool,
    url: str | None,
    kind: str | None,
    model: str | None,
    api_key: str | None,
    only: tuple[str, ...],
    mutating: bool,
    as_json: bool,
) -> None:
    """Find out what keeps prompts from being reused: on the servers, in the configuration, and in what clients do.

    Invented prompts and a few tokens each; nothing is loaded, unloaded or changed on purpose without --mutating. Exit code 0 if
    nothing serious was found, 1 if something was, or with --contract if anything differs.
    """
    if sum(value is not None for value in (probe, canary, url)) > 1:
        raise click.UsageError("--probe, --canary and --contract are three different things; give one of them.")
    if url is None and (kind or model or only or mutating):
        raise click.UsageError("--kind, --model, --only and --mutating need --contract http://127.0.0.1:11434")
    if direct and probe is None and canary is None:
        raise click.UsageError("--direct needs --probe MODEL or --canary MODEL.")
    if url is None:
        _diagnose(path, _wanted(probe, canary, direct), as_json)
    else:
        _examine(url, kind, model, api_key, only, mutating, as_json)


# this machine


def _wanted(probe: str | None, canary: str | None, direct: bool) -> Look:
    if probe is not None:
        return partial(probe_model, model=probe, direct=direct)
    return diagnose if canary is None else partial(canary_model, model=canary, direct=direct)


def _diagnose(path: Path | None, look: Look, as_json: bool) -> None:
    """Prints what was found and exits."""
    try:
        ports = _found.ports(os.environ)
    except ValueError as error:
        raise click.UsageError(f"{_found.PORTS_VARIABLE}: {error}") from None
    try:
        config = _admin.load_or_defaults(path)
        with Console(stderr=True).status("looking"):
            report = asyncio.run(look(config, ports=ports))
    except (WarmgateError, OSError) as error:
        _fail(str(error), as_json)
    except Settled as settled:
        _fail(settled.finding.detail, as_json)
    except (httpx.HTTPError, TimeoutError) as error:
        _fail(f"There was no answer: {describe(error)}", as_json)
    if as_json:
        click.echo(json.dumps(report.data(), indent=2))
    else:
        _doctor_report.show(report)
    sys.exit(0 if report.fine else 1)


def _fail(problem: str, as_json: bool) -> NoReturn:
    click.echo(json.dumps({"ok": False, "problem": problem}, indent=2) if as_json else problem, err=not as_json)
    sys.exit(1)


# one server


def _examine(
    url: str, kind: str | None, model: str | None, api_key: str | None, only: tuple[str, ...], mutating: bool, as_json: bool
) -> None:
    if not url.startswith(("http://", "https://")):
        raise click.UsageError("--contract takes an address such as http://127.0.0.1:11434")
    _check_names(only)
    try:
        with Console(stderr=True).status("looking at the server") as status:
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
        _fail(str(error), as_json)
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
