"""Reasons that take a certain server or a certain moment: simulated servers behind the real gateway, which edits nothing
here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from tests.explain.stand import CHAT, Desk, answered, chat, said, system
from tests.support import personas
from tests.support.clients import fetch
from tests.support.fake_vllm import FakeVllm
from tests.support.process import GatewayProcess, Metrics
from tests.support.replies import SHAPES, Reply
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import full, sleep

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST, SECOND = said("List the parts in tray four."), said("And what is in tray five?")


@dataclass(slots=True)
class Stage:
    gateway: GatewayProcess
    vllm: FakeVllm
    told: dict[str, ScriptedUpstream]

    def desk(self, name: str) -> Desk:
        return Desk(self.gateway, name)

    def says(self, backend: str, prompt: int, cached: int | None, **more: Any) -> None:
        """What the next request to a scripted server is told."""
        self.told[backend].once(CHAT, *_reply(prompt, cached, **more))

    async def metrics(self) -> Metrics:
        return Metrics.parse((await fetch(f"{self.gateway.admin}/metrics")).body.decode())


def _reply(prompt: int, cached: int | None, **more: Any) -> tuple[Any, ...]:
    return full(SHAPES[CHAT].document(replace(Reply(text="Twelve gears.", prompt=prompt, cached=cached), **more)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    one, two = ScriptedUpstream(personas.openai("shared", "only")), ScriptedUpstream(personas.openai("shared"))
    async with FakeVllm("block", details=True) as vllm, one, two:
        backends = {
            "vllm": {"kind": "vllm", "url": vllm.url, "parallel": 8},
            "one": {"kind": "openai", "url": one.url, "parallel": 8},
            "two": {"kind": "openai", "url": two.url, "parallel": 8},
        }
        config = {"backends": backends, "canonical": {"mode": "off"}, "routing": {"hold": "0s"}}  # nobody waits for a prefix
        async with GatewayProcess(tmp_path_factory.mktemp("gateway"), config) as gateway:
            yield Stage(gateway, vllm, {"one": one, "two": two})


async def test_params_changed(stage: Stage) -> None:
    desk = stage.desk("params")
    stage.says("one", 400, 0)
    await desk.ask(chat("only", system("Aino"), FIRST))
    stage.says("one", 420, 0)
    told = await desk.ask(chat("only", system("Aino"), FIRST, answered("Twelve gears."), SECOND, reasoning_effort="high"))
    assert told.reason == "params_changed"
    assert told.row["lost_tokens"] > 300


async def test_reasoning_that_a_client_drops_is_a_changed_history(stage: Stage) -> None:
    desk, head = stage.desk("reasoning"), system("Bela")
    reply = answered("Twelve gears.")
    stage.says("one", 500, 0)
    await desk.ask(chat("only", head, FIRST, {**reply, "reasoning_content": "Tray four. " * 40}, SECOND))
    stage.says("one", 450, 330)
    told = await desk.ask(chat("only", head, FIRST, reply, SECOND, answered("Ten."), said("Thanks.")))
    assert (told.reason, told.row["section"]) == ("history_changed", "history")


async def test_blocks_of_sixteen_are_no_loss(stage: Stage) -> None:
    desk, head, talk = stage.desk("blocks"), system("Cora"), [FIRST]
    for _ in range(4):
        told = await desk.ask(chat("block", head, *talk))
        talk += [answered(told.text), SECOND]
        assert told.reason in ("first_seen", None)
    assert told.cached % 16 == 0 < told.cached


async def test_a_count_that_is_left_out_proves_no_eviction(stage: Stage) -> None:
    desk, head = stage.desk("dropped"), system("Dana")
    first = await desk.ask(chat("block", head, FIRST))
    await stage.desk("stranger").ask(chat("block", system("Odd"), SECOND))
    stage.vllm.cache.clear()
    told = await desk.ask(chat("block", head, FIRST, answered(first.text), SECOND))
    assert (told.reason, told.row["cached_source"]) == (None, "none"), "this server leaves a count of 0 out"
    assert told.row["expected"] > 0.9 * first.row["prompt"]


async def test_backend_moved(stage: Stage) -> None:
    """The model is on two servers. The one that has the prefix is not there for a moment."""
    desk, head = stage.desk("moved"), system("Ella")
    for backend in ("one", "two"):
        stage.says(backend, 400, 0)
    first = await desk.ask(chat("shared", head, FIRST))
    for server in stage.told.values():
        server.forget()
    here, there = ("one", "two") if first.row["backend"] == "one" else ("two", "one")
    stage.says(there, 430, 0)
    await stage.told[here].stop()
    told = await desk.ask(chat("shared", head, FIRST, answered("Twelve gears."), SECOND))
    await stage.told[here].start()
    assert (told.row["backend"], told.reason) == (there, "backend_moved")
    assert told.row["lost_tokens"] > 350


async def test_slot_moved(stage: Stage) -> None:
    """Another request with the same beginning is at work, so the server has no free slot with it."""
    desk, head = stage.desk("slot"), system("Frida")
    stage.says("one", 400, 0)
    await desk.ask(chat("only", head, FIRST))
    stage.told["one"].once(CHAT, sleep(1.0), *_reply(410, 350))
    busy = asyncio.create_task(stage.desk("slotter").ask(chat("only", head, said("Another question."))))
    await stage.told["one"].wait_for(CHAT, len(stage.told["one"].asked(CHAT)) + 1)
    stage.says("one", 430, 0)
    told = await desk.ask(chat("only", head, FIRST, answered("Twelve gears."), SECOND))
    await busy
    assert told.reason == "slot_moved"


async def test_not_reported_is_neither_a_miss_nor_a_hit(stage: Stage) -> None:
    desk, head = stage.desk("silent"), system("Greta")
    stage.says("one", 400, None)
    await desk.ask(chat("only", head, FIRST))
    stage.says("one", 430, None)
    told = await desk.ask(chat("only", head, FIRST, answered("Twelve gears."), SECOND))
    assert (told.row["cached"], told.row["cached_source"], told.reason) == (None, "none", None)
    assert told.row["expected"] > 380
    assert told.row["saved"]["server"] == 0


async def test_reasons_are_counted(stage: Stage) -> None:
    metrics = await stage.metrics()
    assert metrics.value("warmgate_cache_misses_total", reason="params_changed", model="only") >= 1
    assert metrics.value("warmgate_cache_misses_total", reason="backend_moved", model="shared") == 1
    assert metrics.value("warmgate_prediction_error_ratio_count") > 5
    assert 20 < metrics.value("warmgate_index_nodes") < 1000
    assert metrics.value("warmgate_working_set_tokens") > 400
    assert {dict(key)["by"] for key in metrics.matching("warmgate_prefill_seconds_saved_total")} >= {"server", "canonical"}
