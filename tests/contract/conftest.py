"""Real servers for the whole session: one in each mode of its slots is started where it is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.engine.server import EngineServer
from tests.support.engine import ModelFile


@pytest.fixture(scope="session")
def saving_engine(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    """Two slots that can be saved."""
    slots = tmp_path_factory.mktemp("slots")
    flags = ("-t", "1", "-c", "8192", "-np", "2", "--slot-save-path", str(slots))
    with EngineServer(model_file(), tmp_path_factory.mktemp("saving-engine"), *flags) as server:
        yield server
