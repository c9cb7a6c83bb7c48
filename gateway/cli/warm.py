"""`warmgate warm [PIN]`: have a prefix read now; without a name, show which there are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.table import Table

from gateway.cli import _admin, _show
from gateway.errors import WarmgateError


@click.command("warm")
@click.argument("pin", required=False)
@_show.config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(pin: str | None, path: Path | None, as_json: bool) -> None:
    """Have the prefix of PIN read now, so that the next request that begins with it is fast; without PIN, show the pins."""
    try:
        config = _admin.load_or_defaults(path)
        done = _admin.ask(config, f"/warm/{quote(pin, safe='')}") if pin else _admin.get(config, "/warm")
    except WarmgateError as error:
        _show.fail(error, as_json)
    if as_json:
        click.echo(_show.dump(done))
    elif pin:
        click.echo(f"{done['pin']}: {done['status'].replace('_', ' ')}, {done['tokens']} tokens computed.")
    elif done["pins"]:
        _show.console().print(table(done["pins"], time.time()), soft_wrap=True)
    else:
        click.echo("No prefix is known yet: they are learned from requests that begin alike, or given under warmup.pins.")


def table(pins: list[dict[str, Any]], now: float) -> Table:
    """The pins, one a row."""
    found = _show.table("pin", "model", "backend", ("tokens", "right"), "warm", "last warm-up")
    for pin in pins:
        warm = {True: "yes", False: "no"}.get(pin["warm"], "model not loaded")
        last = pin["last"]
        words = "" if last is None else f"{last['outcome'].replace('_', ' ')}, {_ago(now - last['at'])} ago"
        if last is not None and last["problem"]:
            words += f": {_show.plain(last['problem'], 60)}"
        tokens = _show.count(pin["tokens"])
        found.add_row(_show.name(pin["name"]), _show.name(pin["model"]), _show.name(pin["backend"]), tokens, warm, words)
    return found


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
