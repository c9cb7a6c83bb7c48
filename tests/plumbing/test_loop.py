"""Two gateways, each the other's backend: a request goes round a few times and is refused, in the words of the caller's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.plumbing.rig import error_message
from tests.support.clients import fetch
from tests.support.process import GatewayProcess, free_port

pytestmark = pytest.mark.asyncio(loop_scope="module")

TALK: Any = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ring(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[GatewayProcess]]:
    ports = [free_port(), free_port()]
    found = []
    for number, port in enumerate(ports):
        other = {"kind": "openai", "url": f"http://127.0.0.1:{ports[1 - number]}", "parallel": 8}
        directory = tmp_path_factory.mktemp("gateway")
        found.append(GatewayProcess(directory, {"listen": f"127.0.0.1:{port}", "backends": {"other": other}}))
    async with found[0], found[1]:
        yield found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", TALK),
        ("/v1/chat/completions", {**TALK, "stream": True}),
        ("/v1/messages", TALK),
        ("/v1/embeddings", {"model": "tiny", "input": "hello"}),
        ("/unknown", None),
    ],
)
async def test_a_ring_of_gateways(ring: list[GatewayProcess], path: str, body: Any) -> None:
    response = await fetch(f"{ring[0].url}{path}", body)
    assert response.status == 508
    assert "passed too many gateways" in (error_message(path, response.json()) or "")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/models"])
async def test_one_too_many(ring: list[GatewayProcess], path: str) -> None:
    """In every API's shape, also where no backend would be asked."""
    response = await fetch(f"{ring[0].url}{path}", TALK if path != "/v1/models" else None, ("X-Warmgate-Hops", "5"))
    assert response.status == 508
    assert "passed too many gateways" in (error_message(path, response.json()) or "")
    assert (await ring[0].metrics()).value("warmgate_requests_total", outcome="refused") >= 1


async def test_a_ring_and_a_websocket(ring: list[GatewayProcess]) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(10):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"{ring[0].url}/llm")
    assert caught.value.status == 508
