"""OpenAI chat completions, as llama.cpp, vLLM, LM Studio, Ollama, SGLang, mlx-lm and oMLX speak it. Pure.

A stream: role chunk (often with empty content), deltas, a chunk with `finish_reason`, perhaps a chunk of token counts whose
`choices` are empty, null or missing, and `[DONE]`.
"""

from __future__ import annotations

from gateway.dialects.counts import Json, as_dict
from gateway.dialects.openai import ChoicesReader, OpenAI
from gateway.dialects.shapes import sse

HEARTBEAT = {
    "id": "chatcmpl-keepalive",
    "object": "chat.completion.chunk",
    "created": 0,
    "choices": [{"index": 0, "delta": {}, "finish_reason": None}],
}
"""A chunk that adds nothing. Comment lines do not count as life for several clients, and crash others."""


class ChatReader(ChoicesReader):
    def choice(self, choice: Json) -> None:
        """A delta or a whole message. Reasoning is looked at first: where both come together, it was there first."""
        part = as_dict(choice.get("delta") or choice.get("message"))
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

    def heartbeat(self, path: str, model: str = "") -> bytes:
        return sse({**HEARTBEAT, "model": model})


DIALECT = OpenAIChat()
