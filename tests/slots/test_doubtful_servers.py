"""Servers that are not what they say, clients that choose their slot themselves, and servers that die: nobody waits for it, and
nothing is lost. Real llama.cpp servers, with somebody between them and the gateway who answers in their stead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.engine.server import EngineServer
from tests.slots.players import CHAT, DIALECTS, Dialect, Player, listen_in
from tests.slots.scenes import Agent, Turn, agent_with_sides, in_turn
from tests.slots.stand import Mode, Tapped, backend, prefilled, row, start, tapped
from tests.slots.tap import Handler, Tap
from tests.support.clients import fetch
from tests.support.engine import ModelFile, needs_engine
from tests.support.process import GatewayProcess

pytestmark = needs_engine

TWO = Mode(2, ram=False)
AT_ONCE = 1.5
"""Seconds within which a short answer comes on a busy machine; one that waits for a slow `/slots` takes longer."""


async def disabled(request: web.Request) -> web.StreamResponse:
    error = {"code": 501, "message": "This server does not support slots endpoint.", "type": "not_supported_error"}
    return web.json_response({"error": error}, status=501)


async def slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(4)
    return web.json_response([])


async def nonsense(request: web.Request) -> web.StreamResponse:
    return web.json_response({"slots": "many"})


def rows(*ids: Any, **fields: Any) -> Handler:
    """Slots with these numbers, all idle and full."""

    async def answer(request: web.Request) -> web.StreamResponse:
        told = {"n_ctx": 16384, "speculative": False, "is_processing": False, "n_prompt_tokens": 5000, **fields}
        return web.json_response([{"id": id, **told} for id in ids])

    return answer


LIES: dict[str, Handler] = {
    "disabled": disabled,
    "slow": slow,
    "no list": nonsense,
    "too many": rows(*range(8)),
    "too few": rows(0),
    "other numbers": rows(7, 9),
    "the same twice": rows(1, 1),
    "numbers that are none": rows("zero", None, -1),
    "always at work": rows(0, 1, is_processing=True),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_lie_about_slots_pins_nothing_wrong_and_delays_nobody(
    lie: Handler, model_file: ModelFile, tmp_path: Path
) -> None:
    scene = agent_with_sides("ann", turns=3, head=600, memory=600)
    async with tapped(TWO, model_file, tmp_path) as on:
        alone = await Player(on.server.url, CHAT).play(agent_with_sides("bob", turns=3, head=600, memory=600))
        on.tap.instead("/slots", lie)
        before = await prefilled(on.server)
        played = await on.player(CHAT).play(scene)
        used = await prefilled(on.server) - before
        assert [one.slot for one in on.tap.pinned if one.slot not in (0, 1)] == []
    assert max(got.ended - got.began for got in played.answers) < AT_ONCE, played
    assert used <= 1.02 * alone.prefilled + 64 * 7, played


@pytest.mark.parametrize("lie", [disabled, slow, nonsense], ids=["disabled", "slow", "no list"])
async def test_without_a_usable_list_of_slots_nothing_is_pinned(lie: Handler, model_file: ModelFile, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        server = start(model_file(), tmp_path / "engine", TWO)
        stack.callback(server.stop)
        tap = await stack.enter_async_context(Tap(server.url))
        tap.instead("/slots", lie)  # from the gateway's first look on
        gateway = await stack.enter_async_context(GatewayProcess(tmp_path, {"backends": {"local": backend(tap)}}))
        played = await Player(gateway.url, CHAT).play(in_turn("bo", agents=3, rounds=3, head=400))
        assert tap.pinned == []
    assert max(got.ended - got.began for got in played.answers) < AT_ONCE, played


async def test_slots_that_are_said_to_keep_what_they_lose_are_not_pinned_for_long(
    model_file: ModelFile, tmp_path: Path
) -> None:
    """The server empties idle slots, and its list says that they are full: what is reused contradicts it."""
    async with tapped(Mode(), model_file, tmp_path) as on:
        on.tap.instead("/slots", rows(0, 1, 2, 3))
        await on.player(CHAT).play(in_turn("bo", agents=2, rounds=8, head=600))
        on.tap.heard.clear()
        after = await on.player(CHAT).play(in_turn("cy", agents=2, rounds=4, head=600))
        assert on.tap.pinned == []
    assert after.kept >= 0.98, after


# a client that chooses its slot itself


@pytest.mark.parametrize("slot", [0, 1, 7, -1])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_the_clients_own_slot_is_passed_on_and_recorded(
    dialect: Dialect, slot: int, tapped_server: Tapped, request: pytest.FixtureRequest
) -> None:
    name = f"own{slot + 1}{dialect.path[4]}"
    body = {**dialect.body(Player("", dialect).talk(Turn(Agent(name, 400)))), "id_slot": slot, "stream": False}
    response = await fetch(f"{tapped_server.gateway.url}{dialect.path}", body, ("X-Request-Id", name), within=30)
    assert response.status == 200, response.body
    assert tapped_server.tap.asked[-1].body == body
    if slot in (0, 1) and dialect is CHAT:  # llama.cpp drops the field on /v1/messages (measured)
        assert (await row(tapped_server.gateway, name))["slot"] == slot


@pytest.fixture
async def tapped_server(model_file: ModelFile, tmp_path: Path) -> AsyncIterator[Tapped]:
    async with tapped(TWO, model_file, tmp_path) as on:
        yield on


async def test_what_is_in_a_slot_that_a_client_chose_is_known(tapped_server: Tapped) -> None:
    """The next turn of its conversation, without the field, finds it; another conversation does not take it."""
    on, player = tapped_server, tapped_server.player(CHAT)
    agent = Agent("ada", 900)
    body = {**CHAT.body(player.talk(Turn(agent))), "id_slot": 1, "stream": False}
    assert (await fetch(f"{on.gateway.url}{CHAT.path}", body, within=30)).status == 200
    played = await player.play([[Turn(Agent("bea", 900))], [Turn(Agent("cid", 900))], [Turn(agent)]])
    assert played.answers[-1].cached >= 0.95 * played.answers[-1].prompt, played


# a server that dies


@asynccontextmanager
async def pair(
    model_file: ModelFile, directory: Path, **config: Any
) -> AsyncIterator[tuple[list[EngineServer], GatewayProcess]]:
    async with AsyncExitStack() as stack:
        servers = []
        for name in ("one", "two"):
            servers.append(start(model_file(), directory / name, TWO))
            stack.callback(servers[-1].stop)
        backends = {name: backend(server) for name, server in zip(("one", "two"), servers, strict=True)}
        yield servers, await stack.enter_async_context(GatewayProcess(directory, {"backends": backends, **config}))


async def test_an_agent_stays_with_the_server_that_knows_it(model_file: ModelFile, tmp_path: Path) -> None:
    async with pair(model_file, tmp_path) as (_, gateway):
        played = await Player(gateway.url, CHAT).play(in_turn("bo", agents=4, rounds=4, head=600))
    assert played.kept >= 0.98, played
    assert {got.backend for got in played.answers} == {"one", "two"}


async def test_when_a_server_dies_its_agents_move_and_nothing_is_lost(model_file: ModelFile, tmp_path: Path) -> None:
    async with pair(model_file, tmp_path) as (servers, gateway):
        player = Player(gateway.url, CHAT)
        before = await player.play(in_turn("bo", agents=4, rounds=2, head=600))
        servers[0].kill()
        after = await player.play(in_turn("bo", agents=4, rounds=2, head=600))  # all are answered, or `play` raises
        assert {got.backend for got in after.answers} == {"two"}
        stayed = {got.step.agent for got in before.answers if got.backend == "two"}
        assert all(got.cached > 0 for got in after.answers[:4] if got.step.agent in stayed), after
        servers[0].start()
        again = await player.play(in_turn("cy", agents=4, rounds=2, head=600))
    assert {got.backend for got in again.answers} <= {"one", "two"}


async def test_those_who_wait_or_have_not_heard_a_word_are_moved(model_file: ModelFile, tmp_path: Path) -> None:
    """More requests than both servers have slots; one of the servers is killed while they are being answered."""
    async with pair(model_file, tmp_path) as (servers, gateway):
        player = Player(gateway.url, CHAT)
        await player.play(in_turn("warm", agents=2, rounds=2, head=300))
        asked = [asyncio.create_task(listen_in(player, Turn(Agent(f"{n}bo", 4000), answer=40))) for n in range(10)]
        await asyncio.sleep(0.15)
        servers[0].kill()
        ended = await asyncio.gather(*asked)
    lost = [heard for heard in ended if not heard.whole]
    assert all(heard.begun for heard in lost), lost
    assert len(lost) <= TWO.slots, "only what the dead server had begun to answer"
