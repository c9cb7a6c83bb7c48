"""An agent's day on real llama.cpp servers of every kind, directly and through the gateway, counted by the servers.

Each scene meets servers that have just been started; only the mixed day and the newcomer come to some that others have used.
Each is played in one of the two dialects for each mode, in turn; with WARMGATE_EVERY_DIALECT=1 in both.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import product
from pathlib import Path

import pytest

from tests.slots.players import CHAT, DIALECTS, Dialect
from tests.slots.scenes import agent_with_sides, at_once, day, in_turn
from tests.slots.stand import Lab, Mode, lab
from tests.support.engine import ModelFile, needs_engine

pytestmark = [needs_engine, pytest.mark.slow]

MODES = [Mode(parallel, ram, files) for parallel, ram, files in product((None, 1, 2, 4), (True, False), (False, True))]
LIMITED = [Mode(2, ram, files, kind) for kind in ("hybrid", "hybrid-swa") for ram, files in ((True, False), (False, True))]
"""Models that cannot go back in what they have read."""

EVERY = [*MODES, *LIMITED]
EVERY_DIALECT = os.environ.get("WARMGATE_EVERY_DIALECT") == "1"


def played(scene: int, modes: list[Mode]) -> pytest.MarkDecorator:
    """The modes with the dialects in which they play a scene: neighbours take turns, where the dialect makes no difference."""
    cases = []
    for mode in modes:
        for number, (name, dialect) in enumerate(DIALECTS.items()):
            wanted = dialect is CHAT if needs_pins(mode) else (EVERY.index(mode) // 2 + scene) % len(DIALECTS) == number
            if wanted or EVERY_DIALECT:
                cases.append(pytest.param(mode, dialect, id=f"{mode}-{name}"))
    return pytest.mark.parametrize(("mode", "dialect"), cases)


def needs_pins(mode: Mode) -> bool:
    """Whether all that helps is to choose the slot, which llama.cpp does not let clients do on `/v1/messages` (measured)."""
    return not (mode.ram or mode.files)


def can_help(mode: Mode, dialect: Dialect) -> bool:
    return mode.kind == "tiny" and (dialect is CHAT or not needs_pins(mode))


Start = Callable[[Mode], AbstractAsyncContextManager[Lab]]


@pytest.fixture
def start(model_file: ModelFile, tmp_path: Path) -> Start:
    @asynccontextmanager
    async def started(mode: Mode) -> AsyncIterator[Lab]:
        async with lab(mode, model_file, tmp_path) as made:
            yield made

    return started


@played(0, EVERY)
async def test_an_agent_keeps_its_prefix_between_its_side_requests(mode: Mode, dialect: Dialect, start: Start) -> None:
    """And so it does on the day that follows, at which only the sum is judged."""
    async with start(mode) as stand:
        seen = await stand.compare(agent_with_sides("ann"), dialect)
        seen.assert_no_worse()
        if can_help(mode, dialect) and (mode.slots > 1 or mode.ram or mode.files):
            assert seen.through.kept >= 0.98, seen
        (await stand.compare(day("x"), dialect)).assert_no_worse()


@played(1, EVERY)
async def test_one_agent_more_than_there_are_slots(mode: Mode, dialect: Dialect, start: Start) -> None:
    async with start(mode) as stand:
        seen = await stand.compare(in_turn("bo", agents=mode.slots + 1), dialect)
    seen.assert_no_worse()
    if can_help(mode, dialect) and not mode.ram:
        assert seen.share <= most_of_one_more(mode), seen


def most_of_one_more(mode: Mode) -> float:
    """The largest share of the prompts that may be prefilled where no cache in memory helps."""
    return 0.28 if mode.files else {1: 1.0, 2: 0.78, 4: 0.57}[mode.slots]


@played(0, EVERY)
async def test_four_at_once_with_one_prefix(mode: Mode, dialect: Dialect, start: Start) -> None:
    async with start(mode) as stand:
        seen = await stand.compare(at_once("cy", answer=800), dialect)
    seen.assert_no_worse()
    if mode.kind == "tiny" and mode.files:
        assert seen.prompts <= 1.15, seen
        assert seen.through.together >= min(4, mode.slots) - (mode.slots > 2), seen  # on a busy machine one ends too soon
    elif mode.kind == "tiny" and seen.through.together == 1:  # they were made to wait for each other
        assert seen.prompts <= 1.35, seen


@played(0, [mode for mode in MODES if mode.slots > 1])
async def test_a_newcomer_keeps_its_prefix_where_others_have_been(mode: Mode, dialect: Dialect, start: Start) -> None:
    """What is left of agents that do not come back is no reason to overwrite what is used now, again and again."""
    async with start(mode) as stand:
        await stand.compare(in_turn("bo", agents=mode.slots + 1, rounds=4, head=600), dialect)
        seen = await stand.compare(agent_with_sides("ann", turns=3, head=900, memory=1500), dialect)
    seen.assert_no_worse()
    if can_help(mode, dialect):
        assert seen.through.kept >= 0.98, seen
