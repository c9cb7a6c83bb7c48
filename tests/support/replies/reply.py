"""One reply of a model, in no dialect, and the byte helpers that all dialects share. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

CREATED = 1_700_000_000
"""Seconds since the epoch in every `created`, so that two equal replies are equal bytes."""

NOMINAL_MS = 0.5
"""Milliseconds that a reported token took, evaluated or generated, where a server reports durations."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = "call_1"

    @property
    def arguments_json(self) -> str:
        return orjson.dumps(dict(self.arguments)).decode()


@dataclass(frozen=True, slots=True)
class Reply:
    """What was said, and what is reported about it.

    prompt: prompt tokens, cached ones included; cached: how many of them were reused, None = this server does not report it;
    usage: a stream carries its counts (OpenAI dialects: a chunk with `choices: []`); timings: llama.cpp's `timings` are sent;
    role_alone: an OpenAI chat stream begins with a chunk that has nothing but the role, instead of the first piece beside it;
    reasoning_key: field of an OpenAI delta that carries reasoning; whole_tool_calls: a call is sent whole once it is parsed
    (OpenAI: one delta, instead of its name first and its arguments after; Ollama: a line of its own, instead of in the last
    line); finish: overrides the reason for the end ("stop", "length", "tool_calls"); load_ms, prefill_ms:
    time the server says that it spent on loading the model and on the prompt (None: NOMINAL_MS for each evaluated token).
    """

    text: str = "Hello there, my friend."
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = "tiny"
    prompt: int = 12
    cached: int | None = None
    completion: int = 4
    usage: bool = True
    timings: bool = False
    role_alone: bool = True
    reasoning_key: str = "reasoning_content"
    whole_tool_calls: bool = False
    finish: str = ""
    load_ms: float = 1.0
    prefill_ms: float | None = None

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.tool_calls else "stop")

    @property
    def evaluated(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.prompt - (self.cached or 0)

    @property
    def prompt_ms(self) -> float:
        return self.evaluated * NOMINAL_MS if self.prefill_ms is None else self.prefill_ms


def pieces(text: str) -> list[str]:
    """The deltas in which a text is streamed: one per word, nothing lost."""
    return re.findall(r"\s*\S+|\s+", text)


def sse(data: Any, event: str = "") -> bytes:
    """One server-sent event; data is JSON unless it is bytes already."""
    payload = data if isinstance(data, bytes) else orjson.dumps(data)
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + payload + b"\n\n"


def timings(reply: Reply) -> dict[str, Any]:
    """llama.cpp's `timings` object. Source: llama.cpp tools/server README; seen on b11549."""
    return {
        "cache_n": reply.cached or 0,
        "prompt_n": reply.evaluated,
        "prompt_ms": reply.prompt_ms,
        "prompt_per_token_ms": reply.prompt_ms / max(reply.evaluated, 1),
        "prompt_per_second": 1000 * reply.evaluated / reply.prompt_ms if reply.prompt_ms else 0.0,
        "predicted_n": reply.completion,
        "predicted_ms": reply.completion * NOMINAL_MS,
        "predicted_per_token_ms": NOMINAL_MS,
        "predicted_per_second": 1000 / NOMINAL_MS,
    }
