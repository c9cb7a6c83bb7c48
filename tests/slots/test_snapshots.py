"""Slots that are saved and restored at a real llama.cpp server: what is prefilled, and that no answer is another model's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import SystemClock
from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from gateway.routing.board import Held, Mode, Snapshot
from gateway.state.memory import Memory
from tests.slots.scenes import prose
from tests.support.clients import fetch
from tests.support.engine import ModelFile, needs_engine
from tests.support.process import Metrics
from tests.support.snapshots import CHAT, Answer, Rig

pytestmark = needs_engine

HEAD = 2000
"""Tokens, about."""


@dataclass(frozen=True)
class Setting:
    """How a server is started, and what becomes of its idle slots then."""

    flags: tuple[str, ...]
    mode: Mode
    slots: int

    def __str__(self) -> str:
        return " ".join(self.flags) or "default"


DEFAULT = Setting((), "emptied", 4)
NP4 = Setting(("-np", "4"), "kept", 4)
NP2 = Setting(("-np", "2"), "kept", 2)
NP1 = Setting(("-np", "1"), "kept", 1)
NO_RAM = Setting(("--cache-ram", "0"), "kept", 4)
NP4_NO_RAM = Setting(("-np", "4", "--cache-ram", "0"), "kept", 4)
NP2_NO_RAM = Setting(("-np", "2", "--cache-ram", "0"), "kept", 2)
NP1_NO_RAM = Setting(("-np", "1", "--cache-ram", "0"), "kept", 1)


@dataclass
class Lab:
    """A server that saves slots, and the driver in front of it."""

    setting: Setting
    server: EngineServer
    rig: Rig
    files: Path
    turn: int = 0

    @property
    def pins(self) -> bool:
        return self.setting.mode == "kept"

    async def prefilled(self) -> int:
        metrics = Metrics.parse((await fetch(f"{self.server.url}/metrics")).body.decode())
        return int(metrics.value("llamacpp:prompt_tokens_total"))

    async def ask(self, asked: dict[str, Any], path: str = CHAT, **choice: Any) -> Answer:
        pins = self.pins and path != "/v1/messages"
        return await self.rig.ask(asked, path, pin=pins, **choice)

    async def led(self, asked: dict[str, Any], path: str = CHAT, slot: int = 0) -> Snapshot:
        """The head of this request, computed ahead and saved."""
        chain = self.rig.chain(asked, path)
        await self.ask(asked, path, slot=slot, lead=chain.head)
        return self.rig.engine.snapshots[chain.start]


@asynccontextmanager
async def lab(
    setting: Setting, model_file: ModelFile, directory: Path, kind: str = "tiny", memory: Memory | None = None, *flags: str
) -> AsyncIterator[Lab]:
    with start(setting, model_file(Model(kind)), directory, *flags) as server:
        rig = Rig(server.url, memory or Memory(None, SystemClock()), setting.mode, setting.slots)
        try:
            await rig.look()
            yield Lab(setting, server, rig, directory / "slots")
        finally:
            await rig.close()


def start(setting: Setting, model: Path, directory: Path, *flags: str) -> EngineServer:
    (directory / "slots").mkdir(exist_ok=True)
    saving = ("--slot-save-path", str(directory / "slots"))
    return EngineServer(model, directory, "-t", "1", "-c", "32768", "--metrics", *saving, *setting.flags, *flags)


def body(head: str, question: str, *, answer: int = 24, stream: bool = True, size: int = HEAD) -> dict[str, Any]:
    told = [{"role": "system", "content": prose(head, size)}, {"role": "user", "content": question}]
    return {"messages": told, "max_tokens": answer, "temperature": 0, "stream": stream}


def question(n: int) -> str:
    return f"Question {n}: {prose(str(n), 20)}"


# one prefix, many requests


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])
@pytest.mark.parametrize("kind", ["tiny", "hybrid"])
@pytest.mark.parametrize("setting", [DEFAULT, NP4, NO_RAM, NP4_NO_RAM], ids=str)
async def test_four_at_once_with_one_prefix_are_one_prompt(
    model_file: ModelFile, tmp_path: Path, setting: Setting, kind: str, stream: bool
) -> None:
    async with lab(setting, model_file, tmp_path, kind) as one:
        bodies = [body("shared", question(n), stream=stream, answer=200) for n in range(4)]
        lead = one.rig.chain(bodies[0]).head
        answers = await asyncio.gather(*(one.ask(asked, slot=n, lead=lead) for n, asked in enumerate(bodies)))
        prompts = await one.prefilled() / max(answer.cached + answer.evaluated for answer in answers)
    assert {answer.status for answer in answers} == {200}
    assert prompts <= 1.15
    assert all(answer.evaluated < 100 for answer in answers), "each of them, so that all run together"


async def test_a_hybrid_with_a_sliding_window_reuses_what_it_can(model_file: ModelFile, tmp_path: Path) -> None:
    """It goes back only to a checkpoint, some hundred tokens before the end of what was saved: less than all, more than
    nothing, and no reason to give up."""
    async with lab(DEFAULT, model_file, tmp_path, "hybrid-swa") as one:
        bodies = [body("shared", question(n)) for n in range(4)]
        lead = one.rig.chain(bodies[0]).head
        answers = await asyncio.gather(*(one.ask(asked, slot=n, lead=lead) for n, asked in enumerate(bodies)))
        prompts = await one.prefilled() / max(answer.cached + answer.evaluated for answer in answers)
        assert prompts <= 2.1
        assert one.rig.engine.saves


@pytest.mark.parametrize("setting", [NP2, NP1, NP2_NO_RAM, NP1_NO_RAM], ids=str)
async def test_fewer_slots_than_requests_are_one_prompt_too(model_file: ModelFile, tmp_path: Path, setting: Setting) -> None:
    """As many at once as there are slots, and in between somebody else's prompt in each of them."""
    async with lab(setting, model_file, tmp_path) as one:
        bodies = [body("shared", question(n)) for n in range(4)]
        chain = one.rig.chain(bodies[0])
        other = others = longest = 0
        for first in range(0, 4, setting.slots):
            snapshot = one.rig.engine.snapshots.get(chain.start)
            how: dict[str, Any] = {"restore": snapshot} if snapshot else {"lead": chain.head}
            wave = bodies[first : first + setting.slots]
            answers = await asyncio.gather(*(one.ask(asked, slot=n, **how) for n, asked in enumerate(wave)))
            longest = max(longest, *(answer.cached + answer.evaluated for answer in answers))
            before = await one.prefilled()
            for slot in range(setting.slots):
                await one.ask(body(f"other {other}", "Who else?"), slot=slot)
                other += 1
            others += await one.prefilled() - before
        assert (await one.prefilled() - others) / longest <= 1.15


@pytest.mark.parametrize("setting", [DEFAULT, NP4], ids=str)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
async def test_in_the_other_dialects_too(model_file: ModelFile, tmp_path: Path, path: str, setting: Setting) -> None:
    """`/v1/messages` has no `id_slot`: the server's own match of prefixes finds the slot."""
    async with lab(setting, model_file, tmp_path) as one:
        bodies = [spoken(path, question(n)) for n in range(4)]
        lead = one.rig.chain(bodies[0], path).head
        answers = await asyncio.gather(*(one.ask(asked, path, slot=n, lead=lead) for n, asked in enumerate(bodies)))
        prompts = await one.prefilled() / max(answer.cached + answer.evaluated for answer in answers)
    assert prompts <= 1.15
    assert all(answer.evaluated < 100 for answer in answers)


def spoken(path: str, asked: str) -> dict[str, Any]:
    if path == "/v1/messages":
        return {
            "system": prose("shared", HEAD),
            "messages": [{"role": "user", "content": asked}],
            "max_tokens": 24,
            "stream": True,
        }
    return {"instructions": prose("shared", HEAD), "input": asked, "max_output_tokens": 24, "stream": True}


async def test_tools_are_part_of_the_head(model_file: ModelFile, tmp_path: Path) -> None:
    parameters = {"type": "object", "properties": {"place": {"type": "string", "description": prose("place", 300)}}}
    tools = [{"type": "function", "function": {"name": f"look_{n}", "parameters": parameters}} for n in range(4)]
    async with lab(DEFAULT, model_file, tmp_path) as one:
        snapshot = await one.led({**body("shared", "one", size=400), "tools": tools})
        again = await one.ask({**body("shared", "two", size=400), "tools": tools}, slot=1, restore=snapshot)
        assert snapshot.tokens > 1500
        assert again.evaluated < 60


# conversations


@pytest.mark.parametrize("setting", [NP2, NP2_NO_RAM, NP1], ids=str)
@pytest.mark.parametrize("kind", ["tiny", "hybrid"])
async def test_one_agent_more_than_there_are_slots(model_file: ModelFile, tmp_path: Path, setting: Setting, kind: str) -> None:
    """Round robin, so that without files everybody finds his slot taken: each is saved before it is overwritten."""
    async with lab(setting, model_file, tmp_path, kind) as one:
        holding: dict[int, Held] = {}
        told: dict[int, list[dict[str, Any]]] = {n: body(f"agent {n}", "")["messages"][:1] for n in range(setting.slots + 1)}
        prompt = turn = 0
        for _round in range(5):
            for agent, messages in told.items():
                messages.append({"role": "user", "content": question(turn)})
                asked = {"messages": messages, "max_tokens": 16, "temperature": 0}
                chain, slot = one.rig.chain(asked), turn % setting.slots
                found = [one.rig.engine.snapshots[node] for node in chain.digests if node in one.rig.engine.snapshots]
                replaced = holding.get(slot)
                answer = await one.ask(
                    asked, slot=slot, restore=found[-1] if found else None, save=replaced is not None, replaced=replaced
                )
                prompt += answer.cached + answer.evaluated
                messages.append({"role": "assistant", "content": answer.said})
                holding[slot] = one.rig.held(asked, answer.cached + answer.evaluated + 15)
                turn += 1
                assert agent in told
        share = await one.prefilled() / prompt
        assert one.rig.outcomes().get("save mismatch") is None
    assert share <= 0.28


@pytest.mark.parametrize("kind", ["tiny", "hybrid", "hybrid-swa"])
@pytest.mark.parametrize("setting", [DEFAULT, NP2], ids=str)
async def test_a_restart_of_server_and_gateway_restores_instead_of_computing(
    model_file: ModelFile, tmp_path: Path, setting: Setting, kind: str
) -> None:
    async with lab(setting, model_file, tmp_path, kind, Memory(tmp_path / "state", SystemClock())) as one:
        snapshot = await one.led(body("shared", "one"))
        files = sorted(path.name for path in one.files.iterdir())
    async with lab(setting, model_file, tmp_path, kind, Memory(tmp_path / "state", SystemClock())) as one:
        found = one.rig.engine.snapshots[snapshot.node]
        assert (found.name, found.tokens) == (snapshot.name, snapshot.tokens)
        answer = await one.ask(body("shared", question(2)), slot=1, restore=found)
        assert answer.evaluated < (700 if kind == "hybrid-swa" else 100)
        await one.led(body("another", "three"))
        assert len(list(one.files.iterdir())) == len(files) + 1
        assert one.rig.outcomes()["proof ok"] == 1


# another model, broken files


async def test_an_answer_is_never_another_models(model_file: ModelFile, tmp_path: Path) -> None:
    """A second model of the same shape at the same path: its server takes the files of the first and would answer from them."""
    path, asked = tmp_path / "model.gguf", body("shared", question(2), stream=False)
    shutil.copyfile(model_file(Model("tiny")), path)
    place = lambda model=None: path  # noqa: E731
    async with lab(NP2, place, tmp_path, memory=Memory(tmp_path / "state", SystemClock())) as one:
        snapshot = await one.led(body("shared", "one"))
        first = (await one.ask(asked, slot=1)).said
    shutil.copyfile(model_file(Model("tiny", seed=2)), path)
    async with lab(NP2, place, tmp_path, memory=Memory(tmp_path / "state", SystemClock())) as one:
        answer = await one.ask(asked, slot=1, restore=snapshot)
        assert (answer.cached, answer.choice.restore) == (0, None)
        assert (one.rig.outcomes()["proof mismatch"], one.rig.engine.snapshots) == (1, {})
        assert answer.said == (await one.ask(asked, slot=0)).said != first
        restored = await fetch(f"{one.server.url}/slots/1?action=restore", {"filename": snapshot.name})
        assert restored.status == 200, "the server takes it"
        assert (await one.ask(asked, slot=1)).said not in (first, answer.said), "and answers with neither"


@pytest.mark.parametrize("how", ["gone", "cut early", "empty", "other"])
@pytest.mark.parametrize("setting", [DEFAULT, NP2], ids=str)
async def test_a_broken_file_costs_a_prefill_and_no_wrong_answer(
    model_file: ModelFile, tmp_path: Path, setting: Setting, how: str
) -> None:
    async with lab(setting, model_file, tmp_path) as one:
        asked = body("shared", question(2), stream=False)
        right = (await one.ask(asked, slot=0)).said
        snapshot, other = await one.led(body("shared", "one")), await one.led(body("another", "one", size=1500))
        await one.ask(body("third", "x"), slot=0)
        file = one.files / snapshot.name
        data = file.read_bytes()
        if how == "gone":
            file.unlink()
        elif how == "other":
            shutil.copyfile(one.files / other.name, file)
        else:
            file.write_bytes(data[: len(data) // 20 if how == "cut early" else 0])
        answer = await one.ask(asked, slot=1, restore=snapshot)
        assert (answer.status, answer.said, answer.choice.restore) == (200, right, None)
        assert snapshot.node not in one.rig.engine.snapshots
        assert (await one.ask(body("another", "two"), slot=1, restore=other)).status == 200


async def test_a_server_without_a_directory_is_left_alone(model_file: ModelFile, tmp_path: Path) -> None:
    with EngineServer(model_file(Model("tiny")), tmp_path, "-t", "1", "-c", "8192", "-np", "2") as server:
        rig = Rig(server.url, Memory(None, SystemClock()), "kept", 2)
        await rig.look()
        assert (rig.engine.saves, rig.engine.snapshots) == (False, {})
        assert (await rig.ask(body("shared", "one"), slot=0, pin=True, lead=2)).cached == 0
        await rig.close()


async def test_a_server_that_slept_restores(model_file: ModelFile, tmp_path: Path) -> None:
    """Sleep drops weights and slots; the files are still there."""
    async with lab(NP2, model_file, tmp_path, "tiny", None, "--sleep-idle-seconds", "1") as one:
        snapshot = await one.led(body("shared", "one"))
        while not one.server.get("/props")["is_sleeping"]:
            await asyncio.sleep(0.1)
        await one.rig.look()
        answer = await one.ask(body("shared", question(2)), slot=1, restore=snapshot)
        assert (answer.status, answer.evaluated < 100) == (200, True)


async def test_a_crowd_in_the_default_mode_finds_what_is_restored(model_file: ModelFile, tmp_path: Path) -> None:
    """Requests with and without a snapshot come at once: those without start in between, but never inside a turn."""
    async with lab(DEFAULT, model_file, tmp_path) as one:
        snapshot = await one.led(body("shared", "one"))
        for burst in range(4):
            bodies = [body("shared", question(n)) if n % 2 else body(f"{burst} {n}", "x", size=300, answer=4) for n in range(4)]
            answers = await asyncio.gather(
                *(one.ask(asked, slot=n, restore=snapshot if n % 2 else None) for n, asked in enumerate(bodies))
            )
            assert all(answer.evaluated < 100 for answer in answers[1::2])
