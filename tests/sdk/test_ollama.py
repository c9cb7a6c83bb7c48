"""The official `ollama` library against the simulated Ollama, directly and through the gateway."""

from __future__ import annotations

from typing import Any

import ollama
import pytest

from tests.sdk.conftest import Ways
from tests.sdk.same import OWN, plain, same_error
from tests.support.clients import fetch
from tests.support.process import Metrics

TALK: Any = [{"role": "user", "content": "Is the pond frozen?"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}
CALLED: Any = [
    *TALK,
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"place": "pond"}}}]},
    {"role": "tool", "tool_name": "look", "content": "Ice."},
]
CACHE = {"prompt_eval_cached_count", "prompt_eval_duration", "total_duration", "load_duration"}


def steady(value: Any) -> Any:
    """Without what depends on whether the model was loaded and the prompt cached already."""
    if isinstance(value, dict):
        return {name: steady(inner) for name, inner in value.items() if name not in CACHE | OWN}
    return [steady(inner) for inner in value] if isinstance(value, list) else value


async def same(ways: Ways, ask: Any) -> Any:
    direct, through = steady(plain(await ask(ways.direct))), steady(plain(await ask(ways.through)))
    assert through == direct
    return through


async def test_everything(ollama_ways: Ways) -> None:
    async def chat(url: str, **more: Any) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.chat("tiny", TALK, **more)

    async def streamed(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return [plain(line) async for line in await api.chat("tiny", TALK, stream=True)]

    async def generate(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.generate("tiny", "The pond is")

    async def tools(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.chat("tiny", CALLED, tools=[TOOL])

    async def listed(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return [await api.list(), await api.show("tiny"), (await api.ps()).models[0].model]

    async def embed(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.embed("tiny", ["The pond.", "The roof."])

    async def unload(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.generate("tiny", keep_alive=0)

    ways = ollama_ways
    whole, lines = await same(ways, chat), await same(ways, streamed)
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]
    assert lines[-1]["done"]
    assert (await same(ways, generate))["response"]
    assert (await same(ways, tools))["prompt_eval_count"] > whole["prompt_eval_count"]
    await same(ways, listed)
    assert len((await same(ways, embed))["embeddings"]) == 2
    assert (await same(ways, unload))["done_reason"] == "unload"
    metrics = Metrics.parse((await fetch(f"{ways.admin}/metrics")).body.decode())
    assert metrics.value("warmgate_requests_total", dialect="ollama", outcome="ok") == 5


async def test_errors(ollama_ways: Ways) -> None:
    async def missing(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.chat("nothing-like-it", TALK)

    async def gone(url: str) -> Any:
        async with ollama.AsyncClient(host=url) as api:
            return await api.show("nothing-like-it")

    for url in (ollama_ways.direct, ollama_ways.through):
        with pytest.raises(ollama.ResponseError) as raised:  # in different words
            await missing(url)
        assert raised.value.status_code == 404
    await same_error(ollama_ways, gone, ollama.ResponseError)
