"""OpenAI chat completions and text completions, as llama.cpp, Ollama's /v1 and vLLM speak them. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from tests.support.replies.reply import CREATED, Reply, ToolCall, pieces, sse, timings

DONE = b"data: [DONE]\n\n"


def usage(reply: Reply) -> dict[str, Any]:
    """`prompt_tokens` counts cached tokens too; the details are left out by servers that do not report reuse."""
    counts: dict[str, Any] = {
        "prompt_tokens": reply.prompt,
        "completion_tokens": reply.completion,
        "total_tokens": reply.prompt + reply.completion,
    }
    details = {} if reply.cached is None else {"prompt_tokens_details": {"cached_tokens": reply.cached}}
    return counts | details


def chat_stream(reply: Reply) -> list[bytes]:
    """role -> deltas -> finish_reason -> counts (if `reply.usage`) -> [DONE]."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{reply.reasoning_key: piece} for piece in pieces(reply.reasoning)]
    deltas += [{"content": piece} for piece in pieces(reply.text)]
    for index, call in enumerate(reply.tool_calls):
        deltas += [{"tool_calls": [{"index": index} | part]} for part in _call_parts(call, whole=reply.whole_tool_calls)]
    if not reply.role_alone and len(deltas) > 1:
        deltas[:2] = [deltas[0] | deltas[1]]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reply.finish_reason})
    return _frames(reply, choices, "chat.completion.chunk")


def completions_stream(reply: Reply) -> list[bytes]:
    choices: list[dict[str, Any]] = [
        {"index": 0, "text": piece, "logprobs": None, "finish_reason": None} for piece in pieces(reply.text)
    ]
    choices.append({"index": 0, "text": "", "logprobs": None, "finish_reason": reply.finish_reason})
    return _frames(reply, choices, "text_completion")


def _frames(reply: Reply, choices: list[dict[str, Any]], kind: str) -> list[bytes]:
    """llama.cpp's `timings` stand on whatever chunk is the last one."""
    head = {"id": "chatcmpl-1", "object": kind, "created": CREATED, "model": reply.model}
    chunks: list[dict[str, Any]] = [head | {"choices": [choice]} for choice in choices]
    if reply.usage:
        chunks.append(head | {"choices": [], "usage": usage(reply)})
    if reply.timings:
        chunks[-1]["timings"] = timings(reply)
    return [*map(sse, chunks), DONE]


def chat_document(reply: Reply) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message[reply.reasoning_key] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_call(call) for call in reply.tool_calls]
    return _document(reply, {"index": 0, "message": message, "finish_reason": reply.finish_reason}, "chat.completion")


def completions_document(reply: Reply) -> bytes:
    choice = {"index": 0, "text": reply.text, "logprobs": None, "finish_reason": reply.finish_reason}
    return _document(reply, choice, "text_completion")


def _document(reply: Reply, choice: dict[str, Any], kind: str) -> bytes:
    head = {"id": "chatcmpl-1", "object": kind, "created": CREATED, "model": reply.model}
    document: dict[str, Any] = head | {"choices": [choice]}
    if reply.usage:
        document["usage"] = usage(reply)
    if reply.timings:
        document["timings"] = timings(reply)
    return orjson.dumps(document)


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}


def _call_parts(call: ToolCall, *, whole: bool) -> list[dict[str, Any]]:
    if whole:
        return [_call(call)]
    named = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [named, {"function": {"arguments": call.arguments_json}}]


def error(message: str, kind: str = "invalid_request_error", code: Any = None) -> bytes:
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
