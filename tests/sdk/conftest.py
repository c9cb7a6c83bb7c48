"""Two ways to the same server: directly, and through the gateway as a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.engine.front import GatewayServer
from gateway.engine.server import EngineServer
from tests.support.engine import ModelFile, model_file
from tests.support.fake_ollama import FakeOllama
from tests.support.ollama_runners import Model
from tests.support.process import GatewayProcess

__all__ = ["model_file"]


@dataclass(frozen=True, slots=True)
class Ways:
    """Base URLs. admin: of the gateway."""

    direct: str
    through: str
    admin: str


@pytest.fixture(scope="session")
def llama(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """A real llama.cpp server with one slot, so that what is cached does not depend on which slot is taken."""
    flags = ("-t", "1", "-c", "8192", "-np", "1", "-a", "tiny")
    with (
        EngineServer(model_file(), tmp_path_factory.mktemp("engine"), *flags) as server,
        GatewayServer(server.url, tmp_path_factory.mktemp("front")) as front,
    ):
        yield Ways(server.url, front.url, front.admin_url)
    assert "Traceback" not in front.log.read_text()


@pytest.fixture(scope="session")
def embedder(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """The same with a server for embeddings."""
    flags = ("-t", "1", "-c", "2048", "-np", "1", "-a", "tiny", "--embeddings", "--pooling", "mean")
    with (
        EngineServer(model_file(), tmp_path_factory.mktemp("embedder"), *flags) as server,
        GatewayServer(server.url, tmp_path_factory.mktemp("embedder-front")) as front,
    ):
        yield Ways(server.url, front.url, front.admin_url)
    assert "Traceback" not in front.log.read_text()


@pytest.fixture
async def ollama_ways(tmp_path: Path) -> AsyncIterator[Ways]:
    async with (
        FakeOllama(Model("tiny")) as fake,
        GatewayProcess(tmp_path, {"backends": {"o": {"url": fake.url, "kind": "ollama"}}}) as gateway,
    ):
        yield Ways(fake.url, gateway.url, gateway.admin)
