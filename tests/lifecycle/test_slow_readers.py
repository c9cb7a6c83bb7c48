"""Clients that do not read cost little memory, slow nobody else down, and are disconnected at limits.client_stall."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.lifecycle.waiting import CHAT, ask, body, count, quiet, until
from tests.support.clients import RawClient, fetch
from tests.support.process import GatewayProcess
from tests.support.upstream_process import UpstreamProcess

CLIENTS = 20
STALL = 7.0  # seconds
MIB = 1 << 20


async def served(gateway: GatewayProcess, number: int) -> float:
    """Seconds in which so many small requests are answered, one after another."""
    began = time.monotonic()
    for _ in range(number):
        assert (await fetch(gateway.url + CHAT, body(stream=False, model="small"))).status == 200
    return time.monotonic() - began


async def told(gateway: GatewayProcess) -> bool:
    return gateway.log.count('"client_stalled"') == CLIENTS


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_twenty_clients_that_do_not_read(tmp_path: Path) -> None:
    async with AsyncExitStack() as held:
        flood = await held.enter_async_context(UpstreamProcess("flood", bytes=200_000_000))
        small = await held.enter_async_context(UpstreamProcess("json"))
        config = {
            "backends": {
                "flood": {"url": flood.url, "kind": "openai", "parallel": CLIENTS},
                "small": {"url": small.url, "kind": "openai", "parallel": CLIENTS},
            },
            "models": {"flood": {"targets": ["flood/tiny"]}, "small": {"targets": ["small/tiny"]}},
            "limits": {"client_stall": f"{STALL:g}s"},
            "log": {"format": "json", "level": "info"},
        }
        gateway = await held.enter_async_context(GatewayProcess(tmp_path, config))
        alone = min([await served(gateway, 100) for _ in range(2)])
        before = gateway.resident_bytes

        clients = [await held.enter_async_context(RawClient(gateway.url)) for _ in range(CLIENTS)]
        began = time.monotonic()
        await asyncio.gather(*(client.send(ask(model="flood")) for client in clients))
        await asyncio.sleep(1.0)
        meanwhile = min([await served(gateway, 100) for _ in range(2)])
        assert meanwhile < 2 * alone + 0.2
        early = gateway.resident_bytes
        await asyncio.sleep(max(0.0, began + 5.0 - time.monotonic()))
        late, report = gateway.resident_bytes, await flood.report()
        assert report.open >= CLIENTS, "they were disconnected too early"
        assert report.sent < CLIENTS * 200_000_000 / 4, "the upstream was read on although nobody reads"
        each = (late - before) / CLIENTS / MIB
        assert each < 2.0, f"{each:.2f} MiB for each client"
        assert late - early < MIB, "memory still grows"

        report = await flood.wait_closed(CLIENTS, within=STALL)
        assert len(report.closed) == CLIENTS
        assert STALL - 1.0 < report.closed[0] - began <= report.closed[-1] - began < STALL + 3.0
        assert await quiet(gateway)
        assert await count(gateway, outcome="cancelled") == CLIENTS
        assert await until(lambda: told(gateway)), "each is in the log, a moment later"
        assert [client.closed for client in clients] == [None] * CLIENTS
        for client in clients:  # what the kernel held is still there to be read, and then it ends
            while await client.fill():
                client.buffer.clear()
        print(f"\n{each:.3f} MiB for each client; 100 requests: {alone:.2f} s alone, {meanwhile:.2f} s meanwhile")  # noqa: T201


async def test_a_client_that_reads_slowly_is_served(tmp_path: Path) -> None:
    """The limit is on standing still, not on the time that an answer takes."""
    async with (
        UpstreamProcess("flood", bytes=8 * MIB) as flood,
        GatewayProcess(
            tmp_path, {"backends": {"b": {"url": flood.url, "kind": "openai"}}, "limits": {"client_stall": "1s"}}
        ) as gateway,
        RawClient(gateway.url, receive_buffer=64 << 10) as client,
    ):
        began = time.monotonic()
        await client.send(ask())
        response = await client.response()
        size, paused = 0, 0
        async for piece in response.pieces():
            size += len(piece.data)
            response.arrived.clear()
            if size > (paused + 1) * MIB:
                paused += 1
                await asyncio.sleep(0.3)
        assert response.complete
        assert size > 8 * MIB
        assert time.monotonic() - began > 2.0
        assert await quiet(gateway)
        assert await count(gateway, outcome="ok") == 1
