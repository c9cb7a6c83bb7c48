"""Many WebSockets at once, and peers that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import WSMsgType, web

from tests.plumbing.rig import eventually
from tests.support.process import GatewayProcess, free_port

SOCKETS, MESSAGES, LONGEST = 50, 200, 64 << 10
SPARE = 48 << 20  # bytes that the gateway may grow by: buffers of 50 sockets in four places, not the 300 MB that pass
STALL = 1.0
PIECE = b"x" * LONGEST


@dataclass
class Server:
    """`/echo` says everything back, `/flood` sends until it is stopped, `/deaf` never reads. ended: paths."""

    ended: list[str] = field(default_factory=list)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        try:
            if request.path == "/flood":
                while True:
                    await socket.send_bytes(PIECE)
            if request.path == "/deaf":
                assert request.transport
                request.transport.pause_reading()
                await asyncio.sleep(60)
            async for message in socket:
                await (socket.send_str if message.type is WSMsgType.TEXT else socket.send_bytes)(message.data)
        except ConnectionError:
            pass
        finally:
            self.ended.append(request.path)
        return socket


@asynccontextmanager
async def standing(directory: Path, **config: object) -> AsyncIterator[tuple[Server, GatewayProcess]]:
    server, port = Server(), free_port()
    runner = web.ServerRunner(web.Server(server.serve), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    backends = {"local": {"kind": "openai", "url": f"http://127.0.0.1:{port}"}}
    try:
        async with GatewayProcess(directory, {"backends": backends, **config}) as gateway:
            yield server, gateway
    finally:
        await runner.cleanup()


def message(socket: int, number: int) -> str | bytes:
    """Text and binary in turn, of lengths from nothing to LONGEST, that tell their place."""
    name = f"{socket}/{number};"
    length = (socket * 7919 + number * 4099) % (LONGEST + 1)
    text = (name * (length // len(name) + 1))[:length]
    return text if number % 2 else text.encode()


async def talk(url: str, session: aiohttp.ClientSession, number: int) -> None:
    """Sends without waiting for what comes back, and asserts that it comes back in order."""
    async with session.ws_connect(f"{url}/echo", max_msg_size=0) as socket:

        async def say() -> None:
            for index in range(MESSAGES):
                sent = message(number, index)
                await (socket.send_str(sent) if isinstance(sent, str) else socket.send_bytes(sent))

        saying = asyncio.create_task(say())
        for index in range(MESSAGES):
            assert (await socket.receive()).data == message(number, index), (number, index)
        await saying


async def test_many_sockets_at_once(tmp_path: Path) -> None:
    async with standing(tmp_path) as (server, gateway), aiohttp.ClientSession() as session, asyncio.timeout(50):
        for number in range(4):
            await talk(gateway.url, session, number)
        before, most = gateway.resident_bytes, 0
        talks = [asyncio.create_task(talk(gateway.url, session, number)) for number in range(SOCKETS)]
        while not all(task.done() for task in talks):
            most = max(most, gateway.resident_bytes)
            await asyncio.sleep(0.02)
        await asyncio.gather(*talks)
        assert most - before < SPARE
        await eventually(lambda: left(server, SOCKETS + 4), "every tunnel ends")


async def counted(gateway: GatewayProcess, outcome: str) -> bool:
    return (await gateway.metrics()).value("warmgate_requests_total", outcome=outcome) == 1


async def left(server: Server, count: int) -> bool:
    return len(server.ended) == count


async def test_a_client_that_does_not_read(tmp_path: Path) -> None:
    async with (
        standing(tmp_path, limits={"client_stall": f"{STALL:g}s"}) as (server, gateway),
        aiohttp.ClientSession() as session,
        asyncio.timeout(20),
    ):
        async with session.ws_connect(f"{gateway.url}/flood", max_msg_size=0) as socket:
            await socket.receive_bytes()
            await asyncio.sleep(STALL / 2)
            assert not server.ended
            await eventually(lambda: counted(gateway, "cancelled"), "the tunnel ends")
        await eventually(lambda: left(server, 1), "the server hears of it")


async def test_a_server_that_does_not_read(tmp_path: Path) -> None:
    async with (
        standing(tmp_path, limits={"client_stall": f"{STALL:g}s"}) as (_, gateway),
        aiohttp.ClientSession() as session,
        asyncio.timeout(20),
    ):
        async with session.ws_connect(f"{gateway.url}/deaf", max_msg_size=0) as socket:

            async def say() -> None:
                while True:
                    await socket.send_bytes(PIECE)

            saying = asyncio.create_task(say())
            assert (await socket.receive()).type is WSMsgType.CLOSE
            assert socket.close_code == 1011
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)
        await eventually(lambda: counted(gateway, "timeout"), "the tunnel ends")


async def test_an_idle_tunnel_stays(tmp_path: Path) -> None:
    async with (
        standing(tmp_path, limits={"client_stall": f"{STALL:g}s"}) as (_, gateway),
        aiohttp.ClientSession() as session,
        asyncio.timeout(20),
        session.ws_connect(f"{gateway.url}/echo") as socket,
    ):
        for text in ("before", "after"):
            await socket.send_str(text)
            assert await socket.receive_str() == text
            await asyncio.sleep(3 * STALL)
