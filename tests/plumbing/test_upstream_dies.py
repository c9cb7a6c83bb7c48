"""A server that dies, or ends too early: the client is told, however far the answer had come."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server.relay import AFTER_THE_END
from tests.plumbing.rig import ALL, CALLS, DOCUMENTS, STREAMS, Call, Rig, call_id, is_error
from tests.support.connection import Step
from tests.support.steps import chunk, fin, raw, rst, status, stream

DEATHS = {"fin": fin(), "rst": rst()}
each_death = pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
each_call = pytest.mark.parametrize("call", ALL, ids=call_id)
each_stream = pytest.mark.parametrize("call", STREAMS, ids=call_id)
each_document = pytest.mark.parametrize("call", DOCUMENTS, ids=call_id)


@each_death
@each_call
async def test_before_headers(rig: Rig, call: Call, death: Step) -> None:
    rig.upstream(call).on(call.path, death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert response.status == 502
    assert response.complete
    assert is_error(call, response.body)


@each_death
@each_stream
async def test_after_headers(rig: Rig, call: Call, death: Step) -> None:
    rig.upstream(call).once(call.path, *stream([], content_type=call.shape.content_type, end=False), death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert response.status == 200
    told_in_stream(call, response.body, b"")


@each_death
@each_stream
async def test_after_some_events(rig: Rig, call: Call, death: Step) -> None:
    sent = call.events()[:-2]
    rig.upstream(call).once(call.path, *stream(sent, content_type=call.shape.content_type, end=False), death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    told_in_stream(call, response.body, b"".join(sent))


@each_death
@each_stream
async def test_in_the_middle_of_an_event(rig: Rig, call: Call, death: Step) -> None:
    first, *_, torn = call.events()[:3]
    sent = [first, torn[: len(torn) // 2]]
    rig.upstream(call).once(call.path, *stream(sent, content_type=call.shape.content_type, end=False), death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    told_in_stream(call, response.body, first)


@each_stream
@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
async def test_a_stream_that_ends_cleanly_without_its_terminator(rig: Rig, call: Call, framing: str) -> None:
    sent = call.events()[:3]
    rig.upstream(call).once(call.path, *stream(sent, content_type=call.shape.content_type, framing=framing))  # type: ignore[arg-type]
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    told_in_stream(call, response.body, b"".join(sent))


@each_death
@each_document
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_in_the_middle_of_a_document(rig: Rig, call: Call, framing: str, death: Step) -> None:
    whole = call.whole()
    half = whole[: len(whole) // 2]
    steps = {
        "length": (status(200, ("Content-Type", "application/json"), ("Content-Length", str(len(whole)))), raw(half)),
        "chunked": (status(200, ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")), chunk(half)),
    }
    rig.upstream(call).once(call.path, *steps[framing], death)
    async with rig.expects("upstream_error"):
        try:
            response = await rig.ask(call)
        except ConnectionError:  # the reset overtook the headers
            return
    assert not response.complete


@each_death
@each_document
async def test_after_the_headers_of_a_document(rig: Rig, call: Call, death: Step) -> None:
    """Nothing of the answer has gone out, so that there can be a proper error."""
    rig.upstream(call).once(call.path, status(200, ("Content-Type", "application/json"), ("Content-Length", "99")), death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert response.status == 502
    assert is_error(call, response.body)


@each_death
@each_document
async def test_in_a_document_that_only_the_end_of_the_connection_delimits(rig: Rig, call: Call, death: Step) -> None:
    """HTTP cannot tell half an answer from a whole one here; JSON can."""
    whole = call.whole()
    head = status(200, ("Content-Type", "application/json"), ("Connection", "close"))
    rig.upstream(call).once(call.path, head, raw(whole[: len(whole) // 2]), death)
    async with rig.expects("upstream_error"):
        try:
            response = await rig.ask(call)
        except ConnectionError:
            return
    assert not response.complete

    rig.upstream(call).once(call.path, head, raw(whole), fin())
    async with rig.expects("ok"):
        response = await rig.ask(call)
    assert (response.complete, response.body) == (True, whole)


@each_death
@each_stream
async def test_after_the_terminator_nothing_is_lost(rig: Rig, call: Call, death: Step) -> None:
    events = call.events()
    rig.upstream(call).once(call.path, *stream(events, content_type=call.shape.content_type, end=False), death)
    async with rig.expects("ok"):
        response = await rig.ask(call)
    assert (response.complete, response.body) == (True, b"".join(events))


async def test_servers_that_go_on_after_their_terminator(rig: Rig) -> None:
    """The answer ends for the client, although something comes every now and then, forever."""
    for call in STREAMS:
        more = b"\n" if call.ndjson else b": still here\n\n"
        steps = stream([*call.events(), *[more] * 400], content_type=call.shape.content_type, end=False, gap=0.05)
        rig.upstream(call).once(call.path, *steps)
    async with rig.expects(*["ok"] * len(STREAMS)):
        responses = await asyncio.gather(*(rig.ask(call) for call in STREAMS))
    for call, response in zip(STREAMS, responses, strict=True):
        assert response.complete
        assert response.body.startswith(call.whole())
    for upstream in rig.upstreams.values():
        for request in upstream.requests:
            if request.answered_by == "script":
                assert await upstream.connections[request.connection].peer_closed(within=5.0)


async def test_each_of_several_prompts_has_its_own_end(rig: Rig) -> None:
    """llama.cpp takes a list of prompts, and the second may begin long after the first has ended."""
    call = CALLS["llamacpp"]
    gap = AFTER_THE_END + 0.3
    rig.llama.once(call.path, *stream([call.whole(), call.whole()], gap=gap))
    async with rig.expects("ok"):
        response = await rig.ask(call, prompt=["one", "two"])
    assert response.body == call.whole() * 2


def told_in_stream(call: Call, body: bytes, before: bytes) -> None:
    """The client got these bytes, then an error in the shape that its API has for streams, and nothing like an end."""
    assert body.startswith(before)
    told = body[len(before) :].strip()
    if call.ndjson:
        line = told
    else:
        *name, line = told.split(b"\n")
        line = line.removeprefix(b"data: ")
        if call.name in ("anthropic", "openai_responses"):
            assert name == [b"event: error"]
    assert b"\n" not in line, body
    assert is_error(call, line)
    assert b"[DONE]" not in body
