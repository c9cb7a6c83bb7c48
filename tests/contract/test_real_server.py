"""The real llama.cpp server keeps the contract in each mode of its slots, and alone behind a simulated Ollama."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.contract import examine
from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from tests.contract.bent import Bent
from tests.contract.findings import finding, named
from tests.support.clients import RawClient, fetch, post
from tests.support.engine import StartEngine, needs_engine
from tests.support.fake_ollama import FakeOllama
from tests.support.ollama_runners import Model as OllamaModel

pytestmark = needs_engine

TINY, HYBRID = Model("tiny"), Model("hybrid")

MODES: dict[str, tuple[Model, tuple[str, ...], str]] = {
    "default": (TINY, (), "emptied"),
    "-np 1": (TINY, ("-np", "1"), "kept"),
    "-np 2": (TINY, ("-np", "2"), "kept"),
    "unified, nothing moved": (TINY, ("--kv-unified", "--no-cache-idle-slots"), "kept"),
    "hybrid": (HYBRID, (), "emptied"),
    "hybrid -np 2": (HYBRID, ("-np", "2"), "kept"),
}
"""Model, flags, and what becomes of a slot's prompt when another slot works."""


@pytest.mark.parametrize("saving", [False, True], ids=["", "--slot-save-path"])
@pytest.mark.parametrize("mode", MODES)
async def test_each_mode(start_engine: StartEngine, tmp_path: Path, mode: str, saving: bool) -> None:
    model, flags, slots = MODES[mode]
    path = ("--slot-save-path", str(tmp_path)) if saving else ()
    server = start_engine("-c", "8192", *flags, *path, model=model)
    report = await examine(server.url, mutating=True)
    assert report.kind == "llamacpp"
    assert named(report, "differs") == {}
    assert set(named(report, "skipped")) <= ({"leave-stream"} if saving else {"leave-stream", "slots-restore"})
    assert finding(report, "slots-pin").measured["mode"] == slots
    assert finding(report, "slots-files").measured["available"] is saving


async def test_without_the_wish_no_slot_is_saved(start_engine: StartEngine, tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    slots.mkdir()
    server = start_engine("-c", "4096", "--slot-save-path", str(slots))
    await examine(server.url, only=["slots-*"])
    assert list(slots.iterdir()) == []
    await examine(server.url, only=["slots-restore"])
    assert [file.name for file in slots.iterdir()] == ["warmgate-contract.bin"]


async def test_looking_at_a_sleeping_server_does_not_wake_it(start_engine: StartEngine) -> None:
    server = start_engine("-c", "4096", "--sleep-idle-seconds", "1")
    async with asyncio.timeout(20):
        while not server.get("/props")["is_sleeping"]:
            await asyncio.sleep(0.1)
    report = await examine(server.url, only=["kind", "quiet-look", "models-*", "props"])
    assert named(report, "differs") == {}
    assert finding(report, "quiet-look").detail == "/props: is_sleeping True"
    assert server.get("/props")["is_sleeping"]
    assert finding(await examine(server.url, only=["slots-rows"]), "slots-rows").result == "ok"
    assert not server.get("/props")["is_sleeping"], "asking for slots does"


async def test_llama_swap_in_front_of_it(engine: EngineServer) -> None:
    """Of it only `/running` is simulated: it passes everything else on."""
    async with Bent(engine.url, "/running", lambda status, body: (200, b'{"running":[]}')) as swap:
        report = await examine(swap.url)
    assert report.kind == "llamaswap"
    assert named(report, "differs") == {}
    assert set(named(report, "skipped")) <= {"leave-stream"}


async def test_a_key(start_engine: StartEngine) -> None:
    server = start_engine("-c", "4096", "--api-key", "sesame")
    report = await examine(server.url, key="sesame", only=["kind", "stream-*", "error-*"])
    assert named(report, "differs") == {}
    assert len(named(report, "ok")) > 8


# Ollama since 0.30 has a llama.cpp server as its child


@pytest.fixture(scope="module")
def child(model_file: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with EngineServer(model_file(), tmp_path_factory.mktemp("child"), "-t", "1", "-c", "4096", "-np", "1") as server:
        yield server


@pytest.mark.parametrize("version", ["0.30.9", "0.33.3"])
async def test_ollama_in_front_of_it(child: EngineServer, version: str) -> None:
    async with FakeOllama(version=version, engine_url=child.url) as ollama:
        report = await examine(ollama.url, mutating=True)
        assert named(report, "differs") == {}
        assert set(named(report, "skipped")) <= {"leave-stream"}
        twice = [served for served in ollama.served if served.path == "/api/chat" and served.total > 100][:2]
    assert twice[1].reused * 2 > twice[1].total, "the real cache, whatever is reported"
    reported = finding(report, "cached-ollama-chat").measured["second"]
    assert reported == (twice[1].reused if version == "0.33.3" else None)


PATHS = {
    "/api/chat": {"messages": [{"role": "user", "content": "hi"}], "options": {"num_predict": 24}},
    "/api/generate": {"prompt": "hi", "options": {"num_predict": 24}},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 24},
}


def text_of(path: str, doc: dict[str, Any]) -> str:
    if path == "/api/generate":
        return str(doc["response"])
    return str((doc["choices"][0] if path.startswith("/v1") else doc)["message"]["content"])


@pytest.mark.parametrize("path", PATHS)
async def test_it_says_and_counts_what_the_real_server_does(child: EngineServer, path: str) -> None:
    direct = await fetch(f"{child.url}/v1/chat/completions", PATHS["/v1/chat/completions"] | {"temperature": 0})
    async with FakeOllama(engine_url=child.url) as ollama:
        said = await fetch(f"{ollama.url}{path}", {"model": "tiny", "stream": False, **PATHS[path]})
    assert text_of(path, said.json()) == direct.json()["choices"][0]["message"]["content"]
    counted = said.json().get("prompt_eval_count") or said.json()["usage"]["prompt_tokens"]
    assert counted == direct.json()["usage"]["prompt_tokens"]


async def test_a_client_that_leaves_stops_the_child(child: EngineServer) -> None:
    """Its words are passed on while they come, so that it can be left in the middle."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "go on"}], "options": {"num_predict": 3000}}
    async with FakeOllama(engine_url=child.url, gap=0.02) as ollama:
        async with RawClient(ollama.url) as client:
            await client.send(post("/api/chat", body))
            response = await client.response()
            assert await response.read_until(b'"done":false')
            client.rst()
        after = await fetch(f"{ollama.url}/api/chat", body | {"options": {"num_predict": 1}, "stream": False})
        assert after.status == 200
        assert [served.outcome for served in ollama.served] == ["cancelled", "done"]


async def test_a_prompt_too_long_for_the_child(child: EngineServer) -> None:
    async with FakeOllama(OllamaModel("tiny"), engine_url=child.url) as ollama:
        reply = await fetch(f"{ollama.url}/api/generate", {"model": "tiny", "prompt": "pond " * 5000, "stream": False})
    assert (reply.status, reply.json()) == (400, {"error": "the input length exceeds the context length"})


def test_older_versions_have_no_child() -> None:
    with pytest.raises(ValueError, match=r"0\.30\.0"):
        FakeOllama(version="0.24.0", engine_url="http://127.0.0.1:1")
