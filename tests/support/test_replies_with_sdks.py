"""The vendors' own client libraries read the replies that the test servers give: text, reasoning, tool calls and counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.ollama_runners import Model
from tests.support.replies import SHAPES, Reply, ToolCall
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import ordinary

SAID = Reply("Good day to you.", "Let me think.", (ToolCall("look", {"at": "it"}),), prompt=20, cached=15, completion=9)
HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(params=["scripted", "simulated"])
async def url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A server that says SAID, by script or as an Ollama with a thinking model."""
    if request.param == "scripted":
        async with ScriptedUpstream() as upstream:
            for path in SHAPES:
                upstream.on(path, ordinary(SAID))
            yield upstream.url
    else:
        async with FakeOllama(Model("tiny", thinking=True)) as fake:
            fake.answer = lambda _: SAID
            yield fake.url


async def test_openai_chat(url: str) -> None:
    text, name, arguments, usage = "", "", "", None
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="tiny", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        async for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    assert call.function is not None
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
        whole = await client.chat.completions.create(model="tiny", messages=HI)
    assert (text, name, arguments) == (SAID.text, "look", '{"at":"it"}')
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens is not None
    assert whole.choices[0].message.content == SAID.text
    assert whole.choices[0].finish_reason == "tool_calls"


async def test_openai_responses(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        async with client.responses.stream(model="tiny", input="hi") as stream:
            deltas = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
            final = await stream.get_final_response()
        whole = await client.responses.create(model="tiny", input="hi")
    assert deltas == final.output_text == whole.output_text == SAID.text
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
    assert final.usage is not None
    assert final.usage.input_tokens_details.cached_tokens is not None


async def test_openai_completions(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.completions.create(model="tiny", prompt="hi", stream=True)
        assert "".join([choice.text async for chunk in stream for choice in chunk.choices]) == SAID.text


async def test_anthropic(url: str) -> None:
    async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
        async with client.messages.stream(model="tiny", max_tokens=99, messages=HI) as stream:
            streamed = await stream.get_final_message()
        whole = await client.messages.create(model="tiny", max_tokens=99, messages=HI)
    for message in (streamed, whole):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[1].text == SAID.text  # type: ignore[union-attr]
        assert message.content[2].input == {"at": "it"}  # type: ignore[union-attr]
        assert message.stop_reason == "tool_use"
        assert message.usage.cache_read_input_tokens is not None


async def test_ollama(url: str) -> None:
    async with ollama.AsyncClient(host=url) as client:
        lines = [line async for line in await client.chat("tiny", HI, stream=True)]
        whole = await client.chat("tiny", HI)
        generated = await client.generate("tiny", "hi")
    assert "".join(line.message.content or "" for line in lines) == whole.message.content == generated.response == SAID.text
    assert lines[0].message.thinking == "Let"
    assert [call.function.name for line in lines for call in line.message.tool_calls or ()] == ["look"]
    assert lines[-1].done
    assert lines[-1].prompt_eval_count
