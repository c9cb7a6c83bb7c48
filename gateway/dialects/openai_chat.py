"""OpenAI chat completions, as llama.cpp, vLLM, LM Studio, Ollama, SGLang, mlx-lm and oMLX speak it. Pure.

A stream: role chunk (often with empty content), deltas, a chunk with `finish_reason`, perhaps a chunk of token counts whose
`choices` are empty, null or missing, and `[DONE]`.
"""

from __future__ import annotations

from gateway.dialects import counts
from gateway.dialects.counts import Json, as_dict, as_list
from gateway.dialects.openai import OpenAI, usage_request
from gateway.dialects.shapes import sse
from gateway.dialects.taps import Reader

__all__ = ["DIALECT", "usage_request"]

HEARTBEAT = sse(
    {
        "id": "chatcmpl-keepalive",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "",
        "choices": [{"index": 0, "delta": {}, "finish_reason": None}],
    }
)
"""A chunk that adds nothing. Comment lines do not count as life for several clients, and crash others."""


class ChatReader(Reader):
    news = (b'"usage"', b'"timings"', b'"stats"', b"error", b"[DONE]")
    terminator = b"[DONE]"

    def chunk(self, name: str, doc: Json) -> bool:
        choices = [choice for choice in as_list(doc.get("choices")) if isinstance(choice, dict)]
        if "prompt_progress" not in doc:  # llama.cpp repeats role deltas while it reads the prompt
            for choice in choices:
                self.message(as_dict(choice.get("delta")))
        self.count(counts.openai(doc))
        return not doc.get("choices") and isinstance(doc.get("usage"), dict)

    def document(self, doc: Json) -> None:
        for choice in as_list(doc.get("choices")):
            self.message(as_dict(as_dict(choice).get("message")))
        self.count(counts.openai(doc))

    def message(self, part: Json) -> None:
        """A delta or a whole message. Reasoning is looked at first: where both come together, it was there first."""
        if part.get("reasoning_content") or part.get("reasoning"):
            self.mark("reasoning")
        audio = as_dict(part.get("audio"))
        if part.get("content") or part.get("refusal") or audio.get("data") or audio.get("transcript"):
            self.mark("content")
        if part.get("tool_calls") or part.get("function_call"):
            self.mark("tool_call")


class OpenAIChat(OpenAI):
    name = "openai_chat"
    reader = ChatReader

    def heartbeat(self, path: str) -> bytes:
        return HEARTBEAT


DIALECT = OpenAIChat()
