"""`warmgate top`: what is reused, how long the first word takes, what runs, and what breaks prefixes most; live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from gateway.cli import _admin, _follow, _show
from gateway.cli._board import KEEP, Board, breakers, summary
from gateway.cli.ps import backend_table
from gateway.cli.tail import line
from gateway.config import Config
from gateway.errors import WarmgateError

INTERVAL = 1.0  # seconds between two pictures
SHOWN = 8  # rows of a list on the screen


@click.command("top")
@_show.config_option
@click.option("--once", is_flag=True, help="Print what is so now, and end; so it is where no terminal is.")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON document.")
def command(path: Path | None, once: bool, as_json: bool) -> None:
    """Show, live, what is reused, the time to the first word warm and cold, backends, running requests and top breakers."""
    console = _show.console()
    try:
        config = _admin.load_or_defaults(path)
        if as_json:
            click.echo(_show.dump(load(config).document()))
        elif once or not console.is_terminal:
            console.print(picture(load(config), time.time()), soft_wrap=True)
        else:
            asyncio.run(live(config, console))
    except WarmgateError as error:
        _show.fail(error, as_json)
    except KeyboardInterrupt:
        pass


def load(config: Config) -> Board:
    """What the gateway knows now. Raises WarmgateError."""
    board = Board(_admin.get(config, "/status"))
    for row in reversed(_admin.get(config, "/requests", limit=KEEP)["requests"]):
        board.add(row)
    return board


@dataclass(slots=True)
class View:
    """What the screen shows. trouble: why it may be old, "" while the gateway is heard. One writer: the event loop."""

    board: Board
    trouble: str = ""


async def live(config: Config, console: Console) -> None:
    """Draw until the user stops it; a gateway that ends is waited for. Raises WarmgateError as `following` does."""
    view = View(await _load(config))
    follower = asyncio.create_task(_follow_on(config, view))
    try:
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            while not follower.done():
                screen.update(picture(view.board, time.time(), view.trouble), refresh=True)
                await asyncio.wait([follower], timeout=INTERVAL)
                await _look(config, view)
        await follower
    finally:
        follower.cancel()


async def _load(config: Config) -> Board:
    """As `load`. Raises WarmgateError."""
    board = Board(await _admin.look(config, "/status"))
    for row in reversed((await _admin.look(config, "/requests", limit=KEEP))["requests"]):
        board.add(row)
    return board


async def _look(config: Config, view: View) -> None:
    """Take over what no event tells."""
    if not view.trouble:
        with suppress(_admin.NoGateway, _admin.Lost):  # the stream tells it as well
            view.board.status = await _admin.look(config, "/status")


async def _follow_on(config: Config, view: View) -> None:
    async for name, value in _follow.following(config, begun=True):
        if name == _follow.LOST:
            view.trouble = f"{value['message']} Trying again ..."
        elif name != "hello":
            view.board.hear(name, value)
        else:
            with suppress(_admin.NoGateway, _admin.Lost):  # what ended before, and what another gateway remembers
                view.board = await _load(config)
            view.trouble = ""


def picture(board: Board, now: float, trouble: str = "") -> RenderableType:
    """The whole screen. trouble: a sentence at its top."""
    rows, backends = list(board.rows.values()), board.status["backends"]
    return Group(
        *([Text(_show.plain(trouble, 200), style="bold red")] if trouble else []),
        *head(board, now),
        Text(""),
        backend_table(backends) if backends else Text("No backend is configured."),
        *_part("Running", list(running(board.status["in_flight"], now))),
        *_part("What breaks prefixes most", list(broken(rows))),
        *_part("Finished last", [line(row) for row in reversed(rows[-SHOWN:])]),
    )


def head(board: Board, now: float) -> Iterator[Text]:
    rows = list(board.rows.values())
    found = summary(rows)
    reused, ttft = found["reused"], found["ttft"]
    since = f"since {_show.clock(rows[0]['time'])}" if rows else "so far"
    yield Text.assemble(("warmgate ", "bold"), _show.plain(board.status["version"]), f"  {_show.clock(now)}")
    yield Text.assemble(
        "reused ",
        (_show.share(reused["cached"], reused["prompt"]), "bold green"),
        f" of {_show.count(reused['prompt'])} prompt tokens ({reused['requests']} of {len(rows)} requests {since} told it)",
    )
    warm, cold = (_show.seconds(ttft[how]) for how in ("warm", "cold"))
    yield Text.assemble("first word ", (warm, "bold green"), " warm, ", (cold, "bold yellow"), " cold")
    yield Text(f"saved {_show.seconds(found['saved_seconds'])}, lost {_show.seconds(found['lost_seconds'])}")


def running(requests: list[dict[str, Any]], now: float) -> Iterator[Text]:
    for one in requests[:SHOWN]:
        for_so_long = _show.seconds(max(0.0, now - one["started"]))
        yield Text.assemble((_show.plain(one["id"], 16), "cyan"), f"  on {_show.plain(one['backend'], 24)} for {for_so_long}")
    if len(requests) > SHOWN:
        yield Text(f"and {len(requests) - SHOWN} more")


def broken(rows: list[Any]) -> Iterator[Text]:
    for one in breakers(rows, SHOWN):
        where = f" in {_show.plain(one['section'])}" if one["section"] else ""
        yield Text.assemble(
            (f"{_show.plain(one['reason'])}{where}", "yellow"),
            f"  {_times(one['requests'])}, {_show.seconds(one['lost_seconds'])}, {_show.count(one['lost_tokens'])} tokens",
            f"  by {_show.plain(one['agent'], 32)}  (warmgate explain {_show.plain(one['last'], 32)})",
        )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _part(heading: str, lines: list[Text]) -> Iterator[Text]:
    yield Text("")
    yield Text(heading, style="bold")
    yield from lines or [Text("nothing", style="dim")]
