"""An agent's day on real llama.cpp servers of every kind, directly and through the gateway, counted by the servers.

Each scene is played in one of the two dialects for each mode, in turn; with WARMGATE_EVERY_DIALECT=1 in both.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from itertools import product

import pytest
import pytest_asyncio

from tests.slots.players import DIALECTS, Dialect
from tests.slots.scenes import agent_with_sides, at_once, day, in_turn
from tests.slots.stand import Compared, Lab, Mode, lab
from tests.support.engine import ModelFile, needs_engine

pytestmark = [needs_engine, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

MODES = [Mode(parallel, ram, files) for parallel, ram, files in product((None, 1, 2, 4), (True, False), (False, True))]
LIMITED = [Mode(2, ram, files, kind) for kind in ("hybrid", "hybrid-swa") for ram, files in ((True, False), (False, True))]
"""Models that cannot go back in what they have read."""

EVERY_DIALECT = os.environ.get("WARMGATE_EVERY_DIALECT") == "1"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[*MODES, *LIMITED], ids=str)
async def stand(
    request: pytest.FixtureRequest, model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Lab]:
    async with lab(request.param, model_file, tmp_path_factory.mktemp(str(request.param))) as made:
        yield made


def dialects(mode: Mode, scene: int) -> list[Dialect]:
    """Those in which a mode plays a scene: neighbours take turns."""
    every = list(DIALECTS.values())
    return every if EVERY_DIALECT else [every[((*MODES, *LIMITED).index(mode) + scene) % len(every)]]


async def test_an_agent_keeps_its_prefix_between_its_side_requests(stand: Lab) -> None:
    mode = stand.mode
    for dialect in dialects(mode, 0):
        seen = await stand.compare(agent_with_sides(f"ann{dialect.path[4]}"), dialect)
        seen.assert_no_worse()
        if mode.kind == "tiny" and (mode.slots > 1 or mode.ram or mode.files):
            assert seen.through.kept >= 0.98, seen


async def test_one_agent_more_than_there_are_slots(stand: Lab) -> None:
    mode = stand.mode
    for dialect in dialects(mode, 1):
        seen = await stand.compare(in_turn(f"bo{dialect.path[4]}", agents=mode.slots + 1), dialect)
        seen.assert_no_worse()
        if mode.kind == "tiny" and not mode.ram:
            assert seen.share <= _most_of_one_more(mode), seen


def _most_of_one_more(mode: Mode) -> float:
    """The largest share of the prompts that may be prefilled when no cache in memory helps."""
    return 0.28 if mode.files else {1: 1.0, 2: 0.78, 4: 0.57}[mode.slots]


async def test_four_at_once_with_one_prefix(stand: Lab) -> None:
    mode = stand.mode
    for dialect in dialects(mode, 0):
        seen = await stand.compare(at_once(f"cy{dialect.path[4]}", answer=256), dialect)
        seen.assert_no_worse()
        if mode.kind == "tiny" and mode.files:
            assert seen.prompts <= 1.15, seen
            assert seen.through.together >= min(4, mode.slots), seen
        elif mode.kind == "tiny" and _one_after_another(seen):
            assert seen.prompts <= 1.35, seen


def _one_after_another(seen: Compared) -> bool:
    return seen.through.together == 1


async def test_a_mixed_day(stand: Lab) -> None:
    for dialect in dialects(stand.mode, 1):
        seen = await stand.compare(day(f"d{dialect.path[4]}"), dialect)
        seen.assert_no_worse()
