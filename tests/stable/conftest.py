"""One stand for each module. A module that needs another configuration sets `STAND`, the arguments of `stand.standing`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.stable.stand import Stand, standing


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    async with standing(tmp_path_factory.mktemp("gateway"), **getattr(request.module, "STAND", {})) as started:
        yield started


@pytest.fixture
def stand(request: pytest.FixtureRequest, shared_stand: Stand) -> Stand:
    """The module's stand, as if this test were its first."""
    shared_stand.begin(re.sub(r"\W+", "-", request.node.name))
    return shared_stand


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a module share its loop, because they share its servers."""
    for item in items:
        if "stable/" in item.nodeid:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
