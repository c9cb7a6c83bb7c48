"""`warmgate top`, in front of a real App, and the numbers that it shows."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gateway import config as configuration
from gateway.cli import _follow
from gateway.cli._board import KEEP, Board, breakers, summary
from gateway.cli.top import live
from gateway.server.admin_events import HUB
from tests.cli.verbs import warmgate
from tests.lifecycle.waiting import until
from tests.support.front import CHAT, Front, answer, front
from tests.support.steps import json_reply

HOSTILE = "evil\x1b[31m[red]x[/red]\u202e"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path) as running:
        yield running


async def test_one_picture_where_no_terminal_is(gateway: Front, tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "top", "--config", str(gateway.file))
    assert (ran.code, ran.err) == (0, "")
    assert "reused – of 0 prompt tokens" in ran.out
    await gateway.chat("warm", model=HOSTILE)
    gateway.upstream.on(CHAT, *json_reply(answer(cached=0)))
    await gateway.chat("cold")
    ran = await warmgate(tmp_path, "top", "--once", "--config", str(gateway.file))
    assert ran.code == 0
    assert "reused 45 % of 2,000 prompt tokens (2 of 2 requests" in ran.out
    assert "local" in ran.out
    assert "evil?[31m[red]x[/red]? on local" in ran.out, "hostile names are text"
    assert "\x1b" not in ran.out
    ran = await warmgate(tmp_path, "top", "--json", "--config", str(gateway.file))
    shown = json.loads(ran.out)
    assert shown["reused"] == {"requests": 2, "prompt": 2000, "cached": 900, "share": 0.45}
    assert (shown["requests"], shown["running"]) == (2, [])
    assert [backend["name"] for backend in shown["backends"]] == ["local"]


async def test_the_live_screen_follows_and_opens_its_stream_again(gateway: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_follow, "FIRST_WAIT", 2.5)  # longer than a picture stays
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, height=40, highlight=False, markup=False)
    running = asyncio.create_task(live(configuration.load(gateway.file, {}), console))
    assert await until(lambda: _is("prompt tokens" in screen.getvalue()))
    await gateway.chat("brand-new")
    assert await until(lambda: _is("brand-new" in screen.getvalue()))
    assert gateway.app._admin
    for reader in gateway.app._admin.app[HUB].readers:
        reader.end("time to go")
    assert await until(lambda: _is("The gateway ended the stream: time to go. Trying again" in screen.getvalue()))
    assert await until(lambda: _is(len(gateway.app._admin.app[HUB].readers) == 1))
    await gateway.chat("after-it")
    assert await until(lambda: _is("after-it" in screen.getvalue()))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def row(id: str, **more: Any) -> dict[str, Any]:
    known = {"prompt": 1000, "cached": 900, "ttft": None, "lost_tokens": None, "lost_seconds": None, "reason": None}
    return {"id": id, "time": 1.0, "section": None, "client": {"agent": "a"}, "saved": {}, **known, **more}


def test_what_is_not_known_is_not_summed_up() -> None:
    rows = [
        row("warm", ttft=0.1),
        row("cold", cached=0, ttft=4.0, lost_seconds=3.5),
        row("silent", cached=None, ttft=100.0),
        row("early", prompt=None, cached=None),
        row("saved", cached=None, saved={"server": 50.0, "canonical": 2.0, "warmup": 1.0}),
    ]
    found = summary(rows)
    assert found["reused"] == {"requests": 2, "prompt": 2000, "cached": 900, "share": 0.45}
    assert found["ttft"] == {"warm": 0.1, "cold": 4.0}
    assert (found["saved_seconds"], found["lost_seconds"]) == (3.0, 3.5), "what the server does anyway is not the gateway's"
    empty = summary([])
    assert (empty["reused"]["share"], empty["ttft"]) == (None, {"warm": None, "cold": None})


@pytest.mark.parametrize(
    ("prompt", "cached", "counts_as"),
    [
        (1000, 900, "warm"),
        (1000, 899, "partial"),
        (1000, 100, "partial"),
        (1000, 99, "cold"),
        (200, 136, "warm"),
        (200, 135, "partial"),
        (50, 0, "cold"),
    ],
)
def test_warm_and_cold_are_what_the_page_says(prompt: int, cached: int, counts_as: str) -> None:
    found = summary([row("a", prompt=prompt, cached=cached, ttft=2.0)])["ttft"]
    assert found == {"warm": None, "cold": None, **({counts_as: 2.0} if counts_as != "partial" else {})}


def test_breakers_are_ranked_by_seconds_and_then_tokens() -> None:
    lost = {"reason": "system_changed", "section": "place and time"}
    rows = [
        row("1", **lost, lost_tokens=10, lost_seconds=1.0),
        row("2", **lost, lost_tokens=20, lost_seconds=1.5),
        row("3", reason="evicted", lost_tokens=9000),
        row("4", reason="evicted", lost_tokens=10000, client={"agent": "b"}),
        row("5", reason="tools_changed", section="tools", lost_tokens=5, lost_seconds=9.0),
        row("6", reason="first_seen", lost_tokens=50_000, lost_seconds=60.0),
        row("7", reason="unknown"),
    ]
    found = breakers(rows)
    assert [(one["reason"], one["agent"], one["requests"], one["last"]) for one in found] == [
        ("tools_changed", "a", 1, "5"),
        ("system_changed", "a", 2, "2"),
        ("evicted", "b", 1, "4"),
        ("evicted", "a", 1, "3"),
    ]
    assert (found[1]["lost_tokens"], found[1]["lost_seconds"]) == (30, 2.5)
    assert len(breakers(rows, 2)) == 2


def test_the_board_follows_events_and_stays_bounded() -> None:
    board = Board({"in_flight": [], "backends": [{"name": "a", "up": True}, {"name": "b", "up": True}]})
    board.hear("started", {"id": "x", "number": 1, "backend": "a", "time": 5.0})
    board.hear("started", {"id": "x", "number": 1, "backend": "b", "time": 6.0})  # a retry elsewhere
    assert board.status["in_flight"] == [{"id": "x", "number": 1, "backend": "b", "started": 6.0}]
    board.hear("backend", {"name": "a", "up": False})
    board.hear("gone", {"name": "b"})
    board.hear("something new", {})
    assert board.status["backends"] == [{"name": "a", "up": False}]
    for number in range(KEEP + 10):
        board.hear("request", row(str(number), number=100 + number))
    board.hear("request", row("x", number=1))
    assert board.status["in_flight"] == []
    assert len(board.rows) == KEEP
    assert next(reversed(board.rows)) == ("x", 1.0)


def test_two_requests_with_the_same_id_are_two() -> None:
    board = Board({"in_flight": [], "backends": []})
    for number in (1, 2):
        board.hear("started", {"id": "x", "number": number, "backend": "a", "time": float(number)})
    assert [one["started"] for one in board.status["in_flight"]] == [1.0, 2.0]
    board.hear("request", row("x", number=2, time=2.0))
    assert [one["started"] for one in board.status["in_flight"]] == [1.0]
    board.hear("request", row("x", number=1, time=1.0))
    assert (board.status["in_flight"], len(board.rows)) == ([], 2)


async def _is(fact: bool) -> bool:
    return fact
