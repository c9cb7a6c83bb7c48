"""One gateway for each module. A module that needs another configuration sets `RIG`, the arguments of `rig.running`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.plumbing.rig import Rig, running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with running(tmp_path_factory.mktemp("gateway"), **getattr(request.module, "RIG", {})) as started:
        yield started


@pytest.fixture(autouse=True)
def no_scripts_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "rig" in request.fixturenames:
        for upstream in request.getfixturevalue("rig").upstreams.values():
            upstream.forget()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a module share its loop, because they share its servers."""
    for item in items:
        if "plumbing" in item.path.parts:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
