"""Each kind's probe on a simulated server: it sees what is there, and changes nothing by looking."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.server import lists
from gateway.values import Probe
from tests.support.clients import fetch
from tests.support.clock import ManualClock
from tests.support.engine import needs_engine
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_server import FakeServer
from tests.support.fake_vllm import FakeVllm
from tests.support.lmstudio_instances import LmModel
from tests.support.ollama_runners import Model

FAKES = {
    "lmstudio": lambda clock: FakeLmStudio(LmModel("a"), LmModel("b"), clock=clock),
    "ollama": lambda clock: FakeOllama(Model("a"), Model("b"), clock=clock),
    "omlx": lambda clock: FakeOmlx("a", "b", ttl=300, clock=clock),
    "vllm": lambda clock: FakeVllm("a", dev=True, clock=clock),
}


async def look(kind: str, url: str) -> Probe:
    control = Control(url)
    try:
        return await KINDS[kind].probe(control)
    finally:
        await control.close()


async def say_hi(server: FakeServer, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    assert (await fetch(f"{server.url}/v1/chat/completions", body)).status == 200


@asynccontextmanager
async def running(kind: str, clock: ManualClock) -> AsyncIterator[FakeServer]:
    async with FAKES[kind](clock) as server:
        yield server


@pytest.mark.parametrize("kind", FAKES)
async def test_auto_finds_it_and_sees_the_same_as_its_kind(kind: str) -> None:
    async with running(kind, ManualClock()) as server:
        seen = await look("auto", server.url)
        assert (seen.kind, seen.up, seen.problem) == (kind, True, None)
        assert seen == await look(kind, server.url)
        assert not server.served


@pytest.mark.parametrize("kind", sorted(set(FAKES) - {"vllm"}))
async def test_residency_is_seen_and_looking_does_not_prolong_it(kind: str) -> None:
    clock = ManualClock()
    async with running(kind, clock) as server:
        assert {m.resident for m in (await look(kind, server.url)).models} == {False}
        await say_hi(server, "b")
        assert [m.resident for m in (await look(kind, server.url)).models] == [False, True]
        for _ in range(61):  # more than any time to live
            clock.advance(60)
            seen = await look(kind, server.url)
        assert {m.resident for m in seen.models} == {False}


@pytest.mark.parametrize("kind", FAKES)
async def test_each_list_that_may_be_merged_is_kept_row_by_row(kind: str) -> None:
    async with running(kind, ManualClock()) as server:
        await say_hi(server, "a")
        seen = {model.name: model for model in (await look(kind, server.url)).models}
        for path in set(KINDS[kind].lists) & (set(lists.SHAPES) - set(lists.SOURCE)):
            key, names = lists.SHAPES[path][0], lists.NAMES.get(path, ("id",))
            own = {row[names[0]]: row for row in (await fetch(server.url + path)).json()[key]}
            assert own, path
            kept = {name.removesuffix(":latest"): model.rows[path] for name, model in seen.items() if path in model.rows}
            assert kept == {name.removesuffix(":latest"): row for name, row in own.items()}, path


async def test_the_context_is_the_one_that_a_model_was_loaded_with() -> None:
    async with FakeLmStudio(LmModel("a")) as studio:
        for context in (2048, 512):
            await fetch(f"{studio.url}/api/v1/models/load", {"model": "a", "context_length": context})
        seen = await look("auto", studio.url)
    assert [(m.name, m.context) for m in seen.models] == [("a", 2048), ("a:2", 512)]
    assert all(m.rows["/v1/models"]["id"] == m.name for m in seen.models)


async def test_an_older_lmstudio() -> None:
    async with FakeLmStudio(LmModel("a"), version="0.3.28") as studio:
        await say_hi(studio, "a")
        seen = await look("auto", studio.url)
    assert (seen.kind, [(m.name, m.resident, m.context) for m in seen.models]) == ("lmstudio", [("a", True, 4096)])


async def test_looking_does_not_wake_vllm() -> None:
    async with FakeVllm("a", dev=True) as vllm:
        await fetch(f"{vllm.url}/sleep", {})
        seen = await look("auto", vllm.url)
        assert (seen.kind, seen.up, seen.sleeping) == ("vllm", True, True)
        assert vllm.sleeping


async def test_pinned_models_of_omlx_never_expire() -> None:
    async with FakeOmlx("a", "b", pinned=["a"]) as omlx:
        for model in "ab":
            await say_hi(omlx, model)
        assert [m.expires for m in (await look("omlx", omlx.url)).models] == [float("inf"), None]


@pytest.mark.parametrize("kind", ["lmstudio", "omlx", "vllm"])
async def test_a_server_with_a_key_is_recognised_or_says_that_it_needs_one(kind: str) -> None:
    makers = {"lmstudio": FakeLmStudio(key="k"), "omlx": FakeOmlx(key="k"), "vllm": FakeVllm(key="k")}
    async with makers[kind] as server:
        for asked in (kind, "auto"):
            seen = await look(asked, server.url)
            assert not seen.up
            assert "authorization" in (seen.problem or "")
            assert seen.kind == ("auto" if asked == "auto" and kind == "lmstudio" else kind)  # every path of LM Studio needs it


@needs_engine
async def test_auto_finds_a_real_llama_server(engine) -> None:
    assert (await look("auto", engine.url)).kind == "llamacpp"
