"""Fixtures with real llama.cpp servers on generated models. Tests that use them need `module:xllamacpp` and `module:gguf`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from gateway.engine.gguf import CACHE_VARIABLE, Model, cached
from gateway.engine.server import EngineServer

TINY = Model("tiny")

needs_engine = pytest.mark.needs("module:xllamacpp", "module:gguf")


class ModelFile(Protocol):
    def __call__(self, model: Model = TINY) -> Path: ...


class StartEngine(Protocol):
    def __call__(self, *flags: str, model: Model = TINY) -> EngineServer: ...


@pytest.fixture(scope="session")
def model_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    """Paths of generated models, written once a run, or once ever with a cache directory in WARMGATE_MODEL_CACHE."""
    directory = os.environ.get(CACHE_VARIABLE)
    temporary = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        temporary = temporary.parent  # of all workers
    models = Path(directory) if directory else temporary / "models"
    return lambda model=TINY: cached(model, models)


@pytest.fixture
def start_engine(model_file: ModelFile, tmp_path: Path) -> Iterator[StartEngine]:
    """Starts servers with one thread each (machines are shared) and the given flags of llama-server; stops them at the end."""
    with ExitStack() as servers:

        def start(*flags: str, model: Model = TINY) -> EngineServer:
            directory = tmp_path / f"engine-{len(list(tmp_path.glob('engine-*')))}"
            directory.mkdir()
            return servers.enter_context(EngineServer(model_file(model), directory, "-t", "1", *flags))

        yield start


@pytest.fixture(scope="session")
def engine(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    """One server for all tests that do not mind what the others did to its caches: tiny model, two slots of 16k tokens."""
    with EngineServer(
        model_file(), tmp_path_factory.mktemp("engine"), "-t", "1", "-c", "32768", "-np", "2", "--metrics"
    ) as server:
        yield server
