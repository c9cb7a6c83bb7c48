"""Anthropic messages. `input_tokens` is what had to be computed; `cache_read_input_tokens` comes on top of it. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from tests.support.replies.reply import Reply, pieces, sse

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def usage(reply: Reply) -> dict[str, Any]:
    cached = {} if reply.cached is None else {"cache_read_input_tokens": reply.cached}
    return {"input_tokens": reply.evaluated, **cached, "output_tokens": reply.completion}


def stream(reply: Reply, *, estimate: int | None = None) -> list[bytes]:
    """message_start -> blocks -> message_delta -> message_stop.

    estimate: `message_start` carries this guess of the input tokens and the true counts come in `message_delta` only, as Ollama
    does; without it the counts are true from the start and `message_delta` has the output tokens, as llama.cpp does.
    """
    counts = usage(reply)
    first = counts | {"output_tokens": 0} if estimate is None else {"input_tokens": estimate, "output_tokens": 0}
    last = {"output_tokens": reply.completion} if estimate is None else counts
    events: list[dict[str, Any]] = [{"type": "message_start", "message": _message(reply, [], None, first)}]
    for index, block in enumerate(_blocks(reply)):
        empty, deltas = _pieces_of(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": STOP_REASONS[reply.finish_reason], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": ended, "usage": last}, {"type": "message_stop"}]
    return [sse(event, event["type"]) for event in events]


def document(reply: Reply) -> bytes:
    return orjson.dumps(_message(reply, _blocks(reply), STOP_REASONS[reply.finish_reason], usage(reply)))


def _message(reply: Reply, content: list[dict[str, Any]], stop: str | None, counts: dict[str, Any]) -> dict[str, Any]:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": reply.model, "content": content}
    return head | {"stop_reason": stop, "stop_sequence": None, "usage": counts}


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": ""})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in reply.tool_calls
    ]


def _pieces_of(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it is opened, and the deltas that fill it. A tool's input comes as one whole piece of JSON."""
    if block["type"] == "tool_use":
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()}]
    if block["type"] == "thinking":
        return block | {"thinking": ""}, [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"])]
    return block | {"text": ""}, [{"type": "text_delta", "text": p} for p in pieces(block["text"])]


def error(message: str, kind: str = "invalid_request_error") -> bytes:
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
