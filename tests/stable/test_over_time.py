"""Conversations over hours and days, with a clock that the test moves: the real application in this process, on a real port."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gateway import config as configuration
from gateway.clock import SystemClock
from gateway.server.app import App
from gateway.server.gateway import Gateway
from tests.stable.seen import Seen, extends
from tests.stable.stand import EVERY_PATH, ask
from tests.support.process import free_port
from tests.support.replies import Reply, ToolCall
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import fin, ordinary, stream

CHAT = "/v1/chat/completions"
HOUR, DAY = 3600.0, 86400.0
GREETING = "Hello, how can I help?"


class Shifted(SystemClock):
    """The system's clock, with a wall clock that a test sets forward. Durations and deadlines stay real."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def wall(self) -> float:  # type: ignore[override]
        return time.time() + self.ahead


@dataclass(slots=True)
class Desk:
    url: str
    clock: Shifted
    server: ScriptedUpstream

    def says(self, text: str, **reply: Any) -> None:
        for path in EVERY_PATH:
            self.server.on(path, ordinary(Reply(text=text, **reply)))

    async def turn(self, *talk: dict[str, Any], system: str, streaming: bool = True, agent: str = "agent/1") -> Seen:
        """What the server received of a chat."""
        messages = [{"role": "system", "content": system}, *talk]
        response = await ask(self.url, CHAT, {"model": "tiny", "messages": messages, "stream": streaming}, agent=agent)
        assert response.status == 200, response.body
        return Seen(CHAT, self.server.asked(CHAT)[-1].body)


@pytest_asyncio.fixture(loop_scope="module")
async def desk() -> AsyncIterator[Desk]:
    async with ScriptedUpstream() as server:
        listen, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
        backends = {"local": {"kind": "openai", "url": server.url}}
        text = orjson.dumps({"listen": listen, "admin": {"listen": admin}, "state_dir": "", "backends": backends}).decode()
        config, clock = configuration.loads(text, "test", {}), Shifted()
        app = App(Gateway(config, clock), lambda: config)
        await app.start()
        try:
            yield Desk(f"http://{listen}", clock, server)
        finally:
            await app.stop()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(day: int, hour: int = 10) -> str:
    return f"You are Pelle.\nCurrent time: 2026-03-{day:02}T{hour:02}:15:07Z\nBe brief."


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "document"])
@pytest.mark.parametrize("pause", [60.0, 11 * 60.0, 5 * HOUR, 20 * DAY], ids=["minute", "11-minutes", "hours", "weeks"])
async def test_a_note_is_known_again_by_the_reply_that_followed(desk: Desk, pause: float, streaming: bool) -> None:
    desk.says(GREETING)
    first = await desk.turn(user("hi"), system=system(4), streaming=streaming)
    desk.clock.ahead += pause
    second = await desk.turn(user("hi"), assistant(GREETING), user("more"), system=system(5), streaming=streaming)
    assert extends(first, second)
    assert "2026-03-05" in second.users[-1]


async def test_a_note_is_known_again_by_the_tool_call_that_followed(desk: Desk) -> None:
    desk.says("", tool_calls=(ToolCall("look", {"at": 4, "deep": True}),))
    first = await desk.turn(user("hi"), system=system(4))
    desk.clock.ahead += HOUR
    call = {"id": "x9", "type": "function", "function": {"name": "look", "arguments": '{ "deep": true, "at": 4 }'}}
    loop = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x9", "content": "12"},
    ]
    second = await desk.turn(user("hi"), *loop, assistant("12."), user("more"), system=system(4, hour=11))
    assert second.users[0] == first.users[0]
    assert "T11:15" in second.users[-1]


async def test_a_reply_that_nobody_heard_to_its_end_counts_for_ten_minutes(desk: Desk) -> None:
    """The server died: what was said is unknown, but for a while there is only one note that it can be."""
    desk.says(GREETING)
    for pause, known in ((60.0, True), (11 * 60.0, False)):
        agent = f"agent-{pause:g}/1"
        desk.server.once(CHAT, *stream([b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'], end=False), fin())
        first = await desk.turn(user("hi"), system=system(4), agent=agent)
        desk.clock.ahead += pause
        second = await desk.turn(user("hi"), assistant("Hel"), user("more"), system=system(5), agent=agent)
        assert (second.users[0] == first.users[0]) is known
        assert "2026-03-05" in second.users[-1]


@pytest.mark.parametrize("same_reply", [True, False], ids=["same-reply", "another-reply"])
@pytest.mark.parametrize("pause", [300.0, DAY], ids=["minutes", "day"])
async def test_hi_today_never_says_the_date_of_yesterday(desk: Desk, same_reply: bool, pause: float) -> None:
    desk.says(GREETING)
    await desk.turn(user("hi"), system=system(4))
    await desk.turn(user("hi"), assistant(GREETING), user("more"), system=system(4))
    desk.clock.ahead += pause
    said = GREETING if same_reply else "Good morning."
    desk.says(said)
    first = await desk.turn(user("hi"), system=system(5))
    second = await desk.turn(user("hi"), assistant(said), user("more"), system=system(5))
    third = await desk.turn(user("hi"), assistant(said), user("more"), assistant(said), user("and"), system=system(5))
    for seen in (first, second, third):
        assert b"2026-03-04" not in seen.raw
        assert "2026-03-05" in seen.notes


async def test_a_clock_in_a_loop_is_told_anew_once_it_is_too_old(desk: Desk) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    loop: list[dict[str, Any]] = []
    desk.says("", tool_calls=(ToolCall("look"),))
    first = await desk.turn(user("hi"), system=system(4, hour=10))
    for hour, pause, old in ((11, 100.0, True), (12, 100.0, True), (13, 101.0, False)):
        desk.clock.ahead += pause
        loop += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "12"},
        ]
        seen = await desk.turn(user("hi"), *loop, system=system(4, hour=hour))
        assert (seen.users == first.users) is old
        assert (f"T{hour}:15" in seen.notes) is not old


async def test_what_was_not_used_for_a_month_is_forgotten_and_told_anew(desk: Desk) -> None:
    desk.says(GREETING)
    await desk.turn(user("hi"), system=system(4))
    desk.clock.ahead += 31 * DAY
    await desk.turn(user("something else"), system=system(4), agent="another/1")
    seen = await desk.turn(user("hi"), assistant(GREETING), user("more"), system=system(5))
    assert seen.users[0] == "hi"
    assert "2026-03-05" in seen.users[-1]
