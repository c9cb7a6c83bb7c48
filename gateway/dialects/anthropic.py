"""Anthropic messages, and its token counting. Pure.

A stream: `message_start` (its token counts may be an estimate, or 0), content blocks as start, deltas and stop, `message_delta`
with the counts that are true, `message_stop`; `ping` and `error` at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects import counts
from gateway.dialects.base import Tap
from gateway.dialects.counts import Json, as_dict, as_list
from gateway.dialects.shapes import anthropic_type, sse
from gateway.dialects.taps import DocumentTap, Reader, StreamTap
from gateway.values import First
from gateway.wire import sse as events
from gateway.wire.lenient import dumps

PARTS: dict[str, tuple[First, str]] = {
    "text_delta": ("content", "text"),
    "thinking_delta": ("reasoning", "thinking"),
    "input_json_delta": ("tool_call", "partial_json"),
    "text": ("content", "text"),
    "thinking": ("reasoning", "thinking"),
}
"""Types of deltas and of whole blocks: what they carry, and in which field."""

HEARTBEAT = sse({"type": "ping"}, event="ping")


class MessagesReader(Reader):
    news = (b"message_", b"error")

    def __init__(self) -> None:
        super().__init__()
        self._usage: dict[str, Any] = {}  # by field, because a later report need not repeat all of them

    def chunk(self, name: str, doc: Json) -> bool:
        kind = doc.get("type")
        kind = kind if isinstance(kind, str) else name
        if kind == "content_block_delta":
            self.part(as_dict(doc.get("delta")))
        elif kind == "content_block_start":
            if is_tool_use(as_dict(doc.get("content_block"))):
                self.mark("tool_call")
        elif kind == "message_start":
            self.usage(as_dict(as_dict(doc.get("message")).get("usage")))
        elif kind == "message_delta":
            self.usage(as_dict(doc.get("usage")))
            self.seen.stopped = self.seen.stopped or bool(as_dict(doc.get("delta")).get("stop_reason"))
        elif kind == "message_stop":
            self.seen.finished = True
        return False

    def document(self, doc: Json) -> None:
        self.usage(as_dict(doc.get("usage")))
        for block in as_list(doc.get("content")):
            block = as_dict(block)
            if is_tool_use(block):
                self.mark("tool_call")
            else:
                self.part(block)

    def part(self, part: Json) -> None:
        """A delta, or a whole block."""
        kind = part.get("type")
        carries, field = PARTS.get(kind, (None, "")) if isinstance(kind, str) else (None, "")
        if carries and part.get(field):
            self.mark(carries)

    def usage(self, usage: Json) -> None:
        self._usage.update((name, value) for name, value in usage.items() if value is not None)
        if usage:
            self.seen.usage = counts.anthropic(self._usage)


def is_tool_use(block: Json) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("tool_use")


class Anthropic:
    name = "anthropic"

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True and not path.endswith("/count_tokens")

    def tap(self, path: str, *, streaming: bool, hide_usage: bool = False) -> Tap:
        reader = MessagesReader()
        return StreamTap(events.Events(), events.parse, reader, b"\n\n") if streaming else DocumentTap(reader)

    def error(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return dumps(_error(status, code, message, request_id))

    def error_event(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return sse(_error(status, code, message, request_id), event="error")

    def heartbeat(self, path: str, model: str = "") -> bytes:
        return HEARTBEAT


def _error(status: int, code: str, message: str, request_id: str) -> dict[str, Any]:
    error = {"type": anthropic_type(status), "message": message, "code": code}
    return {"type": "error", "error": error, "request_id": request_id}


DIALECT = Anthropic()
