"""The official `lmstudio` library against the simulated LM Studio, directly and through the gateway: as far, and no further."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import lmstudio
import pytest

from tests.sdk.conftest import Ways
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.lmstudio_instances import LmModel
from tests.support.process import GatewayProcess

Ask = Callable[[lmstudio.AsyncClient], Awaitable[Any]]

FIRST = ["authVersion", "clientIdentifier", "clientPasskey"]
OPENED = [
    ("/lmstudio-greeting", None),
    *((f"/{name}", FIRST) for name in ("embedding", "files", "llm", "repository", "system")),
]
"""What every client does first."""


@pytest.fixture
async def studio() -> AsyncIterator[FakeLmStudio]:
    async with FakeLmStudio(LmModel("tiny"), LmModel("other")) as fake:
        yield fake


@pytest.fixture
async def ways(studio: FakeLmStudio, tmp_path: Path) -> AsyncIterator[Ways]:
    config = {"backends": {"studio": {"url": studio.url, "kind": "lmstudio"}}}
    async with GatewayProcess(tmp_path, config) as gateway:
        yield Ways(studio.url, gateway.url, gateway.admin)


async def both(ways: Ways, studio: FakeLmStudio, ask: Ask) -> tuple[Any, list[Any]]:
    """What the library gives or raises, and what the server heard, asserted to be the same both ways."""
    found = []
    for url in (ways.direct, ways.through):
        studio.heard.clear()
        host = url.removeprefix("http://")
        try:
            async with asyncio.timeout(15), lmstudio.AsyncClient(host) as client:
                result = await ask(client)
        except lmstudio.LMStudioError as error:
            result = (type(error), str(error).replace(host, "HOST"))
        found.append((result, list(studio.heard)))
    direct, through = found
    assert through == direct
    return through


async def test_the_greeting(ways: Ways, studio: FakeLmStudio) -> None:
    for url in (ways.direct, ways.through):
        assert await lmstudio.AsyncClient.is_valid_api_host(url.removeprefix("http://"))
    assert studio.heard == [("/lmstudio-greeting", None)] * 2


async def test_what_is_loaded(ways: Ways, studio: FakeLmStudio) -> None:
    async def ask(client: lmstudio.AsyncClient) -> Any:
        return [model.identifier for model in await client.llm.list_loaded()]

    call = ("/llm", {"type": "rpcCall", "endpoint": "listLoaded", "callId": 1})
    assert await both(ways, studio, ask) == ([], [*OPENED, call])
    await studio.instances.load("other")
    assert await both(ways, studio, ask) == (["other"], [*OPENED, call])


async def test_a_call_that_stops(ways: Ways, studio: FakeLmStudio) -> None:
    result, heard = await both(ways, studio, lambda client: client.list_downloaded_models())
    assert result == (lmstudio.LMStudioServerError, "RPC error: listDownloadedModels is not simulated")
    assert heard == [*OPENED, ("/system", {"type": "rpcCall", "endpoint": "listDownloadedModels", "callId": 1})]


async def test_a_stream_that_stops(ways: Ways, studio: FakeLmStudio) -> None:
    """A model is asked for on a channel, whose name goes the other way as the client wrote it."""
    (kind, words), heard = await both(ways, studio, lambda client: client.llm.model("tiny"))
    assert kind is lmstudio.LMStudioServerError
    assert "is not simulated" in words
    path, asked = heard[-1]
    assert (path, asked["type"], asked["creationParameter"]["identifier"]) == ("/llm", "channelCreate", "tiny")


async def test_a_server_with_a_key(ways: Ways, studio: FakeLmStudio) -> None:
    """The library cannot send one, so it gets nowhere."""
    studio.key = "secret"
    (kind, words), heard = await both(ways, studio, lambda client: client.llm.list_loaded())
    assert (kind, heard) == (lmstudio.LMStudioClientError, [])
    assert "not reachable at HOST" in words
