"""LM Studio's own REST API. v1: named events that end with `chat.end`; v0: OpenAI's shapes with figures added. Pure.

Source: its developer docs (REST API v1: chat, streaming events; REST API v0). Neither has a cached-token figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tests.support.replies.reply import NOMINAL_MS, Reply, pieces, sse

STOP_REASONS = {"stop": "eosFound", "length": "maxPredictedTokensReached", "tool_calls": "toolCalls"}
PROVIDER = {"type": "plugin", "plugin_id": "mcp/any"}

Event = tuple[str, dict[str, Any]]


def spoken(reply: Reply) -> Iterator[Event]:
    """Type and fields of the v1 events in which the answer comes. The server runs tools itself."""
    if reply.reasoning:
        yield "reasoning.start", {}
        for piece in pieces(reply.reasoning):
            yield "reasoning.delta", {"content": piece}
        yield "reasoning.end", {}
    for call in reply.tool_calls:
        named = {"tool": call.name, "provider_info": PROVIDER}
        yield "tool_call.start", named
        yield "tool_call.arguments", named | {"arguments": dict(call.arguments)}
        yield "tool_call.success", named | {"arguments": dict(call.arguments), "output": "[]"}
    yield "message.start", {}
    for piece in pieces(reply.text):
        yield "message.delta", {"content": piece}
    yield "message.end", {}


def result(reply: Reply, instance: str, response_id: str | None, load_seconds: float | None, reasoning: int) -> dict[str, Any]:
    """The document of a v1 chat, also in `chat.end`. load_seconds: None = it was loaded already; reasoning: tokens."""
    output: list[dict[str, Any]] = [{"type": "reasoning", "content": reply.reasoning}] if reply.reasoning else []
    for call in reply.tool_calls:
        item = {"type": "tool_call", "tool": call.name, "arguments": dict(call.arguments)}
        output.append(item | {"output": "[]", "provider_info": PROVIDER})
    output.append({"type": "message", "content": reply.text})
    stats = {
        "input_tokens": reply.prompt,
        "total_output_tokens": reply.completion,
        "reasoning_output_tokens": reasoning,
        "tokens_per_second": 1000 / NOMINAL_MS,
        "time_to_first_token_seconds": reply.prompt_ms / 1000,
        **({} if load_seconds is None else {"model_load_time_seconds": load_seconds}),
    }
    stored = {} if response_id is None else {"response_id": response_id}
    return {"model_instance_id": instance, "output": output, "stats": stats, **stored}


def event(kind: str, fields: Mapping[str, Any]) -> bytes:
    return sse({"type": kind, **fields}, kind)


def figures(reply: Reply, context: int) -> dict[str, Any]:
    """What v0 adds to OpenAI's documents. Times are seconds."""
    return {
        "stats": {
            "tokens_per_second": 1000 / NOMINAL_MS,
            "time_to_first_token": reply.prompt_ms / 1000,
            "generation_time": reply.completion * NOMINAL_MS / 1000,
            "stop_reason": STOP_REASONS[reply.finish_reason],
        },
        "model_info": {"arch": "llama", "quant": "Q4_K_M", "format": "gguf", "context_length": context},
        "runtime": {"name": "llama.cpp-linux-x86_64", "version": "1.0.0", "supported_formats": ["gguf"]},
    }


def with_figures(document: bytes, added: Mapping[str, Any]) -> bytes:
    return orjson.dumps(orjson.loads(document) | added)


def stream_with_figures(events: list[bytes], added: Mapping[str, Any]) -> list[bytes]:
    """They stand on the last chunk before [DONE]."""
    last = orjson.loads(events[-2].removeprefix(b"data: "))
    return [*events[:-2], sse(last | added), events[-1]]


def error(message: str, kind: str) -> bytes:
    return orjson.dumps({"error": {"type": kind, "message": message}})
