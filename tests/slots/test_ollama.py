"""The same scenes on simulated Ollamas: an old one with its own runner, one that has a real llama.cpp server inside, and two of
them. No slot can be chosen there. What was reused is what the simulated server itself has counted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.slots.players import CHAT, DIALECTS, MODEL, NATIVE, Dialect, Played, Player
from tests.slots.scenes import Scene, agent_with_sides, at_once, heads, in_turn
from tests.slots.stand import EACH_HEAD, MARGIN, NOT_AHEAD, RATE, Mode, start
from tests.support.clients import fetch
from tests.support.engine import ModelFile, needs_engine
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_server import Served
from tests.support.ollama_runners import Model
from tests.support.process import GatewayProcess

OLD, NEW = "0.24.0", "0.33.3"
SPEED = 0.0001
"""Seconds that the simulated runner takes for a token, so that four at once do not come one after another by themselves."""

MODELS = (Model(MODEL, num_ctx=32768), Model("small", num_ctx=32768))
EVERY_DIALECT = {**DIALECTS, "native": NATIVE}

SCENES = {
    "side requests": lambda slots: agent_with_sides("ann", turns=3, head=900, memory=1500),
    "one too many": lambda slots: in_turn("bo", agents=slots + 1, rounds=3, head=600),
    "four at once": lambda slots: at_once("cy", head=1500, answer=16),
}


@dataclass(slots=True)
class Seen:
    """A scene on one or several servers; the answers carry what these counted, where they were asked one after another."""

    played: Played
    served: list[Served]

    @property
    def prefilled(self) -> int:
        return sum(one.evaluated for one in self.served)

    @property
    def prompts(self) -> float:
        """How many prompts were prefilled, where all are of one size."""
        return self.prefilled / sum(one.total for one in self.served) * len(self.served)

    @property
    def kept(self) -> float:
        pairs = zip(self.played.answers, self.served, strict=True)
        return Played([replace(got, prompt=one.total, cached=one.reused) for got, one in pairs]).kept


async def play(url: str, scene: Scene, fakes: Sequence[FakeOllama], dialect: Dialect = CHAT) -> Seen:
    before = [len(fake.served) for fake in fakes]
    played = await Player(url, dialect).play(scene)
    served = [one for fake, start in zip(fakes, before, strict=True) for one in fake.served[start:]]
    return Seen(played, sorted((one for one in served if one.total), key=lambda one: one.at))


@dataclass(frozen=True, slots=True)
class Kind:
    """version: of Ollama; parallel: its OLLAMA_NUM_PARALLEL."""

    version: str
    parallel: int

    def __str__(self) -> str:
        return f"{self.version}-parallel{self.parallel}"


KINDS = [Kind(version, parallel) for version in (OLD, NEW) for parallel in (1, 2, 4)]
each_kind = pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[needs_engine] if k.version == NEW else []) for k in KINDS], ids=str
)


@asynccontextmanager
async def ollamas(kind: Kind, count: int, model_file: ModelFile, directory: Path) -> AsyncIterator[list[FakeOllama]]:
    """That many servers of this kind; a new one has a real server inside, with its cache in memory."""
    async with AsyncExitStack() as stack:
        fakes = []
        for number in range(count):
            inside = ""
            if kind.version == NEW:
                server = start(model_file(), directory / f"inside{number}", Mode(kind.parallel))
                stack.callback(server.stop)
                inside = server.url
            fake = FakeOllama(*MODELS, version=kind.version, parallel=kind.parallel, seconds_per_token=SPEED, engine_url=inside)
            fakes.append(await stack.enter_async_context(fake))
            await fetch(f"{fake.url}/api/generate", {"model": MODEL})  # loads it
        yield fakes


@asynccontextmanager
async def gateway(directory: Path, fakes: Sequence[FakeOllama], parallel: int, **config: Any) -> AsyncIterator[GatewayProcess]:
    backends = {
        f"ollama{number}": {"kind": "ollama", "url": fake.url, "parallel": parallel, "prefill_rate": RATE}
        for number, fake in enumerate(fakes)
    }
    async with GatewayProcess(directory, {"backends": backends, **NOT_AHEAD, **config}) as running:
        yield running


@each_kind
async def test_one_ollama_is_never_worse_and_answers_to_many_at_once_are_better(
    kind: Kind, model_file: ModelFile, tmp_path: Path
) -> None:
    async with ollamas(kind, 2, model_file, tmp_path) as (direct, behind), gateway(tmp_path, [behind], kind.parallel) as front:
        for number, (name, make) in enumerate(SCENES.items()):
            dialect = list(EVERY_DIALECT.values())[(KINDS.index(kind) + number) % len(EVERY_DIALECT)]
            scene = make(kind.parallel)
            alone = await play(direct.url, scene, [direct], dialect)
            through = await play(front.url, scene, [behind], dialect)
            told = (name, dialect.path, alone.prefilled, through.prefilled, through.served)
            assert through.prefilled <= MARGIN * alone.prefilled + EACH_HEAD * heads(scene), told
            if name == "four at once":
                assert through.prompts <= 1.35, told


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.version == OLD], ids=str)
async def test_side_requests_go_to_another_model_if_the_configuration_says_so(
    kind: Kind, model_file: ModelFile, tmp_path: Path
) -> None:
    """Not on a new one: its models share one real server here."""
    models = {"helper": {"aliases": [MODEL], "targets": [f"ollama0/{MODEL}"], "side_target": "ollama0/small"}}
    async with (
        ollamas(kind, 1, model_file, tmp_path) as (one,),
        gateway(tmp_path, [one], kind.parallel, models=models) as front,
    ):
        seen = await play(front.url, agent_with_sides("ann", turns=3, head=900, memory=1500), [one])
    assert seen.kept >= 0.98, seen.served
    assert {served.body["model"] for served in seen.served} == {MODEL, "small"}


@each_kind
async def test_of_two_ollamas_the_one_that_has_the_prefix(kind: Kind, model_file: ModelFile, tmp_path: Path) -> None:
    """Two agents with side requests, and each comes back to where it was; alone they would take each other's place."""
    async with ollamas(kind, 2, model_file, tmp_path) as both, gateway(tmp_path, both, kind.parallel) as front:
        turns = await play(front.url, in_turn("bo", agents=2 * kind.parallel, rounds=3, head=600), both)
        assert turns.kept >= 0.98, turns.served
        sides = await play(front.url, agent_with_sides("ann", turns=3, head=900, memory=1500), both, NATIVE)
        assert sides.kept >= 0.98, sides.served
        burst = await play(front.url, at_once("cy", head=1500, answer=16), both)
        assert burst.prompts <= 2.35, burst.served
