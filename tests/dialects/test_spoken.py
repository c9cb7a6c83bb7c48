"""What was said is the same however the reply came, and is recognised when it returns as history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.canonical.digests import reply, said
from gateway.dialects import ENDPOINTS
from gateway.dialects.prompt_read import read
from gateway.dialects.spoken import Spoken, spoken
from tests.support.replies import SHAPES
from tests.support.replies.reply import Reply, ToolCall

TEXT = Reply(text="The door is open.", reasoning="Let me think.")
CALLS = Reply(text="", tool_calls=(ToolCall("light", {"room": "Loft", "on": True}), ToolCall("door", {"id": 7}, "call_2")))
PATHS = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"]


def heard(path: str, answer: Reply, *, streaming: bool) -> Spoken | None:
    shape = SHAPES[path]
    raw = b"".join(shape.stream(answer)) if streaming else shape.document(answer)
    return spoken(ENDPOINTS[path].dialect.name, raw, streaming=streaming)


def history(path: str, answer: Reply) -> dict[str, Any]:
    """A body in which the reply is history, spelled as clients spell it."""
    calls = [(call.name, call.arguments) for call in answer.tool_calls]
    user = {"role": "user", "content": "hi"}
    if path == "/v1/responses":
        item: dict[str, Any] = {"role": "assistant", "content": [{"type": "output_text", "text": answer.text}]}
        if calls:
            item = {"type": "function_call", "call_id": "x", "name": calls[0][0], "arguments": json.dumps(calls[0][1])}
        return {"model": "m", "input": [user, item]}
    if path == "/v1/messages":
        blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        blocks += [{"type": "tool_use", "id": "x", "name": name, "input": value} for name, value in calls]
        return {"model": "m", "messages": [user, {"role": "assistant", "content": blocks}]}
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if calls:
        as_text = path != "/api/chat"
        functions = [{"name": name, "arguments": json.dumps(value) if as_text else value} for name, value in calls]
        message["tool_calls"] = [{"id": "x", "function": function} for function in functions]
    return {"model": "m", "messages": [user, message]}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("answer", [TEXT, CALLS], ids=["text", "calls"])
@pytest.mark.parametrize("streaming", [True, False])
def test_a_reply_is_recognised_as_history(path: str, answer: Reply, streaming: bool) -> None:
    found = heard(path, answer, streaming=streaming)
    assert found is not None
    prompt = read(path, history(path, answer))
    assert prompt is not None
    assert reply(b"s", found.text, found.calls) == said(b"s", prompt.messages[1])


@pytest.mark.parametrize("path", PATHS)
def test_another_reply_is_another_one(path: str) -> None:
    found = heard(path, Reply(text="The door is shut."), streaming=True)
    assert found is not None
    prompt = read(path, history(path, TEXT))
    assert prompt is not None
    assert reply(b"s", found.text, found.calls) != said(b"s", prompt.messages[1])


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "openai_responses", "ollama", "llamacpp"])
@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"data: {\n\n", b'{"choices": 5, "content": [1], "output": {}}', b"\xff"])
@pytest.mark.parametrize("streaming", [True, False])
def test_nothing_readable_is_none(dialect: str, raw: bytes, streaming: bool) -> None:
    assert spoken(dialect, raw, streaming=streaming) is None
