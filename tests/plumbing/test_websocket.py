"""WebSockets, as the lmstudio SDK and realtime APIs use them: both directions, every kind of message, and each way to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import WSMsgType, web

from tests.plumbing.rig import eventually
from tests.support.clients import RawClient, fetch, request_bytes
from tests.support.process import GatewayProcess, free_port

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Echo:
    """A server that says everything back. seen: the requests; left: sockets whose client has gone."""

    def __init__(self) -> None:
        self.seen: list[web.Request] = []
        self.left = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
        if request.path == "/refuses":
            return web.json_response({"error": "not here"}, status=426)
        self.seen.append(request)
        socket = web.WebSocketResponse(protocols=["realtime", "other"], max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.data == "bye":
                await socket.close(code=4001, message=b"as you like")
            elif message.data == "die":
                assert request.transport
                request.transport.abort()
            elif message.type is WSMsgType.TEXT:
                await socket.send_str(message.data)
            else:
                await socket.send_bytes(message.data)
        self.left += 1
        return socket


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echo() -> Echo:
    return Echo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(echo: Echo, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayProcess]:
    runner = web.ServerRunner(web.Server(echo.serve), shutdown_timeout=0.1)  # type: ignore[arg-type]
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    config = {"backends": {"local": {"kind": "openai", "url": f"http://127.0.0.1:{port}"}}}
    directory: Path = tmp_path_factory.mktemp("gateway")
    async with GatewayProcess(directory, config) as process:
        yield process
    await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def test_messages_of_every_kind(gateway: GatewayProcess, echo: Echo, session: aiohttp.ClientSession) -> None:
    headers = {"Authorization": "Bearer x", "Origin": "http://localhost"}
    async with (
        asyncio.timeout(10),
        session.ws_connect(
            f"{gateway.url}/v1/realtime?model=tiny", protocols=("realtime",), headers=headers, max_msg_size=0
        ) as socket,
    ):
        assert socket.protocol == "realtime"
        for text in ("hello", "", "日本語 🚀", "x" * 3_000_000):
            await socket.send_str(text)
            assert await socket.receive_str() == text
        for data in (b"", bytes(range(256)), b"y" * 3_000_000):
            await socket.send_bytes(data)
            assert await socket.receive_bytes() == data
        await socket.ping(b"are you there")
        await socket.send_str("bye")
        message = await socket.receive()
        assert (message.type, socket.close_code) == (WSMsgType.CLOSE, 4001)
    request = echo.seen[-1]
    assert (request.path_qs, request.headers["Authorization"]) == ("/v1/realtime?model=tiny", "Bearer x")
    assert "Origin" not in request.headers


async def test_a_client_that_closes_or_breaks_off(gateway: GatewayProcess, echo: Echo, session: aiohttp.ClientSession) -> None:
    for abrupt in (False, True):
        before = echo.left
        socket = await session.ws_connect(f"{gateway.url}/anything")
        await socket.send_str("a")
        assert await socket.receive_str() == "a"
        if abrupt:
            assert socket._response.connection
            transport = socket._response.connection.transport
            assert transport
            transport.abort()
        else:
            await socket.close()

        async def left(before: int = before) -> bool:
            return echo.left > before

        await eventually(left, "the server hears of it")


async def test_a_server_that_breaks_off(gateway: GatewayProcess, session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(10), session.ws_connect(f"{gateway.url}/anything") as socket:
        await socket.send_str("die")
        assert (await socket.receive()).type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)


async def test_an_upgrade_that_the_server_refuses(gateway: GatewayProcess) -> None:
    headers = (("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"))
    key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    async with asyncio.timeout(10), RawClient(gateway.url) as client:
        await client.send(request_bytes("GET", "/refuses", b"", *headers, key))
        response = await client.response(method="GET")
        await response.read()
    assert response.status == 426
    assert response.json()["error"]["code"] == "upgrade_refused"


@pytest.mark.parametrize(
    "headers", [(), (("Sec-WebSocket-Version", "13"),), (("Sec-WebSocket-Version", "99"), ("Sec-WebSocket-Key", "x"))]
)
async def test_a_bad_upgrade(gateway: GatewayProcess, headers: tuple[tuple[str, str], ...]) -> None:
    upgrade = (("Connection", "Upgrade"), ("Upgrade", "websocket"))
    async with asyncio.timeout(10), RawClient(gateway.url) as client:
        await client.send(request_bytes("GET", "/anything", b"", *upgrade, *headers))
        response = await client.response(method="GET")
        await response.read()
    assert response.status == 400
    assert "error" in response.json()


async def test_another_upgrade_is_not_taken(gateway: GatewayProcess) -> None:
    """An ordinary answer, over the HTTP that is spoken."""
    response = await fetch(f"{gateway.url}/v1/models", None, ("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"))
    assert (response.status, response.json()["data"][0]["id"]) == (200, "tiny")


async def test_nothing_stays_in_flight(gateway: GatewayProcess) -> None:
    async def quiet() -> bool:
        return (await gateway.metrics()).value("warmgate_inflight") == 0

    await eventually(quiet, "nothing in flight")
