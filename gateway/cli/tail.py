"""`warmgate tail`: one line for each finished request, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gateway.cli import _admin, _show
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
    """console: None prints JSON. Raises WarmgateError when the gateway ends."""
    async for row in _earlier(config, wanted, lines) if no_follow else rows(config, wanted, lines):
        if console:
            console.print(line(row), soft_wrap=True)
        else:
            click.echo(_show.dump(row))


async def rows(config: Config, wanted: Mapping[str, str], lines: int) -> AsyncIterator[dict[str, Any]]:
    """The earlier requests, the oldest first, and then those that end. None is left out or told twice.

    Raises WarmgateError when the gateway ends or does not answer.
    """
    last_words, told = "it said nothing", set[str]()
    async for name, value in _admin.events(config):
        if name == "hello":  # from here on nothing is missed
            async for row in _earlier(config, wanted, lines):
                told.add(row["id"])
                yield row
        elif name == "request" and matches(value, wanted):
            if value["id"] not in told:
                yield value
            told.discard(value["id"])  # a client may use an id again
        elif not name:
            last_words = value["comment"]
    raise _admin.NotDone(f"The gateway ended the stream: {last_words}.")


async def _earlier(config: Config, wanted: Mapping[str, str], lines: int) -> AsyncIterator[dict[str, Any]]:
    if lines:
        found = await asyncio.to_thread(_admin.get, config, "/requests", limit=lines, **wanted)
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
