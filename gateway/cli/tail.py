"""`warmgate tail`: one line for each finished request, as they come."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gateway.cli import _admin, _follow, _show
from gateway.config import Config
from gateway.errors import WarmgateError

MOST = 1000  # earlier requests that can be asked for at once
STYLES = {"ok": "green", "cancelled": "yellow"}


@click.command("tail")
@_show.config_option
@click.option(
    "-n", "--lines", default=10, show_default=True, type=click.IntRange(0, MOST), help="Earlier requests to show first."
)
@click.option("--model", help="Only requests for this model, as clients or the metrics name it.")
@click.option("--backend", help="Only requests that this backend answered.")
@click.option("--reason", help="Only requests that missed for this reason, such as system_changed.")
@click.option("--outcome", help="Only requests that ended so, such as ok or cancelled.")
@click.option(
    "--kind", type=click.Choice(["main", "side"]), help="Only conversations, or only side requests (titles, summaries)."
)
@click.option("--no-follow", is_flag=True, help="End after the earlier requests.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(path: Path | None, lines: int, no_follow: bool, as_json: bool, **filters: str | None) -> None:
    """Show the newest requests and then each one as it ends: what it reused, how long it took, why it missed."""
    wanted = {name: value for name, value in filters.items() if value}
    console = _show.console()
    try:
        asyncio.run(tail(_admin.load_or_defaults(path), wanted, lines, console if not as_json else None, no_follow))
    except WarmgateError as error:
        _show.fail(error, as_json)
    except KeyboardInterrupt:
        pass


async def tail(config: Config, wanted: Mapping[str, str], lines: int, console: Console | None, no_follow: bool) -> None:
    """console: None prints JSON. Raises WarmgateError when the gateway does not answer at first, or refuses."""
    async for row in _earlier(config, wanted, lines) if no_follow else rows(config, wanted, lines):
        if console:
            console.print(line(row), soft_wrap=True)
        else:
            click.echo(_show.dump(row))


async def rows(config: Config, wanted: Mapping[str, str], lines: int) -> AsyncIterator[dict[str, Any]]:
    """The earlier requests, the oldest first, and then those that end. None is left out or told twice.

    A gateway that ends is waited for, which is said on standard error; what it remembers of the time between is then told.
    Raises WarmgateError when no gateway answers at first, or when it refuses.
    """
    told, again = Told(), False
    async for name, value in _follow.following(config):
        if name == "hello":  # from here on nothing is missed
            if again:
                click.echo("connected again", err=True)
            with suppress(_admin.NoGateway, _admin.Lost):  # it ends already, which the stream tells as well
                earlier = [row async for row in _earlier(config, wanted, MOST) if told.is_new(row)]
                for row in earlier if again else earlier[max(0, len(earlier) - lines) :]:
                    yield row
            again = True
        elif name == "request" and matches(value, wanted) and told.is_new(value):
            del value["number"]  # which no earlier request has
            yield value
        elif name == _follow.LOST:
            click.echo(f"{value['message']} Trying again ...", err=True)


class Told:
    """Which requests have been told, of the newest. An id may be a client's and come again, but not at the same time."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, float], None] = OrderedDict()

    def is_new(self, row: Mapping[str, Any]) -> bool:
        """Whether this request comes for the first time; it does not from then on."""
        key = (row["id"], row["time"])
        new = key not in self._known
        self._known[key] = None
        while len(self._known) > 2 * MOST:
            self._known.popitem(last=False)
        return new


async def _earlier(config: Config, wanted: Mapping[str, str], lines: int) -> AsyncIterator[dict[str, Any]]:
    if lines:
        found = await _admin.look(config, "/requests", limit=lines, **wanted)
        for row in reversed(found["requests"]):
            yield row


def matches(row: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Whether a request is one of those that were asked for, as /requests sees it."""
    return all(value in (row.get(name), row.get("label") if name == "model" else None) for name, value in wanted.items())


def line(row: Mapping[str, Any]) -> Text:
    """One request on one line."""
    first = f"first word {_show.seconds(row['ttft'])}" if row["ttft"] is not None else f"{_show.seconds(row['duration'])}"
    return Text.assemble(
        (_show.clock(row["time"]), "dim"),
        " ",
        (_show.plain(row["id"], 16), "cyan"),
        "  ",
        (f"{row['status']} {row['outcome']}", STYLES.get(row["outcome"], "bold red")),
        f"  {_show.plain(row['model'], 40)} on {_show.plain(row['backend'], 24)}",
        f"  {first}  ",
        reused(row),
        why(row),
    )


def reused(row: Mapping[str, Any]) -> str:
    """`reused 4,000 of 4,120 (97 %)`; what is not known is said so."""
    if row["cached"] is None:
        return "reuse not reported"
    about = "about " if row["cached_source"] == "inferred" else ""
    share = _show.share(row["cached"], row["prompt"])
    return f"reused {about}{_show.count(row['cached'])} of {_show.count(row['prompt'])} ({share})"


def why(row: Mapping[str, Any]) -> Text:
    """Why it missed, and what that cost."""
    if not row["reason"]:
        return Text("")
    text = Text.assemble("  ", (_show.plain(row["reason"]), "yellow"))
    if row["section"]:
        text.append(f" in {_show.plain(row['section'])}")
    if row["lost_tokens"]:
        text.append(f", lost {_show.count(row['lost_tokens'])} tokens")
    if row["lost_seconds"]:
        text.append(f", {_show.seconds(row['lost_seconds'])}")
    return text
