"""What is no call for an answer: uploads and downloads of any size, pulls, WebSockets, servers that are gone."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from tests.plumbing.rig import ALL, CALLS, STREAMS, Call, Rig, call_id, eventually, is_error
from tests.support.clients import RawClient, request_bytes
from tests.support.http1 import chunk_bytes, head_bytes
from tests.support.process import free_port
from tests.support.steps import Step, choose, chunk, full, never, raw, status, stream, wait

GONE = free_port()
RIG = {
    "config": {
        "limits": {"body": "64KiB", "client_stall": "5s"},
        "models": {
            "spare": {"targets": ["gone/tiny", "llama/tiny"]},
            "spare-gem": {"targets": ["gone-ollama/gem", "ollama/gem"]},
            "lost": {"targets": ["gone/tiny"]},
        },
    },
    "more": {
        "gone": {"kind": "llamacpp", "url": f"http://127.0.0.1:{GONE}"},
        "gone-ollama": {"kind": "ollama", "url": f"http://127.0.0.1:{GONE}"},
    },
}
MIB = 1 << 20
BLOCK = bytes(range(256)) * 4096  # 1 MiB


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/v1/files", "/api/blobs/sha256:0"])
async def test_an_upload_of_any_size(rig: Rig, path: str, chunked: bool) -> None:
    size = 100
    upstream = rig.ollama if path.startswith("/api") else rig.llama
    upstream.once(path, *full(b'{"done": true}'))
    await rig.send(request_bytes("GET", "/unknown"), method="GET")
    before = rig.gateway.resident_bytes
    highest = before
    framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(size * MIB))
    async with rig.expects("ok"), asyncio.timeout(30), rig.client() as client:
        await client.send(head_bytes(f"POST {path} HTTP/1.1", [("Host", "localhost"), framing]))
        for _ in range(size):
            await client.send(chunk_bytes(BLOCK) if chunked else BLOCK)
            highest = max(highest, rig.gateway.resident_bytes)
        if chunked:
            await client.send(chunk_bytes(b""))
        response = await client.response()
        assert (response.status, await response.read()) == (200, b'{"done": true}')
    request = upstream.asked(path)[-1]
    assert hashlib.sha256(request.body).digest() == hashlib.sha256(BLOCK * size).digest()
    assert request.header("Content-Length") == ("" if chunked else str(size * MIB))
    assert highest - before < 24 * MIB


async def test_a_download_of_any_size(rig: Rig) -> None:
    size = 100
    head = status(200, ("Content-Type", "application/octet-stream"), ("Content-Length", str(size * MIB)))
    rig.llama.once("/v1/files/1/content", head, *[raw(BLOCK)] * size)
    before, digest, highest, got = rig.gateway.resident_bytes, hashlib.sha256(), 0, 0
    async with rig.expects("ok"), asyncio.timeout(30), rig.client() as client:
        await client.send(request_bytes("GET", "/v1/files/1/content"))
        response = await client.response(method="GET")
        async for piece in response.pieces():
            digest.update(piece.data)
            got += len(piece.data)
            response.arrived.clear()
            highest = max(highest, rig.gateway.resident_bytes)
    assert (response.complete, got) == (True, size * MIB)
    assert digest.digest() == hashlib.sha256(BLOCK * size).digest()
    assert highest - before < 24 * MIB


async def test_a_pull_flows(rig: Rig) -> None:
    """Each line of progress comes when it is sent."""
    go_on = [asyncio.Event() for _ in range(3)]
    lines = [b'{"status":"pulling %d"}\n' % number for number in range(3)]
    steps: list[Step] = [status(200, ("Content-Type", "application/x-ndjson"), ("Transfer-Encoding", "chunked"))]
    for line, event in zip(lines, go_on, strict=True):
        steps += [chunk(line), wait(event)]
    rig.ollama.once("/api/pull", *steps, chunk(b""))
    async with rig.expects("ok"), asyncio.timeout(10), rig.client() as client:
        await client.send(request_bytes("POST", "/api/pull", b'{"name": "gem"}'))
        response = await client.response()
        assert (response.header("X-Accel-Buffering"), response.header("Cache-Control")) == ("no", "no-cache, no-transform")
        for number, event in enumerate(go_on):
            assert await response.read_until(lines[number])
            event.set()
        assert await response.read() == b"".join(lines)


async def test_an_upload_flows(rig: Rig) -> None:
    """The server sees the beginning of a body before its end has been sent."""
    rig.llama.once("/v1/files", *full(b"{}"))
    first = b"x" * 70_000
    async with rig.expects("ok"), asyncio.timeout(10), rig.client() as client:
        await client.send(
            head_bytes("POST /v1/files HTTP/1.1", [("Host", "localhost"), ("Content-Length", str(3 * MIB))]) + first
        )

        async def begun() -> bool:
            return bool(rig.llama.asked("/v1/files")) and rig.llama.asked("/v1/files")[-1].body == first

        await eventually(begun, "the head of the upload at the server")
        await client.send(bytes(3 * MIB - len(first)))
        response = await client.response()
        assert (response.status, await response.read()) == (200, b"{}")


async def test_an_upload_that_is_answered_before_its_end(rig: Rig) -> None:
    """The answer comes through, and the rest of the upload is not taken for a request."""
    rig.llama.once("/v1/files", *full(b'{"error": "no space"}', 507, ("Connection", "close")), at_head=True)
    async with asyncio.timeout(10), rig.client() as client:
        await client.send(
            head_bytes("POST /v1/files HTTP/1.1", [("Host", "localhost"), ("Content-Length", str(3 * MIB))]) + BLOCK
        )
        response = await client.response()
        assert (response.status, await response.read()) == (507, b'{"error": "no space"}')


@pytest.mark.parametrize("leave", [RawClient.fin, RawClient.rst])
async def test_a_client_that_leaves_its_upload(rig: Rig, leave: object) -> None:
    rig.llama.once("/v1/files", never())
    async with rig.expects("cancelled"):
        async with rig.client() as client:
            await client.send(
                head_bytes("POST /v1/files HTTP/1.1", [("Host", "localhost"), ("Content-Length", str(9 * MIB))]) + BLOCK
            )

            async def begun() -> bool:
                return bool(rig.llama.asked("/v1/files"))

            await eventually(begun, "the upload at the server")
            number = rig.llama.asked("/v1/files")[-1].connection
            leave(client)  # type: ignore[operator]
        assert await rig.llama.connections[number].peer_closed(within=2.0)


async def test_a_model_named_in_a_form_or_a_path(rig: Rig) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ngem\r\n--x--\r\n'
    rig.ollama.on("/v1/audio/transcriptions", *full(b"{}"))
    headers = ("Content-Type", "multipart/form-data; boundary=x")
    assert (await rig.send(request_bytes("POST", "/v1/audio/transcriptions", form, headers))).status == 200
    assert (await rig.last("/v1/audio/transcriptions", "ollama")).body == form


async def test_dialect_paths_on_other_backends_than_kinds(rig: Rig) -> None:
    """A path that no server of the model serves is refused with words, not sent to a server of another kind."""
    response = await rig.ask(CALLS["ollama_chat"], model="lost")
    assert response.status == 404
    assert "lost" in response.json()["error"]


# servers that are gone


@pytest.mark.parametrize("call", ALL[:7] + ALL[8:15], ids=call_id)
async def test_another_server_takes_over(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, choose(lambda request: call.answer()))
    async with rig.expects("ok"):
        response = await rig.ask(call, model="spare-gem" if call.backend == "ollama" else "spare")
    assert (response.status, response.body, response.header("X-Warmgate-Backend")) == (200, call.whole(), call.backend)


async def test_no_other_server(rig: Rig) -> None:
    for name in ("openai_chat", "anthropic", "openai_responses", "llamacpp"):
        async with rig.expects("upstream_error"):
            response = await rig.ask(CALLS[name], model="lost")
        assert (response.status, is_error(CALLS[name], response.body)) == (502, True)
        assert "refuses connections" in response.body.decode()


async def test_a_server_that_goes_while_it_is_not_looked_at(rig: Rig) -> None:
    """No probe has told that it is gone: the refused connection does, and the request goes on to the other one."""
    stopped = STREAMS[0]
    await rig.plain.stop()
    try:
        async with rig.expects("upstream_error"):
            response = await rig.ask(CALLS["plain_openai"])
        assert (response.status, is_error(stopped, response.body)) == (502, True)
    finally:
        await rig.plain.start()
    rig.plain.on("/v1/chat/completions", *stream(CALLS["plain_openai"].events()))
    async with rig.expects("ok"):
        assert (await rig.ask(CALLS["plain_openai"])).status == 200
