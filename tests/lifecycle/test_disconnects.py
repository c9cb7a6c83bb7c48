"""A client that leaves frees the model: its upstream connection is closed within a second, whatever the request waits for.

Clients leave in waves of fifty, half with FIN and half with a reset. A wave's last upstream connection must be closed within a
second of its *first* client's leaving, which is stricter than a second for each and needs no pairing of connections.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.lifecycle.waiting import CHAT, ask, body, count, quiet, until
from tests.support import personas
from tests.support.clients import RawClient, fetch, post, request_bytes
from tests.support.connection import Request, Step
from tests.support.process import GatewayProcess, free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import choose, chunk, never, raw, status, stop_reading
from tests.support.upstream_process import Report, UpstreamProcess

WAVE = 50
LIMIT = 1.0  # seconds from a client's leaving to the closing of its upstream connection


async def arrive(held: AsyncExitStack, url: str, request: bytes, number: int = WAVE) -> list[RawClient]:
    clients = [await held.enter_async_context(RawClient(url)) for _ in range(number)]
    await asyncio.gather(*(client.send(request) for client in clients))
    return clients


def leave(clients: list[RawClient]) -> float:
    """Half with FIN, half with a reset. Returns when the first left."""
    began = time.monotonic()
    for number, client in enumerate(clients):
        client.rst() if number % 2 else client.fin()
    return began


async def wave(gateway: GatewayProcess, upstream: UpstreamProcess, done: int, *, stream: bool, answered: bool) -> list[float]:
    """One wave; returns the seconds that each upstream connection outlived the first client's leaving."""
    async with AsyncExitStack() as held:
        clients = await arrive(held, gateway.url, ask(stream=stream))
        if answered:
            replies = await asyncio.gather(*(client.response() for client in clients))
            assert all(await asyncio.gather(*(reply.read_until(b"only") for reply in replies)))

        async def all_there() -> bool:
            return (await upstream.report()).requests == done + WAVE

        assert await until(all_there)
        left = leave(clients)
        report: Report = await upstream.wait_closed(done + WAVE, within=5.0)
    assert len(report.closed) == done + WAVE
    return [at - left for at in report.closed[done:]]


@pytest.mark.alone
@pytest.mark.parametrize("mode", ["silent", "stalled"])
async def test_a_thousand_clients_that_leave_free_the_upstream(tmp_path: Path, mode: str) -> None:
    """500 before the upstream's headers, 500 after them, each half streaming; together a thousand."""
    async with (
        UpstreamProcess(mode) as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai", "parallel": WAVE}}}) as gateway,
    ):
        seconds: list[float] = []
        for number in range(10):
            stream = number % 2 == 0
            seconds += await wave(gateway, upstream, len(seconds), stream=stream, answered=mode == "stalled")
        assert len(seconds) == 500
        assert max(seconds) < LIMIT
        assert await quiet(gateway)
        metrics = await gateway.metrics()
        assert metrics.value("warmgate_requests_total", outcome="cancelled") == 500
        assert metrics.value("warmgate_requests_total") == 500
        assert metrics.value("warmgate_client_disconnects_total") == 500


HALF_A_DOCUMENT = (status(200, ("Content-Type", "application/json"), ("Content-Length", "999")), raw(b'{"half":'), never())
HEADERS_ONLY = (status(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")), never())
OPAQUE = (status(200, ("Content-Type", "audio/mpeg"), ("Transfer-Encoding", "chunked")), chunk(b"la la"), never())

QUIET_UPSTREAMS: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "half a document": (CHAT, body(stream=False), HALF_A_DOCUMENT),
    "headers of a stream": (CHAT, body(), HEADERS_ONLY),
    "completions": ("/v1/completions", {"model": "tiny", "prompt": "hi"}, (never(),)),
    "responses": ("/v1/responses", {"model": "tiny", "input": "hi", "stream": True}, (never(),)),
    "anthropic": ("/v1/messages", {"model": "tiny", "max_tokens": 9, "messages": body()["messages"]}, (never(),)),
    "counting": ("/v1/messages/count_tokens", {"model": "tiny", "messages": body()["messages"]}, (never(),)),
    "llama.cpp": ("/completion", {"prompt": "hi"}, (never(),)),
    "embeddings": ("/v1/embeddings", {"model": "tiny", "input": "hi"}, (never(),)),
    "something unknown": ("/v1/audio/speech", {"model": "tiny", "input": "hi"}, OPAQUE),
}


async def test_whatever_was_asked(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(personas.llamacpp()) as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "llamacpp"}}}) as gateway,
    ):
        for number, (case, (path, asked, steps)) in enumerate(QUIET_UPSTREAMS.items(), 1):
            upstream.on(path, *steps)
            before = len(upstream.asked(path))
            async with AsyncExitStack() as held:
                clients = await arrive(held, gateway.url, post(path, asked), 2)  # the persona has two slots
                requests = (await upstream.wait_for(path, before + 2))[before:]
                left = leave(clients)
                for connection in [upstream.connections[request.connection] for request in requests]:
                    assert await connection.peer_closed(LIMIT), f"{case}: still open"
                    assert connection.closed_at is not None
                    assert connection.closed_at - left < LIMIT, case
            assert await quiet(gateway), case
            assert await ended(gateway, 2 * number), case


async def ended(gateway: GatewayProcess, number: int) -> bool:
    """Whether so many requests have ended, and each because its client left."""

    async def told() -> bool:
        return await count(gateway, outcome="cancelled") == number

    return await until(told) and await count(gateway) == number


async def test_ollama_s_streams(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(personas.ollama("tiny:latest")) as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "ollama"}}}) as gateway,
        RawClient(gateway.url) as client,
    ):
        upstream.on("/api/chat", never())
        await client.send(post("/api/chat", {"model": "tiny", "messages": body()["messages"]}))
        (request,) = await upstream.wait_for("/api/chat")
        client.rst()
        assert await upstream.connections[request.connection].peer_closed(LIMIT)
        assert await quiet(gateway)


async def test_in_the_queue(tmp_path: Path) -> None:
    """One place, taken; those who wait for it and leave are never sent, and the place is free for the next."""
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai", "parallel": 1}}}) as gateway,
        AsyncExitStack() as held,
    ):
        upstream.on(CHAT, never())
        (first,) = await arrive(held, gateway.url, ask(), 1)
        await upstream.wait_for(CHAT)
        waiting = await arrive(held, gateway.url, ask(), 20)

        async def all_wait() -> bool:
            return await waiting_at(gateway) == 20

        assert await until(all_wait)
        leave(waiting)

        async def none_waits() -> bool:
            return await waiting_at(gateway) == 0

        assert await until(none_waits, within=LIMIT)
        assert len(upstream.asked(CHAT)) == 1
        (next_one,) = await arrive(held, gateway.url, ask(), 1)
        first.fin()
        await upstream.wait_for(CHAT, 2, within=LIMIT)
        next_one.rst()
        assert await quiet(gateway)
        assert await ended(gateway, 22)


async def waiting_at(gateway: GatewayProcess, backend: str = "b") -> int:
    status_page = (await fetch(f"{gateway.admin}/status")).json()
    return int(next(entry for entry in status_page["backends"] if entry["name"] == backend)["waiting"])


@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_in_the_middle_of_sending(tmp_path: Path, path: str, how: str) -> None:
    """A prompt that never arrives whole is never sent on; an upload that was being sent on is given up."""
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai", "parallel": WAVE}}}) as gateway,
        RawClient(gateway.url) as client,
    ):
        upstream.on(path, never())
        whole = request_bytes("POST", path, b"x" * 3_000_000, ("Content-Type", "application/octet-stream"))
        await client.send(whole[:1_000_000])
        if path != CHAT:
            (request,) = await begun(upstream, path)
        getattr(client, how)()
        if path != CHAT:
            assert await upstream.connections[request.connection].peer_closed(LIMIT)
        assert await quiet(gateway)
        assert await ended(gateway, 1)
        assert path != CHAT or not upstream.asked(path)


async def begun(upstream: ScriptedUpstream, path: str) -> list[Any]:
    async def there() -> bool:
        return bool(upstream.asked(path))

    assert await until(there)
    return upstream.asked(path)


async def test_in_an_upload_that_the_upstream_does_not_take(tmp_path: Path) -> None:
    """Nothing is read from such a client, so nothing is read of its leaving either; it must be noticed all the same.

    A FIN that waits in the client's own kernel, behind bytes that nobody takes, cannot be noticed by anyone.
    """
    async with (
        ScriptedUpstream(receive_buffer=4096) as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai"}}}) as gateway,
        RawClient(gateway.url) as client,
    ):
        upstream.on("/v1/files", stop_reading(), never(), at_head=True)
        await client.send(request_bytes("POST", "/v1/files", b"", ("Content-Length", "1000000000")))
        with pytest.raises(TimeoutError):
            while True:
                await asyncio.wait_for(client.send(PIECE), 0.5)
        client.rst()
        assert await ended(gateway, 1)
        assert await quiet(gateway)


PIECE = b"x" * 65536


async def test_in_a_websocket(tmp_path: Path) -> None:
    gone, closed = asyncio.Event(), list[float]()

    async def upstream(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str("welcome")
        async for _ in socket:
            pass
        closed.append(time.monotonic())
        gone.set()
        return socket

    app = web.Application()
    app.router.add_get("/ws", upstream)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port := free_port()).start()
    try:
        async with GatewayProcess(tmp_path, {"backends": {"b": {"url": f"http://127.0.0.1:{port}"}}}) as gateway:
            for how in ("fin", "rst"):
                gone.clear()
                async with RawClient(gateway.url) as client:
                    await client.send(UPGRADE)
                    await seen(client, b"welcome")
                    left = time.monotonic()
                    getattr(client, how)()
                    await asyncio.wait_for(gone.wait(), LIMIT)
                    assert closed[-1] - left < LIMIT
            assert await ended(gateway, 2)
    finally:
        await runner.cleanup()


UPGRADE = request_bytes(
    "GET", "/ws", b"", ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
)  # fmt: skip


async def seen(client: RawClient, wanted: bytes) -> None:
    async with asyncio.timeout(5):
        while wanted not in client.buffer:
            assert await client.fill(), bytes(client.buffer)


async def test_in_a_websocket_whose_upstream_answers_nothing(tmp_path: Path) -> None:
    """Neither a handshake that hangs nor a close that is never answered keeps the upstream."""
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai"}}}) as gateway,
    ):
        for number, steps in enumerate([(never(),), (choose(accepted), never())], 1):
            upstream.on("/ws", *steps)
            async with RawClient(gateway.url) as client:
                await client.send(UPGRADE)
                request = (await upstream.wait_for("/ws", number))[-1]
                if number == 2:
                    await seen(client, b"101")
                client.rst()
                assert await upstream.connections[request.connection].peer_closed(LIMIT), number
            assert await ended(gateway, number)


def accepted(request: Request) -> tuple[Step, ...]:
    """The answer to an upgrade (RFC 6455 section 4.2.2)."""
    secret = request.header("Sec-WebSocket-Key").encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    key = base64.b64encode(hashlib.sha1(secret).digest()).decode()
    return (status(101, ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", key)),)


async def test_while_the_gateway_waits_for_a_loading_server(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(personas.llamacpp_loading()) as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "llamacpp"}}}) as gateway,
        AsyncExitStack() as held,
    ):
        clients = await arrive(held, gateway.url, ask(), 10)
        await upstream.wait_for(CHAT, 10)
        leave(clients)

        assert await ended(gateway, 10)
        asked = len(upstream.asked(CHAT))
        await asyncio.sleep(1.2)  # the next try would be half a second after the first
        assert len(upstream.asked(CHAT)) == asked, "it still tries for clients that have left"
        assert await quiet(gateway)
