"""The scenes do to a server without a gateway what they are there to show, and are counted as the server itself counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.engine.server import EngineServer
from tests.slots.players import CHAT, DIALECTS, Dialect, Played, Player
from tests.slots.scenes import Scene, agent_with_sides, at_once, day, heads, in_turn
from tests.slots.stand import Mode, prefilled, start
from tests.support.engine import ModelFile, needs_engine

pytestmark = needs_engine


async def played(server: EngineServer, scene: Scene, dialect: Dialect = CHAT) -> Played:
    """As played, and counted as the server does."""
    before = await prefilled(server)
    found = await Player(server.url, dialect).play(scene)
    assert found.prefilled == await prefilled(server) - before
    return found


@pytest.fixture
def server(request: pytest.FixtureRequest, model_file: ModelFile, tmp_path: Path) -> Iterator[EngineServer]:
    running = start(model_file(), tmp_path / "engine", request.param)
    yield running
    running.stop()


def each(*modes: Mode) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("server", modes, indirect=True, ids=str)


def test_the_same_names_give_the_same_scene_and_others_share_nothing() -> None:
    assert day("x") == day("x")
    (one,), (other,) = in_turn("x", agents=2, rounds=1)
    assert one.agent.system[:8] != other.agent.system[:8]
    assert heads(in_turn("x", agents=3)) == 3
    assert heads(at_once("x")) == 1
    assert heads(agent_with_sides("x", turns=2)) == 4


@each(Mode(2, ram=False))
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_without_a_cache_behind_two_slots_everything_is_lost(server: EngineServer, dialect: Dialect) -> None:
    assert (await played(server, agent_with_sides("ann"), dialect)).kept < 0.02
    crowd = await played(server, in_turn("bo", agents=3), dialect)
    assert crowd.prefilled > 0.95 * crowd.prompt
    assert 1200 < crowd.answers[0].prompt < 1500
    burst = await played(server, at_once("cy", answer=64), dialect)
    assert 1.9 < burst.prefilled / burst.prompt * 4 < 2.2
    assert burst.together == 2
    assert 2000 < burst.answers[0].prompt < 2500


@each(Mode())
async def test_with_the_cache_in_memory_only_those_at_once_pay(server: EngineServer) -> None:
    assert (await played(server, agent_with_sides("ann"))).kept > 0.98
    crowd = await played(server, in_turn("bo", agents=5))
    assert crowd.prefilled < 0.25 * crowd.prompt
    burst = await played(server, at_once("cy", answer=64))
    assert burst.prefilled > 0.98 * burst.prompt
    assert burst.together == 4
