"""Each check of a server finds its fault on a server that has it, and is silent about one that has not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.doctor import llamacpp as llamacpp_checks
from gateway.doctor.absent import ABSENT_CHECKS
from gateway.doctor.checks import SERVER_CHECKS
from tests.contract.bent import replaced
from tests.doctor import looking
from tests.doctor.looking import row
from tests.doctor.servers import (
    RENDER,
    SAVE,
    SHOW,
    WIDE,
    Server,
    Start,
    bent,
    error,
    in_minutes,
    llamacpp,
    ollama,
    rendered,
    running,
    scripted,
    slots,
    swap,
)
from tests.support import personas
from tests.support.clients import fetch
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_vllm import FakeVllm
from tests.support.lmstudio_instances import LmModel
from tests.support.ollama_runners import Model
from tests.support.scripted import ScriptedUpstream

PROPS = "GET /props"
DATED = "{{ strftime_now('%d %b %Y') }}"
TIMED = "{{ strftime_now('%H:%M') }}"


@dataclass(frozen=True, slots=True)
class Case:
    """bad, good: servers with and without the fault; rows, good_rows: requests that went there; settings: of the backend,
    good_settings: of the good one; seen: part of what is told."""

    bad: Start
    good: Start
    seen: str
    rows: Sequence[Mapping[str, Any]] = ()
    good_rows: Sequence[Mapping[str, Any]] = ()
    good_settings: Mapping[str, Any] = field(default_factory=dict)


def two_models() -> list[dict[str, Any]]:
    return [row(model="a"), row(model="b")]


def loaded_lmstudio(instances: int = 1, context: int = WIDE) -> Start:
    @asynccontextmanager
    async def start() -> AsyncIterator[Server]:
        async with FakeLmStudio(LmModel("tiny", context=context)) as fake:
            for _ in range(instances):
                await fake.instances.load("tiny")
            yield fake

    return start


def omlx(*, pinned: bool, loaded: bool = True, context: int = WIDE) -> Start:
    @asynccontextmanager
    async def start() -> AsyncIterator[Server]:
        async with FakeOmlx("tiny", pinned=["tiny"] if pinned else [], context=context) as fake:
            if loaded:
                assert (await fetch(f"{fake.url}/v1/models/tiny/load", {})).status == 200
            yield fake

    return start


HERMES = [row(agent="hermes-agent/0.19")]
BOTH_APIS = [row(path="/api/chat"), row()]

CASES: dict[str, Case] = {
    "down": Case(scripted(personas.Persona("broken", {}, error(500))), ollama(), "answers 500"),
    "key": Case(lambda: FakeVllm(key="sesame"), FakeVllm, "asks for an API key"),
    "loading": Case(scripted(personas.llamacpp_loading()), llamacpp(), "still loading"),
    "sleeping": Case(llamacpp(sleeping=True), llamacpp(), "It sleeps"),
    "hermes-context": Case(llamacpp(n_ctx=8192), llamacpp(), "8,192 tokens", HERMES, HERMES),
    "llamacpp-context": Case(llamacpp(n_ctx=8192), llamacpp(), "tiny has 8,192 tokens"),
    "ollama-context": Case(ollama(num_ctx=4096), ollama(), "tiny:latest has 4,096 tokens"),
    "lmstudio-context": Case(loaded_lmstudio(context=4096), loaded_lmstudio(), "tiny has 4,096 tokens"),
    "vllm-context": Case(FakeVllm, lambda: FakeVllm(max_model_len=WIDE), "tiny has 8,192 tokens"),
    "omlx-context": Case(omlx(pinned=True, context=4096), omlx(pinned=True), "tiny has 4,096 tokens"),
    "openai-context": Case(
        scripted(personas.openai("a"), **{"GET /v1/models": {"data": [{"id": "a", "context_length": 4096}]}}),
        scripted(personas.openai("a"), **{"GET /v1/models": {"data": [{"id": "a", "context_length": WIDE}]}}),
        "a has 4,096 tokens",
    ),
    "llamaswap-context": Case(
        scripted(
            personas.openai("a"),
            **{
                "GET /running": {"running": [{"model": "a", "state": "ready"}]},
                "GET /v1/models": {"data": [{"id": "a", "meta": {"n_ctx": 4096}}]},
            },
        ),
        swap(),
        "a has 4,096 tokens",
    ),
    # llama.cpp
    "llamacpp-slots-emptied": Case(llamacpp({"GET /slots": slots(0, 900, None)}), llamacpp(), "Default mode: 3 slots"),
    "llamacpp-slots-kept": Case(llamacpp(), llamacpp({"GET /slots": slots(0, 900)}), "each of the 2 keeps its prompt"),
    "llamacpp-one-slot": Case(llamacpp({"GET /slots": slots(900)}), llamacpp(), "There is one slot"),
    "llamacpp-slots-unknown": Case(llamacpp({"GET /slots": slots(900, None, busy=True)}), llamacpp(), "could not be seen"),
    "llamacpp-no-slot-files": Case(llamacpp({SAVE: error(501)}), llamacpp(), "--slot-save-path"),
    "llamacpp-slot-files": Case(llamacpp(), llamacpp({SAVE: error(501)}), "can be saved"),
    "llamacpp-ram-cache": Case(llamacpp({"GET /slots": slots(0, 900)}), llamacpp(sleeping=True), "It is in use"),
    "llamacpp-no-metrics": Case(llamacpp({PROPS: {"endpoint_metrics": False}}), llamacpp(), "endpoint_metrics: false"),
    "llamacpp-router": Case(llamacpp({PROPS: {"role": "router"}}), llamacpp(), "It is a router"),
    "llamacpp-template-clock": Case(
        llamacpp({PROPS: {"chat_template": TIMED}}), llamacpp({PROPS: {"chat_template": DATED}}), "strftime_now('%H:%M')"
    ),
    "llamacpp-template-date": Case(
        llamacpp({PROPS: {"chat_template": DATED}}), llamacpp({PROPS: {"chat_template": "{{ date }}"}}), "strftime_now('%d %b"
    ),
    "llamacpp-tools-behind": Case(llamacpp({RENDER: rendered("behind")}), llamacpp(), "behind the system text"),
    "llamacpp-tools-before": Case(llamacpp(), llamacpp({RENDER: rendered("behind")}), "before the system text"),
    # Ollama
    "ollama-no-counts": Case(lambda: FakeOllama(version="0.33.0"), FakeOllama, "version 0.33.0"),
    "ollama-shift": Case(ollama(version="0.30.7"), ollama(version="0.30.8"), "version 0.30.7"),
    "ollama-short-counts": Case(ollama(version="0.30.0"), ollama(version="0.30.1"), "version 0.30.0"),
    "ollama-old-runners": Case(lambda: FakeOllama(version="0.24.0"), FakeOllama, "version 0.24.0"),
    "ollama-num-ctx": Case(ollama({"GET /api/ps": running(context_length=16384)}), ollama(), "loaded with 16,384 tokens"),
    "ollama-mixed-apis": Case(ollama(), ollama(), "through /api and through /v1", BOTH_APIS, [row(), row()]),
    "ollama-message": Case(
        lambda: FakeOllama(Model("tiny", messages=({"role": "user", "content": "hi"},))), FakeOllama, "1 MESSAGE entries"
    ),
    "ollama-keep-alive": Case(
        ollama({"GET /api/ps": running(expires_at=in_minutes(7))}),
        ollama({"GET /api/ps": running(expires_at=in_minutes(6000))}),
        "tiny:latest is unloaded in ",
    ),
    "ollama-spilled": Case(ollama({"GET /api/ps": running(size_vram=750_000)}), ollama(), "25% of tiny:latest"),
    "ollama-parallel": Case(ollama(), ollama(), "`parallel` is not set", good_settings={"parallel": 1}),
    "ollama-template-clock": Case(ollama({SHOW: {"template": TIMED}}), ollama({SHOW: {"template": DATED}}), "%H:%M"),
    "ollama-template-date": Case(
        ollama({SHOW: {"template": "{{ currentDate }}"}}), ollama({SHOW: {"template": "{{ .Date }}"}}), "currentDate"
    ),
    "ollama-tools-behind": Case(
        ollama({SHOW: {"template": "{{ if or .System .Tools }}{{ .System }}{{ range .Tools }}{{ . }}{{ end }}{{ end }}"}}),
        ollama({SHOW: {"template": "{{ if or .System .Tools }}{{ range .Tools }}{{ . }}{{ end }}{{ .System }}{{ end }}"}}),
        ".System before .Tools",
    ),
    # LM Studio
    "lmstudio-no-counts": Case(FakeLmStudio, FakeOllama, "no figure of cached tokens"),
    "lmstudio-old": Case(lambda: FakeLmStudio(version="0.3.9"), FakeLmStudio, "older than 0.4.0"),
    "lmstudio-nothing-loaded": Case(FakeLmStudio, loaded_lmstudio(), "No model is loaded"),
    "lmstudio-auto-evict": Case(loaded_lmstudio(), loaded_lmstudio(), "2 models (a, b)", two_models(), [row(), row()]),
    "lmstudio-duplicate": Case(loaded_lmstudio(2), loaded_lmstudio(1), "tiny is loaded 2 times"),
    # vLLM
    "vllm-caching-off": Case(lambda: FakeVllm(caching=False), FakeVllm, "gave no hit"),
    "vllm-no-details": Case(FakeVllm, lambda: FakeVllm(details=True), "without a count"),
    "vllm-no-metrics": Case(bent(FakeVllm, "/metrics", replaced(rb"vllm:", b"other:")), FakeVllm, "no vllm: counters"),
    # oMLX
    "omlx-not-pinned": Case(omlx(pinned=False), omlx(pinned=True), "tiny is loaded and not pinned"),
    "omlx-nothing-loaded": Case(omlx(pinned=False, loaded=False), omlx(pinned=True), "No model is loaded"),
    "omlx-blocks": Case(omlx(pinned=True), FakeVllm, "whole blocks of 256 tokens"),
    # others
    "llamaswap-behind": Case(swap(), ollama(), "its 2 models"),
    "llamaswap-swapping": Case(swap(running=1), swap(), "2 models, of which 1 are running", two_models(), two_models()),
    "llamaswap-short-ttl": Case(swap(ttl=300), swap(ttl=3600), "a is stopped after 300 s"),
    "openai-unknown": Case(scripted(personas.openai("a")), ollama(), "nothing more is known"),
    "openai-parallel": Case(
        scripted(personas.openai("a")), scripted(personas.openai("a")), "cannot be asked", good_settings={"parallel": 2}
    ),
}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted servers' templates are rendered the same at any time."""
    monkeypatch.setattr(llamacpp_checks, "SECOND", 0.0)


@pytest.mark.parametrize("name", CASES)
async def test_found_where_it_is_and_nowhere_else(name: str) -> None:
    case = CASES[name]
    async with case.bad() as bad, case.good() as good:
        found = await looking.server(bad.url, case.rows)
        fine = await looking.server(good.url, case.good_rows, **case.good_settings)
    assert case.seen in looking.named(found, name).seen
    assert name not in looking.names(fine)
    assert "unanswered" not in looking.names(found) | looking.names(fine)


def test_no_check_is_left_out() -> None:
    assert set(CASES) == {check.name for check in (*SERVER_CHECKS, *ABSENT_CHECKS)}


async def test_a_check_that_cannot_be_made_is_told_and_the_others_go_on() -> None:
    async with llamacpp({"GET /slots": error(500), SAVE: error(501), RENDER: error(500)})() as upstream:
        found = await looking.server(upstream.url)
    assert {"llamacpp-slots-unknown", "llamacpp-no-slot-files"} <= looking.names(found)
    async with bent(FakeVllm, "/v1/chat/completions", lambda status, body: (503, b"{}"))() as vllm:
        found = await looking.server(vllm.url)
    assert "503" in looking.named(found, "unanswered").seen


async def test_nobody_is_loaded_woken_or_made_to_work_by_looking() -> None:
    """Ollama, LM Studio, oMLX and llama.cpp's router would load a model; a sleeping llama.cpp server would wake."""
    ollama_fake, lmstudio, mlx = FakeOllama(), FakeLmStudio(), FakeOmlx()
    sleeping, router = llamacpp(sleeping=True)(), llamacpp({PROPS: {"role": "router"}})()
    assert isinstance(sleeping, ScriptedUpstream)
    assert isinstance(router, ScriptedUpstream)
    async with ollama_fake, lmstudio, mlx, sleeping, router:
        for fake in (ollama_fake, lmstudio, mlx, sleeping, router):
            await looking.server(fake.url)
        assert [len(fake.served) for fake in (ollama_fake, lmstudio, mlx)] == [0, 0, 0]
        for upstream in (sleeping, router):
            assert {request.path for request in upstream.requests} == {"/running", *QUIET}


QUIET = {"/api/v1/models", "/api/v0/models", "/props", "/health", "/v1/models"}
"""What neither wakes nor loads anything."""
