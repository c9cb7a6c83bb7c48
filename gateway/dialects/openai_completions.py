"""OpenAI text completions (the API before chat). Pure. A stream is that of chat, with `text` in place of a delta."""

from __future__ import annotations

from gateway.dialects import counts
from gateway.dialects.counts import Json, as_dict, as_list
from gateway.dialects.openai import OpenAI, usage_request
from gateway.dialects.shapes import sse
from gateway.dialects.taps import Reader

__all__ = ["DIALECT", "usage_request"]

HEARTBEAT = sse(
    {
        "id": "cmpl-keepalive",
        "object": "text_completion",
        "created": 0,
        "model": "",
        "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": None}],
    }
)
"""A chunk that adds nothing."""


class CompletionsReader(Reader):
    news = (b'"usage"', b'"timings"', b'"stats"', b"error", b"[DONE]")
    terminator = b"[DONE]"

    def chunk(self, name: str, doc: Json) -> bool:
        self.document(doc)
        return not doc.get("choices") and isinstance(doc.get("usage"), dict)

    def document(self, doc: Json) -> None:
        if "prompt_progress" not in doc and any(as_dict(choice).get("text") for choice in as_list(doc.get("choices"))):
            self.mark("content")
        self.count(counts.openai(doc))


class OpenAICompletions(OpenAI):
    name = "openai_completions"
    reader = CompletionsReader

    def heartbeat(self, path: str) -> bytes:
        return HEARTBEAT


DIALECT = OpenAICompletions()
