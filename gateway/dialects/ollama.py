"""Ollama's own API: chat and generate. Pure.

One JSON object a line; the last has `done: true` and the token counts. A request streams unless `stream` is false. Tool calls
may all arrive in the last line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects import counts
from gateway.dialects.base import Tap
from gateway.dialects.counts import Json, as_dict
from gateway.dialects.shapes import line
from gateway.dialects.taps import DocumentTap, Reader, StreamTap
from gateway.wire import ndjson
from gateway.wire.lenient import dumps

CHAT_HEARTBEAT = {"message": {"role": "assistant", "content": ""}, "done": False}
GENERATE_HEARTBEAT = {"response": "", "done": False}


class OllamaReader(Reader):
    news = (b"true", b"error")  # `true` finds "done" in every spelling

    def chunk(self, name: str, doc: Json) -> bool:
        self.document(doc)
        if doc.get("done") is True:
            self.seen.finished = True
        return False

    def document(self, doc: Json) -> None:
        message = as_dict(doc.get("message"))
        if message.get("thinking") or doc.get("thinking"):
            self.mark("reasoning")
        if message.get("content") or doc.get("response") or doc.get("image"):
            self.mark("content")
        if message.get("tool_calls"):
            self.mark("tool_call")
        if doc.get("done") is True:
            self.count(counts.ollama(doc))


class Ollama:
    name = "ollama"

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is not False

    def tap(self, path: str, *, streaming: bool, hide_usage: bool = False) -> Tap:
        reader = OllamaReader()
        return StreamTap(ndjson.Lines(), ndjson.parse, reader, b"\n") if streaming else DocumentTap(reader)

    def error(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return dumps({"error": message, "code": code})

    def error_event(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return line({"error": message, "code": code})

    def heartbeat(self, path: str, model: str = "") -> bytes:
        beat = GENERATE_HEARTBEAT if path.rstrip("/").endswith("/generate") else CHAT_HEARTBEAT
        return line({"model": model, "created_at": "1970-01-01T00:00:00Z", **beat})


DIALECT = Ollama()
