"""OpenAI Responses. Events carry a running `sequence_number`; a stream ends with `response.completed`, not [DONE]. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from tests.support.replies.reply import CREATED, Reply, pieces, sse, timings


def usage(reply: Reply) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "input_tokens": reply.prompt,
        "output_tokens": reply.completion,
        "total_tokens": reply.prompt + reply.completion,
    }
    return counts if reply.cached is None else counts | {"input_tokens_details": {"cached_tokens": reply.cached}}


def stream(reply: Reply) -> list[bytes]:
    started = {"id": "resp_1", "object": "response", "status": "in_progress", "model": reply.model}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for index, item in enumerate(_items(reply)):
        added = item | {"status": "in_progress"} | ({"content": []} if item["type"] == "message" else {})
        events.append({"type": "response.output_item.added", "output_index": index, "item": added})
        events += [{"output_index": index, "item_id": item["id"]} | event for event in _item_events(item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    completed: dict[str, Any] = {"type": "response.completed", "response": _response(reply)}
    if reply.timings:
        completed["timings"] = timings(reply)
    events.append(completed)
    return [sse(event | {"sequence_number": n}, event["type"]) for n, event in enumerate(events)]


def document(reply: Reply) -> bytes:
    return orjson.dumps(_response(reply))


def _response(reply: Reply) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": CREATED, "status": "completed", "model": reply.model}
    return head | {"output": _items(reply)} | ({"usage": usage(reply)} if reply.usage else {})


def _items(reply: Reply) -> list[dict[str, Any]]:
    """The finished output items: reasoning, message, function calls, each only if there is one."""
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"type": "reasoning", "id": "rs_1", "status": "completed", "summary": summary})
    if reply.text:
        content = [{"type": "output_text", "annotations": [], "text": reply.text}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
    for n, call in enumerate(reply.tool_calls):
        named = {"type": "function_call", "id": f"fc_{n}", "call_id": call.id, "name": call.name, "status": "completed"}
        items.append(named | {"arguments": call.arguments_json})
    return items


def _item_events(item: dict[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "function_call":
        arguments = item["arguments"]
        return [
            {"type": "response.function_call_arguments.delta", "delta": arguments},
            {"type": "response.function_call_arguments.done", "arguments": arguments},
        ]
    if item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        deltas = [{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": p} for p in pieces(text)]
        return [*deltas, {"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": text}]
    part = item["content"][0]
    return [
        {"type": "response.content_part.added", "content_index": 0, "part": part | {"text": ""}},
        *({"type": "response.output_text.delta", "content_index": 0, "delta": p} for p in pieces(part["text"])),
        {"type": "response.output_text.done", "content_index": 0, "text": part["text"]},
        {"type": "response.content_part.done", "content_index": 0, "part": part},
    ]
