"""Ollama's own API: one JSON object a line, the last with `done: true` and the counts. Source: Ollama's docs/api.md. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from tests.support.replies.reply import NOMINAL_MS, Reply, ToolCall, pieces

CREATED_AT = "2026-01-01T00:00:00.000000000Z"


def figures(reply: Reply) -> dict[str, int]:
    """Durations are nanoseconds. A zero is left out, except the cached count: its absence means *not reported*."""
    load, evaluated, generated = (int(ms * 1e6) for ms in (reply.load_ms, reply.prompt_ms, reply.completion * NOMINAL_MS))
    counts = {
        "total_duration": load + evaluated + generated,
        "load_duration": load,
        "prompt_eval_count": reply.prompt,
        "prompt_eval_duration": evaluated,
        "eval_count": reply.completion,
        "eval_duration": generated,
    }
    cached = {} if reply.cached is None else {"prompt_eval_cached_count": reply.cached}
    return {name: value for name, value in counts.items() if value} | cached


def chat_stream(reply: Reply) -> list[bytes]:
    """Tool calls come in the last line, or in a line before it if `reply.whole_tool_calls`: never piece by piece."""
    messages: list[dict[str, Any]] = [{"content": "", "thinking": p} for p in pieces(reply.reasoning)]
    messages += [{"content": p} for p in pieces(reply.text)]
    calls = {"content": "", "tool_calls": [_call(call) for call in reply.tool_calls]} if reply.tool_calls else {"content": ""}
    if reply.whole_tool_calls and reply.tool_calls:
        messages, calls = [*messages, calls], {"content": ""}
    lines = [_line(reply, message={"role": "assistant", **message}) for message in messages]
    return [*lines, _line(reply, done=True, message={"role": "assistant", **calls})]


def chat_document(reply: Reply) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["thinking"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_call(call) for call in reply.tool_calls]
    return _line(reply, done=True, message=message)


def generate_stream(reply: Reply) -> list[bytes]:
    lines = [_line(reply, response="", thinking=p) for p in pieces(reply.reasoning)]
    lines += [_line(reply, response=p) for p in pieces(reply.text)]
    return [*lines, _line(reply, done=True, response="")]


def generate_document(reply: Reply) -> bytes:
    thinking = {"thinking": reply.reasoning} if reply.reasoning else {}
    return _line(reply, done=True, response=reply.text, **thinking)


def loaded(model: str, path: str, reason: str) -> bytes:
    """The answer to an empty request. reason: `load` or `unload`. No timings."""
    content: dict[str, Any] = {"message": {"role": "assistant", "content": ""}} if path == "/api/chat" else {"response": ""}
    return _dump({"model": model, "created_at": CREATED_AT, **content, "done": True, "done_reason": reason})


def error(message: str) -> bytes:
    return orjson.dumps({"error": message})


def _line(reply: Reply, *, done: bool = False, **content: Any) -> bytes:
    line: dict[str, Any] = {"model": reply.model, "created_at": CREATED_AT, **content, "done": done}
    if done:  # Ollama ends a turn of tool calls with "stop" too
        line |= {"done_reason": "length" if reply.finish_reason == "length" else "stop", **figures(reply)}
    return _dump(line)


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": call.name, "arguments": dict(call.arguments)}}


def _dump(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value) + b"\n"
