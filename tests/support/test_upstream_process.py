"""The upstream in a process of its own: its modes, and what it reports about peers that leave."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from tests.support.clients import RawClient, events, fetch, post
from tests.support.upstream_process import UpstreamProcess

CHAT = "/v1/chat/completions"
ASK = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True}


async def test_a_flood_is_as_large_as_asked_and_whole() -> None:
    async with UpstreamProcess("flood", bytes=5_000_000) as upstream:
        assert (await fetch(f"{upstream.url}/v1/models")).json()["data"][0]["id"] == "tiny"
        response = await fetch(upstream.url + CHAT, ASK)
        report = await upstream.report()
    assert response.complete
    assert 5_000_000 <= len(response.body) < 6_000_000
    assert events(response.body)[-1] == "[DONE]"
    assert report.sent > len(response.body)


async def test_peers_that_leave_are_counted_and_timed() -> None:
    async with UpstreamProcess("silent") as upstream, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(RawClient(upstream.url)) for _ in range(50)]
        for client in clients:
            await client.send(post(CHAT, ASK))
        while (await upstream.report()).requests < 50:
            await asyncio.sleep(0.01)
        assert ((await upstream.report()).open, (await upstream.report()).closed) == (50, ())
        left = time.monotonic()
        for client in clients[:20]:
            client.rst()
        for client in clients[20:40]:
            client.fin()
        report = await upstream.wait_closed(40, within=2.0)
        assert (report.open, len(report.closed), report.resets) == (10, 40, 20)
        assert left <= report.closed[0] <= report.closed[-1] < left + 1.0


async def test_the_other_modes() -> None:
    async with UpstreamProcess("json") as upstream:
        assert (await fetch(upstream.url + CHAT, ASK)).json()["object"] == "chat.completion"
    async with UpstreamProcess("spaced", events=3, interval=0.05) as upstream, RawClient(upstream.url) as client:
        await client.send(post(CHAT, ASK))
        response = await client.response()
        await response.read()
        assert len(response.arrived) == 4
        assert response.arrived[-1].at - response.arrived[0].at > 0.12
    async with UpstreamProcess("stalled") as upstream, RawClient(upstream.url) as client:
        await client.send(post(CHAT, ASK))
        response = await client.response()
        assert await response.read_until(b"only")
        assert not response.complete
