"""`warmgate tail`, in front of a real App: earlier requests, then live ones, filtered, as text and as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway import config as configuration
from gateway.cli import _admin
from gateway.cli.tail import line, matches, rows, tail
from gateway.server.admin_events import HUB
from tests.cli.verbs import warmgate
from tests.lifecycle.waiting import until
from tests.support.front import Front, front

HOSTILE = "evil\x1b[31m[red]x[/red]\u202e"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path) as running:
        yield running


async def test_earlier_requests_the_oldest_first(gateway: Front, tmp_path: Path) -> None:
    for id in ("one", "two", "three"):
        await gateway.chat(id, model=HOSTILE)
    ran = await warmgate(tmp_path, "tail", "--no-follow", "-n", "2", "--config", str(gateway.file))
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.out.splitlines()
    assert " two  200 ok " in first
    assert " three  200 ok " in second
    assert "reused 900 of 1,000 (90 %)" in first
    assert "evil?[31m[red]x[/red]? on local" in first, "hostile names are text"
    assert "\x1b" not in ran.out


async def test_json_lines_and_filters(gateway: Front, tmp_path: Path) -> None:
    for id, model in (("one", "small"), ("two", "large"), ("three", "small")):
        await gateway.chat(id, model=model)
    ran = await warmgate(tmp_path, "tail", "--no-follow", "--json", "--model", "small", "--config", str(gateway.file))
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["id"] for row in rows] == ["one", "three"]
    assert rows == (await gateway.ask("/requests?model=small")).json()["requests"][::-1], "as the admin port has them"
    ran = await warmgate(tmp_path, "tail", "--no-follow", "--reason", "bad_luck", "--config", str(gateway.file))
    assert ran.code == 1
    assert "error: `reason` is one of first_seen" in ran.err


async def test_live_requests_come_once_and_a_stream_that_ends_is_opened_again(
    gateway: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    await gateway.chat("earlier", model="small")
    assert gateway.app._admin
    readers = gateway.app._admin.app[HUB].readers
    config = configuration.load(gateway.file, {})
    ids: list[str] = []
    said: list[str] = []

    def printed() -> list[str]:
        captured = capsys.readouterr()
        ids.extend(json.loads(text)["id"] for text in captured.out.splitlines())
        said.extend(captured.err.splitlines())
        return ids

    following = asyncio.create_task(tail(config, {"model": "small"}, 10, None, no_follow=False))
    assert await until(lambda: _is("earlier" in printed()))
    for id, model in (("live", "small"), ("other", "large"), ("second", "small")):
        await gateway.chat(id, model=model)
    assert await until(lambda: _is("second" in printed()))
    (reader,) = readers
    reader.end("time to go")
    await gateway.chat("between", model="small")
    assert await until(lambda: _is("between" in printed()))
    await gateway.chat("second", model="small")  # an id that comes again
    assert await until(lambda: _is(printed().count("second") == 2))
    assert printed() == ["earlier", "live", "second", "between", "second"]
    assert said == ["The gateway ended the stream: time to go. Trying again ...", "connected again"]
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


async def test_a_request_that_ends_between_the_two_questions_is_told_once(
    gateway: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = _admin.look

    async def late(*arguments: Any, **query: Any) -> dict[str, Any]:
        """Another request ends after /events was opened, before /requests is asked: both tell it."""
        await gateway.chat("between")
        return await look(*arguments, **query)

    monkeypatch.setattr(_admin, "look", late)
    ids = []
    async for row in rows(configuration.load(gateway.file, {}), {}, 10):
        ids.append(row["id"])
        if len(ids) == 1:
            await gateway.chat("after")
        if row["id"] == "after":
            break
    assert ids == ["between", "after"]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"model": "as-written"}, True),
        ({"model": "label"}, True),
        ({"model": "other"}, False),
        ({"backend": "local", "reason": "evicted"}, True),
        ({"backend": "local", "reason": "first_seen"}, False),
    ],
)
def test_which_requests_are_shown(wanted: dict[str, str], fits: bool) -> None:
    row = {"model": "as-written", "label": "label", "backend": "local", "reason": "evicted"}
    assert matches(row, wanted) is fits


async def test_why_it_missed_stands_at_the_end(gateway: Front) -> None:
    await gateway.chat("one")
    row = (await gateway.ask("/requests/one")).json()
    lost = {"reason": "system_changed", "section": "place and time", "lost_tokens": 4000, "lost_seconds": 12.34}
    assert line({**row, **lost}).plain.endswith("  system_changed in place and time, lost 4,000 tokens, 12.3 s")
    nothing = line({**row, "cached": None, "cached_source": "none", "reason": None}).plain
    assert nothing.endswith("reuse not reported")
    inferred = line({**row, "cached_source": "inferred", "reason": None}).plain
    assert "reused about 900 of 1,000" in inferred


async def _is(fact: bool) -> bool:
    return fact
