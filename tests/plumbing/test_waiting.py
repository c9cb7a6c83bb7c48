"""Requests that wait in the gateway: what their clients see meanwhile and afterwards, and what is left when they go."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.plumbing.rig import CALLS, Call, Rig, eventually
from tests.support.clients import fetch
from tests.support.connection import Step
from tests.support.replies import Reply
from tests.support.steps import full, ordinary, wait

BEAT = 0.1
STREAM = CALLS["plain_openai"]
DOCUMENT = replace(STREAM, streaming=False)
WAITS = {"full", "wait_prefix", "wait_warm"}
"""For a place, by any of these names: it has what the other request leaves."""

RIG = {
    "parallel": 1,
    "config": {
        "heartbeat": {"before_headers": f"{BEAT}s", "after_headers": f"{BEAT}s"},
        "models": {"coder": {"targets": ["llama/tiny"], "side_target": "plain/plain"}},
        "routing": {"session_headers": ["X-Chat"]},
    },
}


@asynccontextmanager
async def busy(rig: Rig, call: Call = STREAM) -> AsyncIterator[asyncio.Event]:
    """The server works on one request, until the event or the end of the block."""
    go_on = asyncio.Event()
    steps: tuple[Step, ...] = (wait(go_on), *call.answer())
    rig.upstream(call).once(call.path, *steps)
    running = asyncio.create_task(rig.ask(call))
    await rig.last(call.path, call.backend)
    try:
        yield go_on
    finally:
        go_on.set()
        assert (await running).status == 200


async def waiting(rig: Rig, count: int) -> None:
    async def there() -> bool:
        backends = (await fetch(f"{rig.gateway.admin}/status")).json()["backends"]
        return sum(backend["waiting"] for backend in backends) == count

    await eventually(there, f"{count} waiting")


async def test_a_client_that_waits_hears_beats(rig: Rig) -> None:
    rig.plain.on(STREAM.path, *STREAM.answer())
    async with rig.expects("ok", "ok") as changes, busy(rig) as go_on:
        asking = asyncio.create_task(rig.ask(STREAM))
        await waiting(rig, 1)
        await asyncio.sleep(5 * BEAT)
        assert len(rig.plain.asked(STREAM.path)) == 1
        go_on.set()
        response = await asking
    assert response.complete
    assert response.body.endswith(STREAM.whole())
    assert len(response.arrived) > 3, "beats, and the answer"
    (why,) = changes.by("warmgate_hold_seconds_count", "decision")
    assert why in WAITS
    assert changes.value("warmgate_hold_seconds_sum", decision=why) >= 5 * BEAT


async def test_where_a_request_went_and_how_long_it_waited(rig: Rig) -> None:
    rig.plain.on(DOCUMENT.path, *DOCUMENT.answer())
    async with busy(rig, DOCUMENT) as go_on:
        asking = asyncio.create_task(rig.ask(DOCUMENT, ("X-Request-Id", "waited")))
        await waiting(rig, 1)
        await asyncio.sleep(0.2)
        go_on.set()
        response = await asking
    timing = dict(re.findall(r"(\w+);dur=([\d.]+)", response.header("Server-Timing")))
    assert float(timing["queue"]) >= 200
    assert re.fullmatch(r"plain; \w+", response.header("X-Warmgate-Route"))
    assert re.fullmatch(r"[0-9a-f]{12}; expected=\d+", response.header("X-Warmgate-Prefix"))
    row = (await fetch(f"{rig.gateway.admin}/requests/waited")).json()
    assert row["waited_for"] in WAITS
    assert row["queue"] >= 0.2
    assert row["reasons"]


async def test_who_leaves_while_it_waits_is_gone_at_once(rig: Rig) -> None:
    async with rig.expects("ok", "cancelled"), busy(rig):
        async with rig.client() as client:
            await client.send(DOCUMENT.raw())
            await waiting(rig, 1)
        await waiting(rig, 0)
        assert len(rig.plain.asked(STREAM.path)) == 1


async def test_a_side_request_goes_to_the_model_that_it_has(rig: Rig) -> None:
    """Under that model's own name; the conversation goes where it always does."""
    rig.plain.on(DOCUMENT.path, ordinary())
    rig.llama.on(DOCUMENT.path, ordinary())
    title: dict[str, Any] = {"messages": [{"role": "user", "content": "### Task:\nName this chat."}], "max_tokens": 30}
    response = await rig.ask(DOCUMENT, model="coder", **title)
    assert response.header("X-Warmgate-Route") == "plain; side"
    assert (await rig.last(DOCUMENT.path, "plain")).json()["model"] == "plain"
    response = await rig.ask(DOCUMENT, model="coder")
    assert response.header("X-Warmgate-Backend") == "llama"
    assert (await rig.last(DOCUMENT.path)).json()["model"] == "tiny"


async def test_a_header_of_ones_own_names_the_session(rig: Rig) -> None:
    rig.plain.on(DOCUMENT.path, *full(DOCUMENT.shape.document(Reply(text="Yes."))))
    for id, chat, words in (("one", "a", "hi"), ("two", "a", "ho"), ("three", "b", "hi")):
        await rig.ask(DOCUMENT, ("X-Request-Id", id), ("X-Chat", chat), messages=[{"role": "user", "content": words}])
    rows = [(await fetch(f"{rig.gateway.admin}/requests/{id}")).json() for id in ("one", "two", "three")]
    assert rows[0]["session"] == rows[1]["session"] != rows[2]["session"]
