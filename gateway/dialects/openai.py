"""What the OpenAI APIs have in common: error shapes, the chunks of chat and completions, and how counts are asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gateway.dialects import counts
from gateway.dialects.base import Tap
from gateway.dialects.counts import Json, as_list
from gateway.dialects.shapes import openai_error, sse
from gateway.dialects.taps import DocumentTap, Reader, StreamTap
from gateway.wire import sse as events
from gateway.wire.lenient import dumps


class ChoicesReader(Reader):
    """Reads what chat and completions share: `choices`, `finish_reason`, token counts and `[DONE]`."""

    news = (b"error", b"[DONE]")
    members = re.compile(rb'"(?:finish_reason|usage|timings|stats)"(?!\s*+:\s*+null)')
    terminator = b"[DONE]"

    def chunk(self, name: str, doc: Json) -> bool:
        self.document(doc)
        return isinstance(doc.get("usage"), dict) and not doc.get("choices") and not doc.get("error")

    def document(self, doc: Json) -> None:
        for choice in as_list(doc.get("choices")):
            if isinstance(choice, dict):
                self.seen.stopped = self.seen.stopped or bool(choice.get("finish_reason"))
                if "prompt_progress" not in doc:  # llama.cpp repeats role deltas while it reads the prompt
                    self.choice(choice)
        if "usage" in doc or "timings" in doc or "stats" in doc:
            self.count(counts.openai(doc))

    def choice(self, choice: Json) -> None:
        """What one choice carries."""
        raise NotImplementedError


class OpenAI:
    """Base of the dialects that fail as OpenAI's API does. Subclasses name their reader."""

    name: str
    reader: type[Reader]

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        return body.get("stream") is True and not path.endswith("/input_tokens")

    def tap(self, path: str, *, streaming: bool, hide_usage: bool = False) -> Tap:
        reader = self.reader()
        return StreamTap(events.Events(), events.parse, reader, b"\n\n", hide_usage) if streaming else DocumentTap(reader)

    def error(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return dumps({"error": openai_error(status, code, message)})

    def error_event(self, status: int, code: str, message: str, request_id: str) -> bytes:
        return sse({"error": openai_error(status, code, message)})

    def heartbeat(self, path: str, model: str = "") -> bytes:
        return events.COMMENT


def usage_request(body: Mapping[str, Any]) -> bytes | None:
    """The value for the top-level field `stream_options` that asks for token counts and keeps the other options.

    None if nothing is to be asked: no stream, asked already, or options that are no object (the server will say so). For chat
    and completions only; splice it in with `wire.splice.set_fields`, and hide the chunk that comes of it with
    `tap(hide_usage=True)`.
    """
    options = body.get("stream_options")
    if body.get("stream") is not True or not isinstance(options, dict | None):
        return None
    if options and options.get("include_usage") is True:
        return None
    return dumps({**(options or {}), "include_usage": True})
