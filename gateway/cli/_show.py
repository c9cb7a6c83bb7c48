"""How numbers, times and names of requests are written in terminals. Whatever a client chose is shown as plain text."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.logs import printable

LONGEST = 60  # characters of a name
UNKNOWN = "–"
BAR = 20  # characters

FILE = click.Path(dir_okay=False, path_type=Path)


def console() -> Console:
    """Standard output. Nothing in it is read as markup or as an emoji."""
    return Console(highlight=False, markup=False, emoji=False)


def fail(error: Exception | str, as_json: bool) -> NoReturn:
    """Say what is wrong, and end with 1."""
    if as_json:
        click.echo(dump({"error": str(error)}))
    else:
        click.echo(f"error: {error}", err=True)
    sys.exit(1)


def dump(value: Any) -> str:
    """JSON on one line, in ASCII: no name in it can steer a terminal."""
    return json.dumps(value)


def name(value: Any, limit: int = LONGEST) -> Text:
    """Text from outside on one line: no control characters, no markup."""
    return Text(plain(value, limit))


def plain(value: Any, limit: int = LONGEST) -> str:
    return UNKNOWN if value is None or value == "" else printable(str(value), limit)


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """`0.034 s`, `4.2 s`, `3 min 5 s`: three digits, as far as people care."""
    if value is None:
        return UNKNOWN
    if value < 1:
        return f"{value:.3f} s" if value else "0 s"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    power = min(int(math.log(value, 1024)), 4) if value >= 1 else 0
    return f"{value / 1024**power:.{1 if power else 0}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def share(part: float | None, whole: float | None) -> str:
    """`97 %`. Rounded towards the middle: 100 % is all, 0 % nothing."""
    if part is None or not whole:
        return UNKNOWN
    percent = 100 * part / whole
    return f"{min(99, math.floor(percent)) if percent < 100 else 100:d} %" if percent >= 1 or not part else "1 %"


def bar(part: float, whole: float, width: int = BAR) -> Text:
    """How much of it was reused: `█████░░░`."""
    filled = round(width * min(1.0, max(0.0, part / whole))) if whole else 0
    return Text.assemble(("█" * filled, "green"), ("░" * (width - filled), "dim"))


def clock(epoch: float | None) -> str:
    """Local time of day."""
    return UNKNOWN if epoch is None else time.strftime("%H:%M:%S", time.localtime(epoch))


def until(model: Mapping[str, Any], now: float) -> str:
    """Until when a model stays resident."""
    if model.get("never_expires"):
        return "for good"
    expires = model.get("expires")
    if expires is None:
        return "not told"
    return f"{clock(expires)} (in {seconds(expires - now)})" if expires > now else "now"


def table(*columns: str | tuple[str, str]) -> Table:
    """A borderless table; a column is a heading, or a heading and `right`."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        heading, justify = column if isinstance(column, tuple) else (column, "left")
        made.add_column(Text(heading), justify="right" if justify == "right" else "left", no_wrap=True)
    return made


def config_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option("--config", "path", type=FILE, help="Configuration file of the gateway.")(command)
