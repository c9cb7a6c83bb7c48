"""OpenAI text completions (the API before chat). Pure. A stream is that of chat, with `text` in place of a delta."""

from __future__ import annotations

from gateway.dialects.counts import Json
from gateway.dialects.openai import ChoicesReader, OpenAI
from gateway.dialects.shapes import sse

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


class CompletionsReader(ChoicesReader):
    def choice(self, choice: Json) -> None:
        if choice.get("text"):
            self.mark("content")


class OpenAICompletions(OpenAI):
    name = "openai_completions"
    reader = CompletionsReader

    def heartbeat(self, path: str) -> bytes:
        return HEARTBEAT


DIALECT = OpenAICompletions()
