"""The official `anthropic` library against a real llama.cpp server, directly and through the gateway."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.sdk.conftest import Ways
from tests.sdk.same import every, same, same_error
from tests.support.engine import needs_engine
from tests.support.process import GatewayProcess
from tests.support.replies import Reply, ToolCall
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import ordinary

pytestmark = needs_engine

TALK: Any = [{"role": "user", "content": "Is the pond frozen?"}]
TOOL: Any = {
    "name": "look",
    "description": "Look at a place.",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}
CALLED: Any = [
    *TALK,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"place": "pond"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Ice."}]},
]
FIXED: Any = {
    "model": "tiny",
    "system": "You look after the garden.",
    "max_tokens": 16,
    "extra_body": {"temperature": 0, "cache_prompt": False},
}


def client(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)


@pytest.mark.parametrize(
    "asked", [{"messages": TALK}, {"messages": TALK, "tools": [TOOL]}, {"messages": CALLED, "tools": [TOOL]}]
)
async def test_messages(llama: Ways, asked: Any) -> None:
    async def ask(url: str) -> Any:
        async with client(url) as api:
            return await api.messages.create(**asked, **FIXED)

    async def streamed(url: str) -> Any:
        async with client(url) as api:
            return await every(await api.messages.create(**asked, **FIXED, stream=True))

    async def count(url: str) -> Any:
        async with client(url) as api:
            return await api.messages.count_tokens(model="tiny", system=FIXED["system"], **asked)

    await ask(llama.direct)  # `cache_prompt: false` is not heeded here, so both ways find the prompt in the cache
    whole, events, counted = await same(llama, ask), await same(llama, streamed), await same(llama, count)
    assert whole["usage"]["output_tokens"] == 16
    usage = whole["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted["input_tokens"]
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert text == whole["content"][0]["text"]
    assert events[-1]["type"] == "message_stop"


async def test_errors(llama: Ways) -> None:
    async def too_long(url: str) -> Any:
        async with client(url) as api:
            return await api.messages.create(model="tiny", max_tokens=9, messages=[{"role": "user", "content": "x" * 20_000}])

    async def no_list(url: str) -> Any:
        async with client(url) as api:
            return await api.messages.create(model="tiny", max_tokens=9, messages="hello")  # type: ignore[call-overload]

    await same_error(llama, too_long, anthropic.BadRequestError)
    with pytest.raises(anthropic.BadRequestError):
        await no_list(llama.through)  # llama.cpp makes something of it, other servers do not


async def test_a_streamed_tool_call(tmp_path: Any) -> None:
    said = Reply("I look.", "Where?", (ToolCall("look", {"place": "pond"}),), cached=8)
    async with (
        ScriptedUpstream() as upstream,
        GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai"}}}) as gateway,
    ):
        upstream.on("/v1/messages", ordinary(said))

        async def ask(url: str) -> Any:
            async with client(url) as api, api.messages.stream(model="tiny", max_tokens=9, messages=TALK) as stream:
                return await stream.get_final_message()

        message = await same(Ways(upstream.url, gateway.url, gateway.admin), ask)
        assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use"]
        assert message["content"][2]["input"] == {"place": "pond"}
