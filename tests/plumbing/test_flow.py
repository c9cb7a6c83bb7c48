"""Cases F05 to F15: who leaves is noticed, what comes is passed on at once, and connections are used again."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable

import pytest

from tests.plumbing.rig import ALL, CALLS, DOCUMENTS, STREAMS, Call, Rig, call_id, is_error
from tests.support.clients import RawClient, request_bytes
from tests.support.connection import Step
from tests.support.http1 import chunk_bytes
from tests.support.replies import Reply
from tests.support.steps import chunk, fin, full, never, ordinary, raw, rst, sleep, status, stream, wait

each_call = pytest.mark.parametrize("call", ALL, ids=call_id)
each_stream = pytest.mark.parametrize("call", STREAMS, ids=call_id)
each_document = pytest.mark.parametrize("call", DOCUMENTS, ids=call_id)

LEAVING: dict[str, Callable[[RawClient], None]] = {"fin": RawClient.fin, "rst": RawClient.rst}
each_leaving = pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
each_death = pytest.mark.parametrize("death", [fin(), rst()], ids=["fin", "rst"])


# F05, F06: a client that leaves


@each_leaving
@each_call
async def test_a_client_that_leaves_a_silent_server(rig: Rig, call: Call, leave: Callable[[RawClient], None]) -> None:
    rig.upstream(call).once(call.path, never())
    async with rig.expects("cancelled") as changes:
        async with rig.client() as client:
            await client.send(call.raw())
            asked = await rig.last(call.path, call.backend)
            leave(client)
        assert await rig.upstream(call).connections[asked.connection].peer_closed(within=1.0)
    assert changes.value("warmgate_client_disconnects_total") == 1


@each_leaving
@each_call
async def test_a_client_that_leaves_in_the_middle(rig: Rig, call: Call, leave: Callable[[RawClient], None]) -> None:
    whole = call.whole()
    if call.streaming:
        begun = stream(call.events()[:3], content_type=call.shape.content_type, end=False)
    else:
        begun = (status(200, ("Content-Type", "application/json"), ("Content-Length", str(len(whole)))), raw(whole[:30]))
    rig.upstream(call).once(call.path, *begun, never())
    async with rig.expects("cancelled"):
        async with rig.client() as client:
            await client.send(call.raw())
            response = await client.response()
            assert await response.read_until(call.events()[0] if call.streaming else whole[:30])
            asked = await rig.last(call.path, call.backend)
            leave(client)
        assert await rig.upstream(call).connections[asked.connection].peer_closed(within=1.0)


# F07, F08: at once, and whole


@each_stream
async def test_each_event_is_passed_on_when_it_comes(rig: Rig, call: Call) -> None:
    """The server sends an event only after the client has the one before: what is held back is never read."""
    seen = [asyncio.Event() for _ in call.events()]
    steps: list[Step] = [status(200, ("Content-Type", call.shape.content_type), ("Transfer-Encoding", "chunked"))]
    for event, go_on in zip(call.events(), seen, strict=True):
        steps += [chunk(event), wait(go_on)]
    rig.upstream(call).once(call.path, *steps, chunk(b""))
    async with rig.expects("ok"), asyncio.timeout(10), rig.client() as client:
        await client.send(call.raw(("Accept-Encoding", "gzip")))
        response = await client.response()
        sent = b""
        for event, go_on in zip(call.events(), seen, strict=True):
            sent += event
            assert await response.read_until(sent)
            go_on.set()
        assert await response.read() == sent
    assert response.header("X-Accel-Buffering") == "no"
    assert "no-cache" in response.header("Cache-Control")
    assert (response.header("Content-Encoding"), response.header("Content-Length")) == ("", "")


@pytest.mark.alone
async def test_an_event_costs_no_time(rig: Rig) -> None:
    """Between an event's leaving the server and its coming at the client: the median over all events of all dialects."""
    lags: list[float] = []
    for call in STREAMS:
        sent: list[float] = []

        def sending(event: bytes, times: list[float] = sent) -> Step:
            async def step(connection: object) -> None:
                times.append(time.monotonic())
                await chunk(event)(connection)  # type: ignore[arg-type]

            return step

        steps: list[Step] = [status(200, ("Content-Type", call.shape.content_type), ("Transfer-Encoding", "chunked"))]
        for event in call.events():
            steps += [sleep(0.02), sending(event)]
        rig.upstream(call).once(call.path, *steps, chunk(b""))
        response = await rig.ask(call)
        assert len(response.arrived) == len(sent)
        lags += [piece.at - at for piece, at in zip(response.arrived, sent, strict=True)]
    assert sorted(lags)[len(lags) // 2] < 0.02


@each_stream
async def test_events_and_characters_survive_any_cut(rig: Rig, call: Call) -> None:
    """A character of several bytes, or an event, that is split between two reads."""
    whole = call.whole(Reply(text="naïve 日本語 🚀 done"))
    async with rig.expects("ok", "ok", "ok"):
        for size in (1, 7, 100):
            cut = [whole[at : at + size] for at in range(0, len(whole), size)]
            rig.upstream(call).once(call.path, *stream(cut, content_type=call.shape.content_type))
            response = await rig.ask(call)
            assert (response.complete, response.body) == (True, whole)


# F09, F10: a connection that the server closes as it is used again


@each_call
async def test_a_reused_connection_that_is_reset(rig: Rig, call: Call) -> None:
    upstream = rig.upstream(call)
    upstream.on(call.path, ordinary())
    async with rig.expects("ok", "ok"):
        assert (await rig.ask(call)).status == 200
        first = (await rig.last(call.path, call.backend)).connection
        upstream.reset_at_request = upstream.connections[first].scripted + 1
        before = len(upstream.asked(call.path))
        response = await rig.ask(call)
        upstream.reset_at_request = None
    assert (response.status, response.complete) == (200, True)
    tried = upstream.asked(call.path)[before:]
    assert [request.connection == first for request in tried] == [True, False]
    assert [request.complete for request in tried] == [False, True]


@each_death
@each_call
async def test_a_reused_connection_that_dies(rig: Rig, call: Call, death: Step) -> None:
    rig.upstream(call).once(call.path, *call.answer())
    rig.upstream(call).once(call.path, death, at_head=True)
    rig.upstream(call).once(call.path, *call.answer())
    async with rig.expects("ok", "ok"):
        assert (await rig.ask(call)).body == call.whole()
        assert (await rig.ask(call)).body == call.whole()


@each_death
async def test_only_one_more_try(rig: Rig, death: Step) -> None:
    call = CALLS["openai_chat"]
    rig.llama.once(call.path, *call.answer())
    assert (await rig.ask(call)).status == 200
    before = len(rig.llama.asked(call.path))
    rig.llama.on(call.path, death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert (response.status, is_error(call, response.body)) == (502, True)
    assert len(rig.llama.asked(call.path)) - before == 2


@each_death
@pytest.mark.parametrize("call", [STREAMS[0], DOCUMENTS[3]], ids=call_id)
@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"], ids=["letter", "head"])
async def test_no_second_try_after_the_first_byte(rig: Rig, call: Call, begun: bytes, death: Step) -> None:
    """The server may have done the work already."""
    rig.upstream(call).once(call.path, *call.answer())
    assert (await rig.ask(call)).status == 200
    before = len(rig.upstream(call).asked(call.path))
    rig.upstream(call).on(call.path, raw(begun), sleep(0.05), death)
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert (response.status, is_error(call, response.body)) == (502, True)
    assert len(rig.upstream(call).asked(call.path)) - before == 1


# F11, F12: compressed replies and their lengths


@each_document
async def test_a_compressed_document(rig: Rig, call: Call) -> None:
    rig.upstream(call).once(call.path, *call.answer(gzipped=True))
    response = await rig.ask(call, ("Accept-Encoding", "gzip, br"))
    assert decoded(response.body, response.header("Content-Encoding")) == call.whole()
    assert response.header("Content-Length") in ("", str(len(response.body)))


@pytest.mark.parametrize("path", ["/v1/embeddings", "/tokenize", "/unknown"])
async def test_a_compressed_reply_that_is_passed_through(rig: Rig, path: str) -> None:
    hop = (
        ("Connection", "close, X-Mine"),
        ("Keep-Alive", "5"),
        ("X-Mine", "1"),
        ("Proxy-Authenticate", "x"),
        ("Upgrade", "h2c"),
    )
    rig.llama.once(path, *full(b'{"a": 1}' * 99, 200, *hop, gzipped=True))
    ask = request_bytes("POST", path, b'{"model": "tiny"}', ("Accept-Encoding", "gzip, br"), ("TE", "trailers"))
    response = await rig.send(ask)
    assert decoded(response.body, response.header("Content-Encoding")) == b'{"a": 1}' * 99
    assert response.header("Content-Length") == str(len(response.body))
    assert not [name for name, _ in hop if response.header(name)]
    request = await rig.last(path)
    assert (request.header("Accept-Encoding"), request.header("TE")) == ("gzip, br", "")


async def test_a_list_for_a_client_that_likes_gzip(rig: Rig) -> None:
    response = await rig.send(request_bytes("GET", "/v1/models", b"", ("Accept-Encoding", "gzip")), method="GET")
    assert b'"tiny"' in decoded(response.body, response.header("Content-Encoding"))
    assert response.header("Content-Length") in ("", str(len(response.body)))


def decoded(body: bytes, coding: str) -> bytes:
    return gzip.decompress(body) if coding == "gzip" else body


# F15, F16: the end is where the framing says, and the connection is kept


@each_call
async def test_an_answer_ends_with_its_last_chunk(rig: Rig, call: Call) -> None:
    """The server leaves the connection open, and it serves the next request too."""
    ended: list[float] = []

    async def note(connection: object) -> None:
        ended.append(time.monotonic())

    whole = call.whole()
    cut = [whole[at : at + 11] for at in range(0, len(whole), 11)]
    kind = call.shape.content_type if call.streaming else "application/json"
    head = status(200, ("Content-Type", kind), ("Transfer-Encoding", "chunked"))
    steps = (head, raw(b"".join(map(chunk_bytes, cut))), note, chunk(b""))
    rig.upstream(call).on(call.path, *steps)
    lags = []
    async with rig.expects("ok", "ok", "ok"):
        for _ in range(3):
            response = await rig.ask(call)
            assert (response.complete, response.body) == (True, whole)
            lags.append(time.monotonic() - ended[-1])
    assert min(lags) < 0.05
    numbers = [request.connection for request in rig.upstream(call).asked(call.path)[-3:]]
    assert len(set(numbers)) == 1


@each_stream
async def test_an_answer_with_a_length_or_until_the_end(rig: Rig, call: Call) -> None:
    async with rig.expects("ok", "ok"):
        for framing in ("length", "close"):
            steps = stream(call.events(), content_type=call.shape.content_type, framing=framing)  # type: ignore[arg-type]
            rig.upstream(call).once(call.path, *steps)
            response = await rig.ask(call)
            assert (response.complete, response.body) == (True, call.whole())
            assert response.header("Transfer-Encoding") == "chunked"
