"""For each probe a server that is right but for one thing: the probe finds it, and is content where nothing is bent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.contract import PROBES, Finding, examine
from gateway.contract.bodies import FORMS
from gateway.contract.limits import MEASURABLE
from tests.contract.bent import Bent, Change, answered_with, replaced, restless, straight
from tests.contract.findings import finding
from tests.support.engine import needs_engine
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_server import FakeServer
from tests.support.fake_vllm import FakeVllm

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
ENGINE = "a real server"
FAKES: dict[str, Callable[[], FakeServer]] = {
    "ollama": FakeOllama,
    "lmstudio": FakeLmStudio,
    "vllm": lambda: FakeVllm(details=True, dev=True),
    "omlx": FakeOmlx,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """server: of FAKES, or ENGINE; options: of examine, both times where the fault is not in a reply."""

    server: str
    path: str
    change: Change
    options: Mapping[str, Any] = field(default_factory=dict)


NO_DONE = replaced(rb"data: \[DONE\]\n\n", b"")
UNCOUNTED = replaced(rb"(prompt_eval_cached_count|cached_tokens|cache_read_input_tokens)", b"x")
SURPRISE = replaced(
    rb"data: \[DONE\]", b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]'
)
MISCOUNT = replaced(rb'"(input_tokens|count)": ?\d+', rb'"\1":1')

FAULTS: dict[str, Fault] = {
    "quiet-look": Fault("omlx", "/v1/models/status", restless()),
    "models-openai": Fault("vllm", "/v1/models", replaced(b"max_model_len", b"max_len")),
    "models-own": Fault("ollama", "/api/tags", replaced(b'"digest"', b'"digested"')),
    "models-show": Fault("ollama", "/api/show", replaced(b"context_length", b"context")),
    "props": Fault(ENGINE, "/props", replaced(b'"total_slots":', b'"slots":')),
    "first-answer": Fault("ollama", CHAT, answered_with(500)),
    "stream-chat": Fault("ollama", CHAT, NO_DONE),
    "stream-completions": Fault("ollama", "/v1/completions", NO_DONE),
    "stream-responses": Fault("ollama", "/v1/responses", replaced(rb"response\.completed", b"response.over")),
    "stream-messages": Fault("ollama", MESSAGES, replaced(rb"event: content_block_stop\n.*\n\n", b"")),
    "stream-ollama-chat": Fault("ollama", "/api/chat", replaced(b'"done":true', b'"done":false')),
    "stream-ollama-generate": Fault("ollama", "/api/generate", replaced(rb'("done":true.*\n)', rb'\1{"done":false}\n')),
    "stream-llamacpp": Fault(ENGINE, "/completion", replaced(b'"stop":true', b'"stop":false')),
    "stream-lmstudio-v0": Fault("lmstudio", "/api/v0/chat/completions", replaced(b'"role":"assistant",', b"")),
    "stream-usage-place": Fault("ollama", CHAT, replaced(rb'"choices":\[\]', b'"choices":[{"index":0,"delta":{}}]')),
    "stream-usage-unasked": Fault("ollama", CHAT, SURPRISE),
    "document-chat": Fault("ollama", CHAT, replaced(rb"chat\.completion", b"chat")),
    "document-completions": Fault("ollama", "/v1/completions", replaced(b'"text"', b'"words"')),
    "document-responses": Fault("ollama", "/v1/responses", replaced(b'"input_tokens"', b'"tokens_in"')),
    "document-messages": Fault("ollama", MESSAGES, replaced(b'"stop_reason"', b'"why"')),
    "document-ollama-chat": Fault("ollama", "/api/chat", replaced(b'"eval_count"', b'"count"')),
    "document-ollama-generate": Fault("ollama", "/api/generate", replaced(b'"response"', b'"said"')),
    "document-llamacpp": Fault(ENGINE, "/completion", replaced(b'"timings"', b'"times"')),
    "document-lmstudio-v0": Fault("lmstudio", "/api/v0/chat/completions", replaced(b'"finish_reason":"[a-z]+"', b'"a":1')),
    "cached-chat": Fault("ollama", CHAT, UNCOUNTED),
    "cached-completions": Fault("ollama", "/v1/completions", UNCOUNTED),
    "cached-responses": Fault("ollama", "/v1/responses", UNCOUNTED),
    "cached-messages": Fault("ollama", MESSAGES, UNCOUNTED),
    "cached-ollama-chat": Fault("ollama", "/api/chat", UNCOUNTED),
    "cached-llamacpp": Fault(ENGINE, "/completion", replaced(rb'"cache_n":\d+', b'"cache_n":9')),
    "cached-lmstudio-v0": Fault(
        "lmstudio",
        "/api/v0/chat/completions",
        replaced(rb'"usage":{', b'"usage":{"prompt_tokens_details":{"cached_tokens":90},'),
    ),
    "cached-vllm-metrics": Fault("vllm", "/metrics", replaced(rb"(cache_hits_total{.*}) \d+", rb"\1 7")),
    "error-model-chat": Fault("ollama", CHAT, answered_with(400)),
    "error-model-messages": Fault("ollama", MESSAGES, replaced(b'"type":"error",', b"")),
    "error-model-ollama-chat": Fault("ollama", "/api/chat", replaced(b'"error":(".*")', rb'"error":{"message":\1}')),
    "error-json-chat": Fault(ENGINE, CHAT, answered_with(500)),
    "error-json-messages": Fault("ollama", MESSAGES, answered_with(200)),
    "error-json-ollama-chat": Fault("ollama", "/api/chat", replaced(b'"error"', b'"problem"')),
    "error-path": Fault("lmstudio", "/warmgate/no/such/path", replaced(b'"error"', b'"problem"')),
    "zero-tokens": Fault(ENGINE, CHAT, replaced(b'"content":"', b'"said":"')),
    "context-exceeded": Fault(ENGINE, CHAT, replaced(b"exceed_context_size_error", b"invalid_request_error")),
    "headers-first": Fault(ENGINE, CHAT, replaced(rb'"prompt_ms":[\d.]+', b'"prompt_ms":%d' % (10 * MEASURABLE))),
    "tokens-llamacpp": Fault(ENGINE, f"{CHAT}/input_tokens", MISCOUNT),
    "tokens-messages": Fault(ENGINE, f"{MESSAGES}/count_tokens", MISCOUNT),
    "tokens-vllm": Fault("vllm", "/tokenize", MISCOUNT),
    "slots-rows": Fault(ENGINE, "/slots", replaced(rb".*", b"[]")),
    "slots-pin": Fault(ENGINE, "/slots", replaced(rb'"n_prompt_tokens":\d+', b'"n_prompt_tokens":0')),
    "slots-unpinned": Fault(ENGINE, CHAT, replaced(rb'"cache_n":\d+', b'"cache_n":0')),
    "slots-out-of-range": Fault(ENGINE, CHAT, answered_with(400)),
    "slots-files": Fault(ENGINE, "/slots/0", answered_with(200)),
    "slots-restore": Fault(ENGINE, "/slots/0", replaced(rb'"n_restored":\d+', b'"n_restored":0')),
    "residency-ollama": Fault("ollama", "/api/generate", replaced(b'"unload"', b'"load"')),
    "residency-lmstudio": Fault("lmstudio", "/api/v1/models", replaced(rb'"context_length": ?\d+', b'"context_length":4096')),
    "residency-omlx": Fault("omlx", "/v1/models/status", replaced(rb'"loaded": ?true', b'"loaded":false')),
    "residency-vllm": Fault("vllm", "/is_sleeping", replaced(b"true", b"false")),
}
"""By name of the probe. `kind` and `leave-stream` have tests of their own."""


@asynccontextmanager
async def serving(name: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    if name == ENGINE:
        yield request.getfixturevalue("saving_engine").url
    else:
        async with FAKES[name]() as fake:
            yield fake.url


async def found(name: str, url: str, path: str, change: Change) -> Finding:
    async with Bent(url, path, change) as bent:
        return finding(await examine(bent.url, only=[name]), name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_engine] * (fault.server == ENGINE)) for name, fault in FAULTS.items()]
)
async def test_a_probe_finds_its_fault(name: str, request: pytest.FixtureRequest) -> None:
    fault = FAULTS[name]
    async with serving(fault.server, request) as url:
        assert (await found(name, url, "", straight)).result == "ok"
        bent = await found(name, url, fault.path, fault.change)
    assert bent.result == "differs", bent.detail
    assert "expected" in bent.detail


def test_every_probe_is_here() -> None:
    assert {probe.name for probe in PROBES} - set(FAULTS) == {"kind", "leave-stream"}
    assert {name for name in FAULTS if name.startswith("stream-")} >= {f"stream-{form.name}" for form in FORMS.values()}


async def test_kind() -> None:
    async with FakeOllama() as ollama:
        assert finding(await examine(ollama.url, only=["kind"]), "kind").result == "ok"
        told = finding(await examine(ollama.url, kind="openai", only=["kind"]), "kind")
    assert (told.result, told.measured["kind"]) == ("differs", "ollama")
