"""OpenAI text completions (the API before chat). Pure. A stream is that of chat, with `text` in place of a delta."""

from __future__ import annotations

from gateway.dialects.counts import Json
from gateway.dialects.openai import ChoicesReader, OpenAI
from gateway.dialects.shapes import sse

HEARTBEAT = {
    "id": "cmpl-keepalive",
    "object": "text_completion",
    "created": 0,
    "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": None}],
}
"""A chunk that adds nothing."""


class CompletionsReader(ChoicesReader):
    def choice(self, choice: Json) -> None:
        if choice.get("text"):
            self.mark("content")


class OpenAICompletions(OpenAI):
    name = "openai_completions"
    reader = CompletionsReader

    def heartbeat(self, path: str, model: str = "") -> bytes:
        return sse({**HEARTBEAT, "model": model})


DIALECT = OpenAICompletions()
