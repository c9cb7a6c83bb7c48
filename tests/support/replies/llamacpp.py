"""llama.cpp's native `/completion`: SSE without [DONE], ended by `stop: true`. Source: its README; seen on b11549. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from tests.support.replies.reply import Reply, pieces, sse, timings

STOP_TYPES = {"stop": "eos", "length": "limit", "tool_calls": "eos"}


def completion_stream(reply: Reply) -> list[bytes]:
    """`tokens_evaluated` is the whole prompt, whatever was reused."""
    running = {"index": 0, "stop": False, "id_slot": 0, "tokens_evaluated": reply.prompt}
    events: list[dict[str, Any]] = [
        running | {"content": piece, "tokens": [n], "tokens_predicted": n} for n, piece in enumerate(pieces(reply.text), 1)
    ]
    return [*map(sse, events), sse(_final(reply, ""))]


def completion_document(reply: Reply) -> bytes:
    return orjson.dumps(_final(reply, reply.text))


def progress(total: int, cached: int, processed: int, time_ms: float = 1.0) -> bytes:
    """A `prompt_progress` event, as `return_progress` asks for: no token."""
    counts = {"total": total, "cache": cached, "processed": processed, "time_ms": time_ms}
    return sse({"index": 0, "content": "", "tokens": [], "stop": False, "id_slot": 0, "prompt_progress": counts})


def error(message: str, code: int = 400, kind: str = "invalid_request_error", **more: Any) -> bytes:
    return orjson.dumps({"error": {"code": code, "message": message, "type": kind, **more}})


def _final(reply: Reply, content: str) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [],
        "id_slot": 0,
        "stop": True,
        "model": reply.model,
        "tokens_predicted": reply.completion,
        "tokens_evaluated": reply.prompt,
        "tokens_cached": reply.prompt + reply.completion - 1,
        "truncated": False,
        "stop_type": STOP_TYPES[reply.finish_reason],
        "stopping_word": "",
        "timings": timings(reply),
    }
