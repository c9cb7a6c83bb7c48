"""`/events`: live, bounded, and no burden to anyone. In front of a real App on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.events import BackendGone, CircuitChanged
from gateway.server import admin_events
from gateway.server.admin_events import HUB, MAX_READERS, QUEUE, Hub
from tests.lifecycle.waiting import until
from tests.support.clients import RawClient, Response, request_bytes
from tests.support.front import TOKEN, Front, front


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path) as running:
        yield running


def hub_of(gateway: Front) -> Hub:
    assert gateway.app._admin
    return gateway.app._admin.app[HUB]


@asynccontextmanager
async def reading(gateway: Front, **how: int) -> AsyncIterator[tuple[RawClient, Response]]:
    """A reader that has been greeted."""
    async with asyncio.timeout(10), RawClient(gateway.admin, **how) as client:
        await client.send(request_bytes("GET", "/events", b"", TOKEN))
        response = await client.response()
        assert response.status == 200
        assert await response.read_until(b"\n\n")
        yield client, response


def told(response: Response) -> list[tuple[str, Any]]:
    """(name, data) of all events so far."""
    frames = [frame.split(b"\n") for frame in response.body.split(b"\n\n") if frame.startswith(b"event: ")]
    return [(lines[0][7:].decode(), orjson.loads(lines[1][6:])) for lines in frames]


async def test_a_request_is_told_when_it_starts_and_when_it_has_ended(gateway: Front) -> None:
    async with reading(gateway) as (_, response):
        assert response.header("Content-Type") == "text/event-stream"
        assert response.header("Cache-Control") == "no-store"
        await gateway.chat("live")
        assert await response.read_until(b"event: request")
        assert told(response)[0][0] == "hello"
        events = dict(told(response))
        assert (events["started"]["id"], events["started"]["backend"]) == ("live", "local")
        number = events["request"].pop("number")
        assert number == events["started"]["number"], "by which the two belong together, whatever id the client chose"
        assert events["request"] == (await gateway.ask("/requests")).json()["requests"][0]


async def test_a_backend_is_told_when_it_changes_and_when_it_goes(gateway: Front) -> None:
    async with reading(gateway) as (_, response):
        gateway.app.gateway.bus.publish(CircuitChanged("local", open=False))  # no news
        for _ in range(20):
            gateway.app.gateway.fleet.failed("local")
        gateway.app.gateway.bus.publish(BackendGone("local"))
        assert await response.read_until(b"event: gone")
        backends = [event for name, event in told(response) if name == "backend"]
        assert [backend["circuit_open"] for backend in backends] == [True]
        status = (await gateway.ask("/status")).json()["backends"]
        assert backends[-1].keys() == status[0].keys()
        assert told(response)[-1] == ("gone", {"name": "local"})


async def test_silence_is_filled_with_comments(gateway: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_events, "KEEPALIVE", 0.1)
    monkeypatch.setattr(admin_events, "LOOK", 0.05)
    async with reading(gateway) as (_, response):
        assert await response.read_until(b": still here\n\n: still here\n\n")


async def test_a_reader_that_does_not_read_is_dropped_with_a_last_comment(
    gateway: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_events, "QUEUE", 16)
    hub = hub_of(gateway)
    async with reading(gateway, receive_buffer=4096) as (_, slow):
        (reader,) = hub.readers
        async with reading(gateway) as (_, quick):
            big = admin_events.event_bytes("request", {"id": "x" * 100_000})
            for _ in range(200):  # 20 MB: the kernel's buffers are full as well
                reader.put(big)
                await asyncio.sleep(0.001)
            assert await until(lambda: _is(reader not in hub.readers))
            gateway.app.gateway.bus.publish(BackendGone("local"))
            assert await quick.read_until(b"event: gone"), "another reader is not harmed"
        await slow.read()
        assert not slow.complete, "it took not even its last comment in time"


async def test_a_reader_that_reads_again_in_time_gets_the_last_comment(gateway: Front) -> None:
    hub = hub_of(gateway)
    async with reading(gateway) as (_, response):
        (reader,) = hub.readers
        for _ in range(QUEUE + 1):  # at once: the handler has had no turn
            reader.put(admin_events.event_bytes("request", {"id": "x"}))
        await response.read()
        assert response.complete
        assert response.body.endswith(b": dropped: events came faster than they were read\n\n")
        assert "request" not in dict(told(response)), "what waited is left out"
    assert hub.readers == set()


async def test_the_seventeenth_reader_is_refused_until_another_leaves(gateway: Front) -> None:
    async with AsyncExitStack() as stack:
        clients = [(await stack.enter_async_context(reading(gateway)))[0] for _ in range(MAX_READERS)]
        reply = await gateway.ask("/events")
        assert (reply.status, reply.json()["error"]["code"]) == (503, "too_many_readers")
        clients[0].fin()
        assert await until(lambda: _is(len(hub_of(gateway).readers) < MAX_READERS))
        await stack.enter_async_context(reading(gateway))


@pytest.mark.parametrize("buffer", [None, 4096])
async def test_readers_do_not_hold_up_the_end(tmp_path: Path, buffer: int | None) -> None:
    """One that reads, and one that does not read at all while the kernel's buffers are full."""
    async with front(tmp_path) as gateway:
        how = {} if buffer is None else {"receive_buffer": buffer}
        async with reading(gateway, **how) as (_, response):
            if buffer:
                for reader in hub_of(gateway).readers:
                    for _ in range(100):
                        reader.put(admin_events.event_bytes("request", {"id": "x" * 100_000}))
                await asyncio.sleep(0.2)
            began = time.monotonic()
            await gateway.app.stop()
            assert time.monotonic() - began < 4
            if buffer is None:
                await response.read()
                assert response.body.endswith(b": the gateway is shutting down\n\n")
                assert response.complete


async def _is(fact: bool) -> bool:
    return fact
