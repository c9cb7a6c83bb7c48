"""What model servers answer, byte by byte, for one and the same reply in every dialect. Pure.

`Reply` says what the model said and what the server reports; a `Shape` turns it into the events of a stream or one document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.replies import anthropic, llamacpp, lmstudio, ollama, openai, responses
from tests.support.replies.reply import Reply, ToolCall

__all__ = ["SHAPES", "Reply", "Shape", "ToolCall", "anthropic", "llamacpp", "lmstudio", "ollama", "openai", "responses"]

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Shape:
    """How one endpoint answers. stream: one element per event; document: the reply without streaming, as one JSON document."""

    stream: Callable[[Reply], list[bytes]]
    document: Callable[[Reply], bytes]
    content_type: str = SSE
    streams_unasked: bool = False
    usage_unasked: bool = True

    def wants_stream(self, body: Mapping[str, Any]) -> bool:
        return body.get("stream", self.streams_unasked) is True

    def tells_usage(self, body: Mapping[str, Any]) -> bool:
        """Whether a stream for this body carries its counts: OpenAI's two older APIs want to be asked for them."""
        return self.usage_unasked or (body.get("stream_options") or {}).get("include_usage") is True


_chat = Shape(openai.chat_stream, openai.chat_document, usage_unasked=False)
_completions = Shape(openai.completions_stream, openai.completions_document, usage_unasked=False)
_responses = Shape(responses.stream, responses.document)

SHAPES: Mapping[str, Shape] = {
    "/v1/chat/completions": _chat,
    "/chat/completions": _chat,
    "/api/v0/chat/completions": _chat,
    "/v1/completions": _completions,
    "/completions": _completions,
    "/api/v0/completions": _completions,
    "/v1/responses": _responses,
    "/responses": _responses,
    "/v1/messages": Shape(anthropic.stream, anthropic.document),
    "/api/chat": Shape(ollama.chat_stream, ollama.chat_document, NDJSON, streams_unasked=True),
    "/api/generate": Shape(ollama.generate_stream, ollama.generate_document, NDJSON, streams_unasked=True),
    "/completion": Shape(llamacpp.completion_stream, llamacpp.completion_document),
    "/infill": Shape(llamacpp.completion_stream, llamacpp.completion_document),
}
"""The shape of the reply by path."""
