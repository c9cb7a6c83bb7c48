"""No file descriptor is left behind, however requests end, and no task of a request outlives it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.lifecycle.waiting import CHAT, ask, body, quiet, until
from tests.support.clients import RawClient, fetch, request_bytes
from tests.support.process import GatewayProcess, free_port
from tests.support.replies import SSE, Reply
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import chunk, full, never, ordinary, rst, status, stream

ROUNDS = 10


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def give_up(url: str, request: bytes, pause: float) -> None:
    async with RawClient(url) as client:
        await client.send(request)
        await asyncio.sleep(pause)
        client.rst()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_five_hundred_requests_leave_nothing_behind(tmp_path: Path) -> None:
    half = status(200, ("Content-Type", SSE), ("Transfer-Encoding", "chunked"))
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(
            tmp_path,
            {
                "backends": {
                    "b": {"url": upstream.url, "kind": "openai", "parallel": 50},
                    "gone": {"url": f"http://127.0.0.1:{free_port()}", "kind": "openai"},
                },
                "models": {"gone": {"targets": ["gone/gone"]}},
                "log": {"format": "json", "level": "info"},
            },
        ) as gateway,
    ):
        upstream.on(CHAT, ordinary(Reply()))
        upstream.on("/v1/responses", never())
        upstream.on("/v1/messages", *stream([b"data: {}\n\n"], end=False), rst())
        upstream.on("/v1/completions", half, chunk(b"data: {"), rst())
        upstream.on("/v1/embeddings", *full(b"{}", 500))
        upstream.on("/v1/files", never(), at_head=True)
        upload = request_bytes("POST", "/v1/files", b"", ("Content-Length", "5000000")) + b"x" * 400_000

        async def round_of_fifty() -> None:
            url = gateway.url
            async with asyncio.TaskGroup() as group:
                for number in range(12):
                    group.create_task(fetch(url + CHAT, body(stream=number % 2 == 0)))
                    group.create_task(fetch(url + "/v1/embeddings", {"model": "tiny", "input": "x"}))
                    group.create_task(give_up(url, ask(), 0.001 * number))
                for path, prompt in (("/v1/messages", "messages"), ("/v1/completions", "prompt"), (CHAT, "x")):
                    group.create_task(fetch(url + path, {"model": "tiny", prompt: [], "stream": True}))
                for number in range(5):
                    request = request_bytes("POST", "/v1/responses", b'{"model": "tiny", "input": "x"}')
                    group.create_task(give_up(url, request, 0.01 * number))
                    group.create_task(give_up(url, upload, 0.01 * number))
                group.create_task(fetch(url + CHAT, body(model="gone")))

        await round_of_fifty()
        await quiet(gateway)
        await asyncio.sleep(0.2)
        least = descriptors(gateway.pid)
        for _ in range(ROUNDS):
            await round_of_fifty()

        async def as_before() -> bool:
            return descriptors(gateway.pid) <= least

        assert await until(as_before, within=8, pause=0.2), f"{least} before, {descriptors(gateway.pid)} after"
        assert (await gateway.metrics()).value("warmgate_requests_total") >= 50 * ROUNDS
        assert await quiet(gateway)
        assert (await gateway.metrics()).value("warmgate_requests_total", outcome="internal_error") == 0
