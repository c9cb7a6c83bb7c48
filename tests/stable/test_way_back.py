"""The way back: a server that refuses an edited body gets the client's own bytes, once, and the client sees one clean reply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from tests.stable.seen import Seen
from tests.stable.stand import LINED, SAID, SCRIPTED, Stand, eventually
from tests.support.clients import fetch
from tests.support.connection import Request, Step
from tests.support.replies import SHAPES, Reply, anthropic, ollama, openai
from tests.support.replies.reply import sse
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import choose, full, ordinary, sleep, stream

LAB = "You are Pelle, a careful helper for a small lab.\nNow: 2026-03-04 10:15:07"
USER = [{"role": "user", "content": "List the parts in tray 4."}]
SYSTEM = [{"role": "system", "content": LAB}]
REFUSED = "this template cannot take it"


@dataclass(frozen=True, slots=True)
class Dialect:
    """model: at which of the scripted servers; refusal: what it says; in_band: the same as an event of a stream."""

    path: str
    model: str
    content: dict[str, Any]
    refusal: bytes
    in_band: bytes

    def body(self, *, streaming: bool) -> dict[str, Any]:
        return {"model": self.model, **self.content, "stream": streaming}


_IN_BAND = {"code": 500, "message": REFUSED, "type": "server_error"}
DIALECTS = {
    "chat": Dialect(
        "/v1/chat/completions", SCRIPTED, {"messages": [*SYSTEM, *USER]}, openai.error(REFUSED), sse({"error": _IN_BAND})
    ),
    "messages": Dialect(
        "/v1/messages",
        SCRIPTED,
        {"max_tokens": 64, "system": LAB, "messages": USER},
        anthropic.error(REFUSED),
        sse(anthropic.error(REFUSED), "error"),
    ),
    "responses": Dialect(
        "/v1/responses",
        SCRIPTED,
        {"instructions": LAB, "input": "List the parts in tray 4."},
        openai.error(REFUSED),
        sse({"type": "error", "code": "server_error", "message": REFUSED, "param": None}, "error"),
    ),
    "ollama": Dialect("/api/chat", LINED, {"messages": [*SYSTEM, *USER]}, ollama.error(REFUSED), ollama.error(REFUSED) + b"\n"),
    "generate": Dialect(
        "/api/generate", LINED, {"system": LAB, "prompt": "Tray 4?"}, ollama.error(REFUSED), ollama.error(REFUSED) + b"\n"
    ),
}

each_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
each_way = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "document"])


def edited(request: Request) -> bool:
    return b"<context>" in request.body


def refuse(*steps: Step) -> Step:
    """These steps for edited bodies, an ordinary answer for the client's own."""

    def pick(request: Request) -> Iterable[Step]:
        return steps if edited(request) else (ordinary(Reply(text=SAID)),)

    return choose(pick)


def server(stand: Stand, dialect: Dialect) -> ScriptedUpstream:
    return stand.scripted if dialect.model == SCRIPTED else stand.lined


def answer(dialect: Dialect, *, streaming: bool) -> bytes:
    """The bytes of the one ordinary answer."""
    shape = SHAPES[dialect.path]
    return b"".join(shape.stream(Reply(text=SAID))) if streaming else shape.document(Reply(text=SAID))


async def rejected(stand: Stand) -> float:
    return (await stand.gateway.metrics()).value("warmgate_rewrite_rejected_total")


def raws(stand: Stand, dialect: Dialect) -> list[bytes]:
    return [request.body for request in server(stand, dialect).asked(dialect.path)]


def wanted(dialect: Dialect, *, streaming: bool) -> bytes:
    """A body as clients spell it, with the fields that the gateway would add there already."""
    body = dialect.body(streaming=streaming)
    if dialect.path == "/v1/chat/completions" and streaming:
        body["stream_options"] = {"include_usage": True}
    return orjson.dumps(body, option=orjson.OPT_INDENT_2)


@pytest.mark.parametrize("status", [400, 413, 422, 500, 501])
@each_way
@each_dialect
async def test_a_refused_edit_is_sent_again_as_the_client_wrote_it(
    stand: Stand, dialect: Dialect, streaming: bool, status: int
) -> None:
    server(stand, dialect).on(dialect.path, refuse(*full(dialect.refusal, status)))
    before, raw = await rejected(stand), wanted(dialect, streaming=streaming)
    response = await stand.ask(dialect.path, None, raw=raw)
    assert response.body == answer(dialect, streaming=streaming)
    assert response.header("X-Warmgate-Edits") == ""
    first, second = raws(stand, dialect)
    assert b"<context>" in first
    assert second == raw
    await eventually_rejected(stand, before + 1)


async def eventually_rejected(stand: Stand, count: float) -> None:
    async def counted() -> bool:
        return await rejected(stand) == count

    await eventually(counted, f"{count} rejections counted")


@each_dialect
async def test_an_error_as_the_first_event_of_a_stream_is_such_a_refusal(stand: Stand, dialect: Dialect) -> None:
    kind = SHAPES[dialect.path].content_type
    server(stand, dialect).on(dialect.path, refuse(*stream([dialect.in_band], content_type=kind)))
    before, raw = await rejected(stand), wanted(dialect, streaming=True)
    response = await stand.ask(dialect.path, None, raw=raw)
    assert response.body == answer(dialect, streaming=True)
    assert raws(stand, dialect)[1:] == [raw]
    await eventually_rejected(stand, before + 1)


@each_dialect
async def test_twice_puts_the_route_into_observe_and_says_so(stand: Stand, dialect: Dialect) -> None:
    server(stand, dialect).on(dialect.path, refuse(*full(dialect.refusal, 400)))
    raw = wanted(dialect, streaming=False)
    for count in (2, 4, 5):
        response = await stand.ask(dialect.path, None, raw=raw)
        assert response.body == answer(dialect, streaming=False)
        assert len(raws(stand, dialect)) == count
    assert raws(stand, dialect)[-1] == raw
    said = await eventually(lambda: stand.logged("refused edited prompts"), "a log line")
    assert len(said) == 1
    assert dialect.model in said[0]["message"]
    assert "Pelle" not in stand.gateway.log
    found = (await stand.gateway.metrics()).value("warmgate_canonical_edits_total", rule="clock", action="observe")
    assert found > 0


async def test_another_client_and_another_model_are_other_routes(stand: Stand) -> None:
    dialect = DIALECTS["chat"]
    stand.scripted.on(dialect.path, refuse(*full(dialect.refusal, 400)))
    for _ in range(2):
        await stand.ask(dialect.path, dialect.body(streaming=False))
    await stand.ask(dialect.path, dialect.body(streaming=False), agent="somebody-else/1")
    assert sum(b"<context>" in raw for raw in raws(stand, dialect)) == 3


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
@each_dialect
async def test_what_no_edit_causes_is_the_clients_to_see(stand: Stand, dialect: Dialect, status: int) -> None:
    server(stand, dialect).on(dialect.path, refuse(*full(dialect.refusal, status)))
    before = await rejected(stand)
    response = await stand.ask(dialect.path, dialect.body(streaming=False), status=status)
    assert REFUSED.encode() in response.body
    assert all(b"<context>" in raw for raw in raws(stand, dialect))
    assert len(raws(stand, dialect)) == 1
    assert await rejected(stand) == before


@each_way
@each_dialect
async def test_a_body_that_is_wrong_in_itself_is_not_held_against_the_edit(
    stand: Stand, dialect: Dialect, streaming: bool
) -> None:
    server(stand, dialect).on(dialect.path, *full(dialect.refusal, 400))
    before = await rejected(stand)
    for _ in range(3):
        response = await stand.ask(dialect.path, dialect.body(streaming=streaming), status=400)
        assert response.body == dialect.refusal
    assert [b"<context>" in raw for raw in raws(stand, dialect)] == [True, False] * 3
    assert await rejected(stand) == before


async def test_nothing_is_retried_that_was_not_edited(stand: Stand) -> None:
    dialect = DIALECTS["chat"]
    stand.scripted.on(dialect.path, *full(dialect.refusal, 400))
    await stand.ask(dialect.path, {"model": SCRIPTED, "messages": USER}, status=400)
    assert len(raws(stand, dialect)) == 1


@pytest.mark.parametrize("name", ["chat", "messages", "responses", "ollama"])
async def test_an_error_after_content_is_not_retried(stand: Stand, name: str) -> None:
    dialect = DIALECTS[name]
    shape = SHAPES[dialect.path]
    events = [*shape.stream(Reply(text=SAID))[:-3], dialect.in_band]
    server(stand, dialect).on(dialect.path, *stream(events, content_type=shape.content_type))
    response = await stand.ask(dialect.path, dialect.body(streaming=True))
    assert REFUSED.encode() in response.body
    assert len(raws(stand, dialect)) == 1


async def test_a_conversation_that_went_back_once_is_still_told_everything(stand: Stand) -> None:
    """The refused note was never read by the model, so the next turn tells its values again."""
    dialect = DIALECTS["chat"]
    stand.scripted.once(dialect.path, *full(dialect.refusal, 400))
    body = dialect.body(streaming=False)
    await stand.ask(dialect.path, body)
    body["messages"] = [*body["messages"], {"role": "assistant", "content": SAID}, {"role": "user", "content": "And tray 5?"}]
    await stand.ask(dialect.path, body)
    seen = Seen(dialect.path, raws(stand, dialect)[-1])
    assert "10:15:07" in seen.notes
    assert "10:15:07" not in seen.system


async def beats(stand: Stand, **settings: str) -> None:
    stand.gateway.write_config(heartbeat=settings)
    response = await fetch(f"{stand.gateway.admin}/-/reload", {})
    assert response.status == 200, response.body


@each_way
@pytest.mark.parametrize("name", ["chat", "messages", "ollama"])
async def test_the_way_back_is_open_after_heartbeats(stand: Stand, name: str, streaming: bool) -> None:
    """A slow refusal: the client has been kept alive meanwhile, and its reply is the one to its own bytes."""
    dialect = DIALECTS[name]
    server(stand, dialect).on(dialect.path, refuse(sleep(0.6), *full(dialect.refusal, 400)))
    await beats(stand, before_headers="200ms", after_headers="200ms", non_stream="200ms")
    try:
        raw = wanted(dialect, streaming=streaming)
        response = await stand.ask(dialect.path, None, raw=raw)
    finally:
        await beats(stand)
    said = answer(dialect, streaming=streaming)
    assert response.body.endswith(said)
    assert response.body != said
    assert REFUSED.encode() not in response.body
    assert raws(stand, dialect)[1:] == [raw]


@pytest.mark.parametrize("name", ["chat", "messages", "ollama"])
async def test_both_bodies_are_refused_after_heartbeats(stand: Stand, name: str) -> None:
    dialect = DIALECTS[name]
    server(stand, dialect).on(dialect.path, sleep(0.4), *full(dialect.refusal, 400))
    await beats(stand, before_headers="200ms", after_headers="200ms")
    try:
        response = await stand.ask(dialect.path, dialect.body(streaming=True))
    finally:
        await beats(stand)
    assert response.body.count(REFUSED.encode()) == 1
    assert len(raws(stand, dialect)) == 2
