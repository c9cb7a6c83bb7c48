"""The official `openai` library against a real llama.cpp server, directly and through the gateway."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.sdk.conftest import Ways
from tests.sdk.same import every, same, same_error
from tests.support.clients import fetch
from tests.support.engine import needs_engine
from tests.support.process import GatewayProcess
from tests.support.replies import Reply, ToolCall
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import ordinary

pytestmark = needs_engine

TALK: Any = [
    {"role": "system", "content": "You look after the garden."},
    {"role": "user", "content": "Is the pond frozen?"},
]
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
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"place":"pond"}'}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Ice, as thick as a thumb."},
]
FIXED: Any = {"model": "tiny", "temperature": 0, "extra_body": {"cache_prompt": False}}
"""Reuse of a cached prefix changes the last bits of the arithmetic, and with them, rarely, an answer."""


def client(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


async def test_chat(llama: Ways) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            return await api.chat.completions.create(messages=TALK, max_tokens=24, **FIXED)

    answer = await same(llama, ask)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 24


@pytest.mark.parametrize("usage", [{}, {"stream_options": {"include_usage": True}}])
async def test_chat_streamed(llama: Ways, usage: Any) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            stream = await api.chat.completions.create(messages=TALK, max_tokens=24, stream=True, **FIXED, **usage)
            return await every(stream)

    chunks = await same(llama, ask)
    assert len(chunks) > 10
    assert any(chunk["usage"] for chunk in chunks) == bool(usage)


@pytest.mark.parametrize("messages", [TALK, CALLED])
async def test_tools_and_their_results(llama: Ways, messages: Any) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            return await api.chat.completions.create(messages=messages, tools=[TOOL], max_tokens=16, **FIXED)

    assert (await same(llama, ask))["usage"]["prompt_tokens"] > 60


async def test_completions(llama: Ways) -> None:
    async def ask(url: str, stream: bool) -> Any:
        async with client(url) as api:
            answer = await api.completions.create(prompt="The pond is", max_tokens=16, stream=stream, **FIXED)
            return await every(answer) if isinstance(answer, openai.AsyncStream) else answer

    whole = await same(llama, lambda url: ask(url, False))
    chunks = await same(llama, lambda url: ask(url, True))
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == whole["choices"][0]["text"]


async def test_responses(llama: Ways) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            return await api.responses.create(input="Is the pond frozen?", max_output_tokens=16, **FIXED)

    async def streamed(url: str) -> Any:
        async with client(url) as api:
            stream = await api.responses.create(input="Is the pond frozen?", max_output_tokens=16, stream=True, **FIXED)
            return await every(stream)

    whole, events = await same(llama, ask), await same(llama, streamed)
    assert whole["usage"]["output_tokens"] == 16
    assert events[-1]["type"] == "response.completed"
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert text == whole["output"][0]["content"][0]["text"]


async def test_models(llama: Ways) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            return [model async for model in api.models.list()]

    assert [model["owned_by"] for model in await same(llama, ask)] == ["llamacpp"]


async def test_embeddings(embedder: Ways) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            return await api.embeddings.create(model="tiny", input=["The pond.", "The roof."], encoding_format="float")

    rows = (await same(embedder, ask))["data"]
    assert [len(row["embedding"]) for row in rows] == [64, 64]


async def test_counting_as_the_server_does(llama: Ways) -> None:
    """llama.cpp's own; the library has no call for it."""
    counts = []
    for url in (llama.direct, llama.through):
        counts.append((await fetch(f"{url}/v1/chat/completions/input_tokens", {"messages": TALK})).json())
    assert counts[0] == counts[1]
    assert counts[0]["input_tokens"] > 10


async def test_errors(llama: Ways) -> None:
    async def no_list(url: str) -> Any:
        async with client(url) as api:
            return await api.chat.completions.create(model="tiny", messages="hello")  # type: ignore[call-overload]

    async def too_long(url: str) -> Any:
        async with client(url) as api:
            return await api.completions.create(model="tiny", prompt="x" * 20_000, max_tokens=2)

    async def unsupported(url: str) -> Any:
        async with client(url) as api:
            return await api.embeddings.create(model="tiny", input="x")

    assert "context" in str(await same_error(llama, too_long, openai.BadRequestError))
    await same_error(llama, unsupported, openai.InternalServerError)
    for url in (llama.direct, llama.through):  # refused here already, in words of the gateway's own
        with pytest.raises(openai.BadRequestError):
            await no_list(url)


async def test_a_streamed_tool_call(tmp_path: Any) -> None:
    """Random weights call no tools, so the server is scripted."""
    said = Reply("I look.", "Where?", (ToolCall("look", {"place": "pond"}),), cached=8, timings=True)
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai"}}}) as gateway,
    ):
        for path in ("/v1/chat/completions", "/v1/responses"):
            upstream.on(path, ordinary(said))
        ways = Ways(upstream.url, gateway.url, gateway.admin)

        async def chat(url: str) -> Any:
            async with client(url) as api, api.chat.completions.stream(model="tiny", messages=TALK, tools=[TOOL]) as stream:
                return (await stream.get_final_completion()).choices[0].message

        async def responses(url: str) -> Any:
            async with client(url) as api, api.responses.stream(model="tiny", input="hi") as stream:
                return (await stream.get_final_response()).output

        message = await same(ways, chat)
        assert message["tool_calls"][0]["function"]["arguments"] == '{"place":"pond"}'
        assert [item["type"] for item in await same(ways, responses)] == ["reasoning", "message", "function_call"]
