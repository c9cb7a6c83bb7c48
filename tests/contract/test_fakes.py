"""Every simulated server keeps the contract, and being examined changes nothing that was not asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.contract import PROBES, examine
from tests.contract.findings import finding, named, talkative
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_server import FakeServer
from tests.support.fake_vllm import FakeVllm
from tests.support.lmstudio_instances import LmModel
from tests.support.ollama_runners import Model

NEWER = {f"{what}-{path}" for what in ("stream", "document", "cached") for path in ("responses", "messages")}

FAKES: dict[str, tuple[Callable[[], FakeServer], set[str]]] = {
    "Ollama with its own runners": (lambda: FakeOllama(version="0.24.0"), set()),
    "Ollama with llama.cpp": (lambda: FakeOllama(version="0.30.9"), set()),
    "Ollama that counts cached tokens": (lambda: FakeOllama(version="0.33.3"), set()),
    "LM Studio": (lambda: FakeLmStudio(), set()),
    "LM Studio before its second REST API": (lambda: FakeLmStudio(version="0.3.28"), NEWER | {"residency-lmstudio"}),
    "vLLM": (lambda: FakeVllm(), {"quiet-look", "residency-vllm"}),
    "vLLM that counts cached tokens": (lambda: FakeVllm(details=True, dev=True), set()),
    "oMLX": (lambda: FakeOmlx(), {"tokens-messages"}),
    "oMLX with signs of life": (lambda: FakeOmlx(version="0.5.3", keepalive=0.01, ssd=True), {"tokens-messages"}),
}
"""What may be skipped on each: nothing but what it does not have."""


@pytest.mark.parametrize("name", FAKES)
async def test_a_fake_keeps_the_contract(name: str) -> None:
    make, lacking = FAKES[name]
    async with talkative(make()) as fake:
        report = await examine(fake.url, mutating=True)
    assert named(report, "differs") == {}
    assert set(named(report, "skipped")) == lacking
    assert [row.name for row in report.rows] == [probe.name for probe in PROBES if report.kind in probe.kinds]


@pytest.mark.parametrize(
    ("fake", "name", "measured"),
    [
        (FakeOllama(version="0.24.0"), "cached-chat", None),
        (FakeOllama(version="0.24.0"), "cached-responses", 0),
        (FakeVllm(), "cached-chat", None),
        (FakeLmStudio(), "cached-chat", None),
    ],
)
async def test_not_reported_is_not_zero(fake: FakeServer, name: str, measured: int | None) -> None:
    async with fake:
        found = finding(await examine(fake.url, only=[name]), name)
    assert (found.result, found.measured["second"]) == ("ok", measured)


@pytest.mark.parametrize("fake", [FakeOllama(version="0.33.3"), FakeVllm(details=True), FakeOmlx()])
async def test_what_is_reported_is_what_was_reused(fake: FakeServer) -> None:
    async with fake:
        found = finding(await examine(fake.url, only=["cached-chat"]), "cached-chat")
        first, second = fake.served
    assert found.measured["second"] == second.reused > 0
    assert found.measured["prompt"] == second.total
    assert found.measured["first"] in (first.reused, None)


def limit_of(body: dict[str, Any]) -> int:
    found = [body.get(key) for key in ("max_tokens", "max_output_tokens")] + [(body.get("options") or {}).get("num_predict")]
    return next(limit for limit in found if limit is not None)


async def test_nothing_is_unloaded_and_little_is_said() -> None:
    async with talkative(FakeOllama(Model("a"), Model("b"))) as ollama:
        await examine(ollama.url)
        assert ollama.runners.loads == [("a", "load")]
        assert ollama.runners.unloads == []
        limits = sorted(limit_of(dict(served.body)) for served in ollama.served)
    assert limits[:-1] == sorted(limits[:-1])
    assert (limits[-1], limits[-2]) == (400, 16), "one answer is long, to be left"
    assert sum(min(limit, 16) for limit in limits) < 400


async def test_an_explicit_model_is_loaded_by_requests_only() -> None:
    async with talkative(FakeLmStudio(LmModel("a"), LmModel("b"))) as studio:
        report = await examine(studio.url, model="b")
        assert (report.model, studio.instances.loads, studio.instances.unloads) == ("b", [("b", "jit")], [])


async def test_residency_is_put_back() -> None:
    async with FakeOmlx("a", "b") as omlx:
        await examine(omlx.url, only=["residency-omlx"])
        assert omlx.loaded == {}
        await examine(omlx.url, model="b", only=["first-answer", "residency-omlx"])
        assert list(omlx.loaded) == ["b"]
    async with FakeOllama(Model("a"), keep_alive=77.0) as ollama:
        await examine(ollama.url, only=["residency-ollama"])
        assert ollama.runners.loaded == []
        await examine(ollama.url, only=["first-answer", "residency-ollama"])
        (runner,) = ollama.runners.loaded
        assert 70 < runner.keep_alive <= 77
    async with FakeLmStudio(LmModel("a")) as studio:
        await examine(studio.url, only=["first-answer", "residency-lmstudio"])
        assert [instance.id for instance in studio.instances.loaded] == ["a"]


async def test_a_loaded_model_is_preferred_and_one_for_embeddings_is_not() -> None:
    async with FakeOmlx("nomic-embed", "a", "b") as omlx:
        assert (await examine(omlx.url, only=["kind"])).model == "a"
        await examine(omlx.url, model="b", only=["first-answer"])
        assert (await examine(omlx.url, only=["kind"])).model == "b"
