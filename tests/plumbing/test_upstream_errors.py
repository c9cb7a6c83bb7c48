"""What a server says goes to the client as it is; what it does not say in time becomes an error in the caller's API."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.plumbing.rig import ALL, CALLS, DOCUMENTS, STREAMS, Call, Rig, call_id, error_message, is_error
from tests.plumbing.test_upstream_dies import told_in_stream
from tests.support.clients import Response, request_bytes
from tests.support.replies import anthropic, llamacpp, ollama, openai
from tests.support.steps import chunk, full, never, raw, status, stream, wait

FIRST_BYTE, IDLE = 1.0, 0.5
RIG = {"timeouts": {"connect": "1s", "first_byte": f"{FIRST_BYTE:g}s", "idle": f"{IDLE:g}s"}}

each_call = pytest.mark.parametrize("call", ALL, ids=call_id)
each_stream = pytest.mark.parametrize("call", STREAMS, ids=call_id)
each_document = pytest.mark.parametrize("call", DOCUMENTS, ids=call_id)

ERRORS: dict[str, Callable[[str], bytes]] = {
    "anthropic": anthropic.error,
    "ollama_chat": ollama.error,
    "ollama_generate": ollama.error,
    "llamacpp": llamacpp.error,
}


def own_error(call: Call, message: str) -> bytes:
    return ERRORS.get(call.name, openai.error)(message)


# errors of the server's own


@each_call
async def test_an_error_passes_unchanged(rig: Rig, call: Call) -> None:
    codes = [400, 401, 404, 413, 422, 429, 500, 501, 503, 529]
    said = own_error(call, "no, for a reason of mine") + b" \n"
    async with rig.expects(*["upstream_error" if code >= 500 else "client_error" for code in codes]):
        for code in codes:
            head = f"HTTP/1.1 {code} Mine\r\nContent-Type: application/json\r\nContent-Length: {len(said)}\r\nRetry-After: 7"
            rig.upstream(call).once(call.path, raw(head.encode() + b"\r\n\r\n" + said))
            response = await rig.ask(call)
            assert (response.status, response.body, response.header("Retry-After")) == (code, said, "7")
            assert response.header("Content-Length") == str(len(said))
    assert len(rig.upstream(call).asked(call.path)) == len(codes)


@each_call
async def test_an_error_that_is_no_json_passes_unchanged(rig: Rig, call: Call) -> None:
    said = b"<html>502 Bad Gateway</html>"
    rig.upstream(call).once(call.path, *full(said, 502, content_type="text/html; charset=utf-8"))
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert (response.status, response.body, response.header("Content-Type")) == (502, said, "text/html; charset=utf-8")


@each_document
async def test_an_error_with_200(rig: Rig, call: Call) -> None:
    """As LM Studio does it: passed on, and counted as what it is."""
    said = own_error(call, "no such endpoint")
    rig.upstream(call).once(call.path, *full(said))
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert (response.status, response.body) == (200, said)


@each_stream
async def test_an_error_in_a_stream(rig: Rig, call: Call) -> None:
    """Nothing is added to a server's own error event, nor is its absence of a terminator told a second time."""
    said = own_error(call, "out of memory")
    event = said + b"\n" if call.ndjson else b"event: error\ndata: " + said + b"\n\n"
    sent = [*call.events()[:3], event]
    rig.upstream(call).once(call.path, *stream(sent, content_type=call.shape.content_type))
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
    assert (response.complete, response.body) == (True, b"".join(sent))


LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


@pytest.mark.parametrize("calls", [STREAMS[:-1], DOCUMENTS[:-1]], ids=["streams", "documents"])
async def test_loading_servers_are_waited_for(rig: Rig, calls: list[Call]) -> None:
    for call in calls:
        said: Any = {"error": "model is still loading"} if call.backend == "ollama" else LOADING
        rig.upstream(call).once(call.path, *full(orjson.dumps(said), 503))
        rig.upstream(call).once(call.path, *call.answer())
    for call, response in await all_at_once(rig, calls, "ok"):
        assert response
        assert (response.status, response.body) == (200, call.whole())


async def test_a_loading_server_is_not_waited_for_by_what_is_no_answer(rig: Rig) -> None:
    rig.llama.once("/v1/embeddings", *full(orjson.dumps(LOADING), 503))
    response = await rig.send(request_bytes("POST", "/v1/embeddings", b'{"model": "tiny", "input": "x"}'))
    assert (response.status, response.json()) == (503, LOADING)


# silence


async def all_at_once(rig: Rig, calls: list[Call], outcome: str) -> list[tuple[Call, Response | None]]:
    """All calls at the same time, because each waits for a limit. None: the connection broke before there was a response."""

    async def ask(call: Call) -> Response | None:
        try:
            return await rig.ask(call)
        except ConnectionError:
            return None

    async with rig.expects(*[outcome] * len(calls)):
        responses = await asyncio.gather(*map(ask, calls))
    return list(zip(calls, responses, strict=True))


async def test_servers_that_never_answer(rig: Rig) -> None:
    for call in ALL:
        rig.upstream(call).once(call.path, never())
    for call, response in await all_at_once(rig, ALL, "timeout"):
        assert response
        assert (response.status, response.complete, is_error(call, response.body)) == (504, True, True)
    for upstream in rig.upstreams.values():
        for request in upstream.requests[-len(ALL) :]:
            if request.answered_by == "script":
                assert await upstream.connections[request.connection].peer_closed(within=2.0)


async def test_servers_that_are_silent_after_their_headers(rig: Rig) -> None:
    for call in STREAMS:
        rig.upstream(call).once(call.path, *stream([], content_type=call.shape.content_type, end=False), never())
    for call, response in await all_at_once(rig, STREAMS, "timeout"):
        assert response
        told_in_stream(call, response.body, b"")


async def test_servers_that_fall_silent_between_events(rig: Rig) -> None:
    for call in STREAMS:
        sent = call.events()[:-2]
        rig.upstream(call).once(call.path, *stream(sent, content_type=call.shape.content_type, end=False), never())
    for call, response in await all_at_once(rig, STREAMS, "timeout"):
        assert response
        assert response.complete
        told_in_stream(call, response.body, b"".join(call.events()[:-2]))


async def test_servers_that_fall_silent_in_a_document(rig: Rig) -> None:
    for call in DOCUMENTS:
        head = status(200, ("Content-Type", "application/json"), ("Content-Length", str(len(call.whole()))))
        rig.upstream(call).once(call.path, head, raw(call.whole()[:20]), never())
    for _, response in await all_at_once(rig, DOCUMENTS, "timeout"):
        assert response is None or not response.complete


async def test_a_slow_but_steady_stream_is_no_silence(rig: Rig) -> None:
    call = CALLS["openai_chat"]
    rig.llama.once(call.path, *call.answer(gap=IDLE / 2))
    async with rig.expects("ok"):
        assert (await rig.ask(call)).body == call.whole()


# framing and coding


@each_stream
@pytest.mark.parametrize("extension", [b";a=b", b';name="va;lue"'])
async def test_chunk_extensions_and_trailers(rig: Rig, call: Call, extension: bytes) -> None:
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(event), extension, event) for event in call.events())
    head = status(200, ("Content-Type", call.shape.content_type), ("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum"))
    rig.upstream(call).once(call.path, head, raw(chunks + b"0%b\r\nX-Sum: 1\r\n\r\n" % extension))
    async with rig.expects("ok"):
        response = await rig.ask(call)
    assert (response.complete, response.body, response.header("Trailer")) == (True, call.whole(), "")


def deflate(data: bytes) -> bytes:
    return zlib.compress(data)


def deflate_raw(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


CODINGS = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": deflate, "raw deflate": deflate_raw}


@each_call
@pytest.mark.parametrize("coding", CODINGS)
async def test_a_compressed_reply(rig: Rig, call: Call, coding: str) -> None:
    """Nobody asked for it, but it is understood, measured, and reaches the client in a form that it can read."""
    packed = CODINGS[coding](call.whole())
    kind = call.shape.content_type if call.streaming else "application/json"
    headers = ("Content-Encoding", coding.split()[-1]), ("Content-Length", str(len(packed)))
    rig.upstream(call).once(call.path, status(200, ("Content-Type", kind), *headers), raw(packed))
    async with rig.expects("ok") as changes:
        response = await rig.ask(call, ("Accept-Encoding", "gzip, br"))
    assert (response.complete, response.body, response.header("Content-Encoding")) == (True, call.whole(), "")
    assert changes.value("warmgate_prompt_tokens_total") == 12
    assert (await rig.last(call.path, call.backend)).header("Accept-Encoding") == "identity"


@each_stream
async def test_a_compressed_stream_flows(rig: Rig, call: Call) -> None:
    """Each event is passed on when it comes, not at the end of the compressed data."""
    packer, go_on = zlib.compressobj(wbits=31), asyncio.Event()

    def packed(data: bytes, how: int = zlib.Z_SYNC_FLUSH) -> bytes:
        return packer.compress(data) + packer.flush(how)

    first, *others = call.events()
    head = status(
        200, ("Content-Type", call.shape.content_type), ("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked")
    )
    steps = [chunk(packed(first)), wait(go_on), chunk(packed(b"".join(others), zlib.Z_FINISH)), chunk(b"")]
    rig.upstream(call).once(call.path, head, *steps)
    async with rig.expects("ok"), asyncio.timeout(10), rig.client() as client:
        await client.send(call.raw())
        response = await client.response()
        assert await response.read_until(first)
        go_on.set()
        assert await response.read() == call.whole()


@each_call
async def test_a_spoilt_compressed_reply_is_no_clean_end(rig: Rig, call: Call) -> None:
    packed = gzip.compress(call.whole())[:-30]
    kind = call.shape.content_type if call.streaming else "application/json"
    headers = ("Content-Encoding", "gzip"), ("Content-Length", str(len(packed)))
    rig.upstream(call).once(call.path, status(200, ("Content-Type", kind), *headers), raw(packed))
    async with rig.expects("upstream_error"):
        try:
            response = await rig.ask(call)
        except ConnectionError:
            return
    last = response.body.strip().split(b"\n")[-1].removeprefix(b"data: ")
    assert not response.complete or error_message(call.path, orjson.loads(last))


@each_call
async def test_a_coding_that_is_not_known_here_passes_as_it_is(rig: Rig, call: Call) -> None:
    data = b"\x1b\x03 whatever br is"
    kind = call.shape.content_type if call.streaming else "application/json"
    headers = ("Content-Encoding", "br"), ("Content-Length", str(len(data)))
    rig.upstream(call).once(call.path, status(200, ("Content-Type", kind), *headers), raw(data))
    response = await rig.ask(call)
    assert (response.status, response.body, response.header("Content-Encoding")) == (200, data, "br")
