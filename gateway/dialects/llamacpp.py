"""llama.cpp's own API: `/completion` and `/infill`. (`/completions`, with an s, is OpenAI's.) Pure.

Server-sent events without names; the last has `stop: true` and `timings`. There is no `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects import counts
from gateway.dialects.base import Tap
from gateway.dialects.counts import Json, as_dict
from gateway.dialects.shapes import openai_type, sse
from gateway.dialects.taps import DocumentTap, Reader, StreamTap
from gateway.values import Usage
from gateway.wire import sse as events
from gateway.wire.lenient import dumps


class CompletionReader(Reader):
    news = (b"true", b'"timings"', b"error")  # `true` finds "stop" in every spelling

    def chunk(self, name: str, doc: Json) -> bool:
        self.document(doc)
        if doc.get("stop") is True:
            self.seen.finished = True
        return False

    def document(self, doc: Json) -> None:
        if (doc.get("content") or doc.get("tokens")) and "prompt_progress" not in doc:
            self.mark("content")
        if doc.get("stop") is True or "timings" in doc:  # before the end, the counts are not final
            told = Usage(prompt=counts.count(doc.get("tokens_evaluated")), completion=counts.count(doc.get("tokens_predicted")))
            self.count(counts.timings(as_dict(doc.get("timings")), told))


class LlamaCpp:
    name = "llamacpp"

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True

    def tap(self, path: str, *, streaming: bool, hide_usage: bool = False) -> Tap:
        reader = CompletionReader()
        return StreamTap(events.Events(), events.parse, reader, b"\n\n") if streaming else DocumentTap(reader)

    def error(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return dumps(_error(status, code, message))

    def error_event(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return sse(_error(status, code, message))

    def heartbeat(self, path: str, model: str = "") -> bytes:
        return events.COMMENT


def _error(status: int, code: str, message: str) -> dict[str, Any]:
    """llama.cpp's `code` is the HTTP status, so that ours is the `reason`."""
    return {"error": {"code": status, "message": message, "type": openai_type(status), "reason": code}}


DIALECT = LlamaCpp()
