"""SIGTERM: what runs is finished within limits.drain, nothing new is begun, the exit code is 0. A second one does not wait."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.lifecycle.waiting import CHAT, ask, body, until
from tests.support.clients import RawClient, fetch
from tests.support.process import GatewayProcess
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import never
from tests.support.upstream_process import UpstreamProcess


def config(url: str, drain: str = "20s") -> dict[str, object]:
    return {"backends": {"b": {"url": url, "kind": "openai", "parallel": 10}}, "limits": {"drain": drain}}


async def is_ready(gateway: GatewayProcess) -> bool:
    return (await fetch(f"{gateway.admin}/readyz")).status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_running_streams_finish_and_new_requests_are_turned_away(tmp_path: Path, number: int) -> None:
    async with (
        UpstreamProcess("spaced", events=30, interval=0.1) as upstream,
        GatewayProcess(tmp_path, config(upstream.url)) as gateway,
        RawClient(gateway.url) as client,
        RawClient(gateway.url) as idle,
    ):
        assert await until(lambda: is_ready(gateway))
        await client.send(ask())
        response = await client.response()
        assert await response.read_until(b"1 ")
        gateway.signal(number)
        while (ready := await fetch(f"{gateway.admin}/readyz")).status == 200:
            await asyncio.sleep(0.02)
        assert (ready.status, ready.json()["error"]["code"]) == (503, "draining")
        assert (await fetch(f"{gateway.admin}/healthz")).status == 200
        with pytest.raises(ConnectionError):
            await fetch(gateway.url + CHAT, body())
        assert not await asyncio.wait_for(idle.fill(), 1.5), "an idle connection is closed at once"
        assert await response.read_until(b"[DONE]")
        await response.read()
        assert response.complete
        assert await gateway.wait(within=5) == 0


async def test_a_request_on_a_connection_that_is_still_open_is_told_to_come_back(tmp_path: Path) -> None:
    """The second of two requests that were sent at once: its connection is busy when the gateway begins to stop."""
    async with (
        UpstreamProcess("spaced", events=10, interval=0.08) as upstream,
        GatewayProcess(tmp_path, config(upstream.url)) as gateway,
        RawClient(gateway.url) as client,
    ):
        await client.send(ask())
        first = await client.response()
        assert await first.read_until(b"1 ")
        gateway.signal(signal.SIGTERM)
        await client.send(ask())
        await first.read()
        assert first.complete
        try:
            second = await client.response()
        except ConnectionError:
            assert client.closed
        else:
            assert (second.status, second.header("Retry-After")) == (503, "2")
        assert await gateway.wait(within=5) == 0


async def test_the_limit_ends_what_is_left(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, config(upstream.url, drain="1s")) as gateway,
        RawClient(gateway.url) as client,
    ):
        upstream.on(CHAT, never())
        await client.send(ask())
        (request,) = await upstream.wait_for(CHAT)
        began = time.monotonic()
        gateway.signal(signal.SIGTERM)
        assert await gateway.wait(within=6) == 0
        assert time.monotonic() - began > 0.9
        assert await upstream.connections[request.connection].peer_closed(1)
        assert not await client.fill()
        assert '"outcome": "cancelled"' in gateway.log


@pytest.mark.parametrize("pause", [0.0, 0.5])
async def test_a_second_signal_does_not_wait(tmp_path: Path, pause: float) -> None:
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, config(upstream.url, drain="60s")) as gateway,
        RawClient(gateway.url) as client,
    ):
        upstream.on(CHAT, never())
        await client.send(ask())
        await upstream.wait_for(CHAT)
        gateway.signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        if pause:
            await asyncio.sleep(pause)
            gateway.signal(signal.SIGINT)
        else:
            gateway.signal(signal.SIGTERM)
        assert await gateway.wait(within=4) == 0
        assert "Unclosed" not in gateway.log


async def test_those_who_wait_in_the_queue_are_served_before_the_end(tmp_path: Path) -> None:
    async with (
        UpstreamProcess("spaced", events=5, interval=0.1) as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai"}}}) as gateway,
    ):
        answers = [asyncio.create_task(fetch(gateway.url + CHAT, body())) for _ in range(3)]
        while (await upstream.report()).requests < 1:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        gateway.signal(signal.SIGTERM)
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200] * 3
        assert await gateway.wait(within=5) == 0
