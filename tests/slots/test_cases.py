"""Reported troubles with slots and caches, and others of their kinds, on real llama.cpp servers behind the gateway.

The number in a test's name is that of the reported case: E01 titles, E03 one agent too many, E05 an empty slot, E07 models that
cannot go back, E09 a server that cannot save, E11 `cache_prompt`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.slots.players import CHAT, DIALECTS, MESSAGES, Dialect, Got, Player, ask
from tests.slots.scenes import Agent, Side, Turn, at_once, in_turn, prose
from tests.slots.stand import Mode, Tapped, lab, row, tapped
from tests.slots.tap import Handler, Tap
from tests.support import personas
from tests.support.clients import fetch
from tests.support.engine import ModelFile, needs_engine
from tests.support.process import GatewayProcess
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply, ordinary

pytestmark = needs_engine

TWO = Mode(2, ram=False)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)

Stage = Callable[..., AbstractAsyncContextManager[Tapped]]


@pytest.fixture
def stage(model_file: ModelFile, tmp_path: Path) -> Stage:
    return lambda mode, *flags, **config: tapped(mode, model_file, tmp_path, *flags, **config)


def hits(got: Got, before: Got) -> bool:
    """Whether it reused what the earlier request of its conversation had left."""
    return got.cached >= 0.98 * before.prompt


# E01: titles and tags


@each_dialect
async def test_e01_a_title_takes_another_slot_than_the_conversation(stage: Stage, dialect: Dialect) -> None:
    agent = Agent("pelle")
    async with stage(TWO) as on:
        await learn_the_mode(on)
        one, title, two = (await on.player(dialect).play([[Turn(agent)], [Side(agent, "title", 60, 0)], [Turn(agent)]])).answers
        slots = [(await on.row(got))["slot"] for got in (one, title, two)]
    assert hits(two, one)
    assert slots[0] == slots[2] != slots[1]


@pytest.mark.parametrize("mode", [TWO, replace(TWO, files=True)], ids=str)
async def test_e01_so_does_one_that_is_asked_for_beside_the_first_turn(stage: Stage, mode: Mode) -> None:
    """As opencode asks for it: under the session of the conversation, and at the same time. On `/v1/messages`, where clients
    cannot choose a slot, a saved one helps."""
    agent, dialect = Agent("pelle"), MESSAGES if mode.files else CHAT
    async with stage(mode) as on:
        await learn_the_mode(on)
        player = on.player(dialect, ("x-session-id", "ses_1"))
        played = await player.play(
            [[Turn(agent), Side(agent, "title", 60, 0)], [Side(agent, "memory", 2000, 0)], [Turn(agent)]]
        )
    assert hits(played.turns[1], played.turns[0]), played


async def test_e01_titles_of_several_conversations_share_what_is_left(stage: Stage) -> None:
    one, two = Agent("ada"), Agent("bea")
    sides = [[Side(agent, task, 100, 0)] for agent in (one, two) for task in ("title", "tags")]  # type: ignore[arg-type]
    async with stage(Mode(4, ram=False)) as on:
        await learn_the_mode(on)
        played = await on.player(CHAT).play([[Turn(one)], [Turn(two)], *sides, [Turn(one)], [Turn(two)]])
    assert played.kept >= 0.98, str(played)


async def learn_the_mode(on: Tapped) -> None:
    """What a server does with idle slots shows in the first moments of its work."""
    await on.player(CHAT).play(in_turn("warm", agents=2, rounds=2, head=300))


# E03: one agent more than there are slots


async def test_e03_the_largest_of_five_agents_keeps_its_slot(stage: Stage) -> None:
    sizes = {"ann": 500, "bob": 1200, "cid": 2000, "dot": 3000, "eve": 8000}
    cast = [Agent(name, head) for name, head in sizes.items()]
    async with stage(Mode(4, ram=False), "-c", "65536") as on:
        await learn_the_mode(on)
        played = await on.player(CHAT).play([[Turn(agent)] for _ in range(3) for agent in cast])
        large = [got for got in played.turns if got.step.agent.name == "eve"]
        slots = {(await on.row(got))["slot"] for got in large}
    assert [got.cached > 0.9 * got.prompt for got in large] == [False, True, True], played
    assert len(slots) == 1
    assert played.prefilled < 0.75 * played.prompt, "as the server alone would"


async def test_e03_two_agents_with_one_head_keep_at_least_that_head(stage: Stage) -> None:
    """The server alone gives the second the first one's slot, every time: they have more than a tenth in common. Without a
    cache in memory that costs least at each turn, so they go on in one slot; what they have in common is never read again."""
    cast = [Agent(name, 900, question=400, prefix="lab") for name in ("ann", "bob")]
    async with stage(TWO) as on:
        await learn_the_mode(on)
        played = await on.player(CHAT).play([[Turn(agent)] for _ in range(4) for agent in cast])
    assert all(got.cached > 0.98 * 1047 for got in played.answers[1:]), str(played)


# E05: pinned to a slot that is empty


async def test_e05_what_lies_in_the_cache_behind_the_slots_is_not_missed(stage: Stage) -> None:
    """The client itself puts two prompts into one slot, so that the first goes to the cache in memory."""
    async with stage(Mode(2)) as on:
        player = on.player(CHAT)
        for name in ("ada", "bea"):
            await asked_in_slot(on, player.talk(Turn(Agent(name))), 0)
        again = await player.ask(Turn(Agent("ada")))
    assert again.cached >= 0.98 * again.prompt


async def test_e05_in_the_mode_that_empties_slots_nothing_is_pinned(stage: Stage) -> None:
    async with stage(Mode()) as on:
        played = await on.player(CHAT).play(in_turn("bo", agents=3, rounds=4))
        assert on.tap.pinned == []
    assert played.kept >= 0.98, str(played)


async def asked_in_slot(on: Tapped, talk: Any, slot: int) -> Any:
    body = {**CHAT.body(talk), "stream": False, "id_slot": slot}
    response = await fetch(f"{on.gateway.url}{CHAT.path}", body, within=30)
    assert response.status == 200, response.body
    return response.json()


# E07: models that cannot go back


@pytest.mark.parametrize("kind", ["hybrid", "hybrid-swa"])
async def test_e07_what_such_a_model_reuses_is_learnt(kind: str, model_file: ModelFile, tmp_path: Path) -> None:
    """The newest question comes in other words again and again: the prompts are alike up to there, what is reused is less."""
    agent = Agent("ida", 1500)
    talk = Player("", CHAT).talk(Turn(agent))
    before = (("user", agent.asked(0)), ("assistant", "Tray 4 holds 12 gears."))
    asked = [replace(talk, messages=(*before, ("user", prose(f"version {number}", 120)))) for number in range(6)]
    async with lab(Mode(2, ram=False, kind=kind), model_file, tmp_path) as stand:
        direct = [await ask(stand.direct.url, CHAT, Turn(agent), one) for one in asked]
        through = [await ask(stand.gateway.url, CHAT, Turn(agent), one) for one in asked]
        rows = [await row(stand.gateway, got.id) for got in through]
    assert sum(got.prefilled for got in through) <= 1.02 * sum(got.prefilled for got in direct) + 64
    last = rows[-1]
    assert last["expected"] <= last["cached"] + 0.1 * last["prompt"], [(one["expected"], one["cached"]) for one in rows]


# E09: a server that cannot save its slots


async def test_e09_a_refused_save_is_the_last_one(stage: Stage) -> None:
    """With a vision projector llama-server answers 501."""
    async with stage(Mode(2, ram=False, files=True)) as on:
        on.tap.instead("/slots", unable(on.tap, "save"))
        player = on.player(CHAT)
        await player.play(at_once("cy"))
        tried = len(on.tap.slot_orders("save"))
        await player.play([*at_once("di"), *in_turn("bo", agents=3, rounds=2)])
        assert tried == 1, "the test shows nothing where nothing was tried"
        assert len(on.tap.slot_orders("save")) == tried
        assert on.tap.slot_orders("restore") == []


def unable(tap: Tap, action: str) -> Handler:
    """501 to one action with a slot; all else is passed on."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("action") != action:
            return await tap.passed_on(request)
        error = {"code": 501, "message": "This feature is not supported by multimodal", "type": "not_supported_error"}
        return web.json_response({"error": error}, status=501)

    return answer


# E11: a server that reuses only if it is told to

RAW = {"prompt": "Long text. " * 40, "n_predict": 4}
SAID = {"content": "Yes.", "stop": True, "timings": {"cache_n": 0, "prompt_n": 9, "predicted_n": 1}}


@pytest.mark.parametrize(
    ("path", "asked"), [("/completion", RAW), ("/infill", {**RAW, "input_prefix": "a", "input_suffix": "b"})]
)
async def test_e11_llamacpp_is_told_to_reuse_unless_the_client_says_otherwise(
    path: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    async with ScriptedUpstream(personas.llamacpp()) as server:
        server.on(path, *json_reply(SAID))
        async with GatewayProcess(tmp_path, {"backends": {"local": {"kind": "llamacpp", "url": server.url}}}) as gateway:
            for more in ({}, {"cache_prompt": False}, {"cache_prompt": True}):
                assert (await fetch(gateway.url + path, {**asked, **more})).status == 200
        sent = [body for request in server.asked(path) if (body := request.json())["prompt"] == asked["prompt"]]
    assert [body["cache_prompt"] for body in sent] == [True, False, True]
    assert [{name: body[name] for name in asked} for body in sent] == [asked] * 3


@pytest.mark.parametrize("kind", ["ollama", "lmstudio", "vllm", "omlx", "openai"])
async def test_e11_no_other_server_hears_of_it(kind: str, tmp_path: Path) -> None:
    persona = personas.ollama() if kind == "ollama" else personas.openai()
    async with ScriptedUpstream(persona) as server:
        server.on("/v1/completions", ordinary())
        async with GatewayProcess(tmp_path, {"backends": {"local": {"kind": kind, "url": server.url}}}) as gateway:
            body = {"model": "tiny", "prompt": "Long text.", "max_tokens": 4}
            assert (await fetch(f"{gateway.url}/v1/completions", body)).status == 200
            await fetch(f"{gateway.url}/completion", RAW)
        assert [set(request.json()) for request in server.asked("/v1/completions")] == [set(body)]
        assert not any(b"cache_prompt" in request.body for request in server.requests)
