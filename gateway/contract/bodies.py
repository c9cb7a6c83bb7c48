"""The requests of the suite: for each path, how a prompt and a token limit are written. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
OLLAMA_CHAT, OLLAMA_GENERATE, LLAMACPP = "/api/chat", "/api/generate", "/completion"
LMSTUDIO_V0 = "/api/v0/chat/completions"

_WORDS = (
    "amber", "birch", "canal", "dune", "ember", "fern", "gravel", "harbor", "island", "juniper", "kettle", "lantern", "meadow",
    "north", "orchard", "pebble", "quarry", "river", "saddle", "timber", "umber", "valley", "willow", "yarrow",
)  # fmt: skip

QUESTION = "Write the numbers from one to twenty in words, with commas between them."


@dataclass(frozen=True, slots=True)
class Form:
    """name: for names of probes; prompt, limit: the fields that carry a text and a number of tokens; cool: temperature 0."""

    name: str
    prompt: Callable[[str], Json]
    limit: Callable[[int], Json]
    cool: Json

    def body(self, model: str, text: str, tokens: int, *, stream: bool) -> Json:
        return {"model": model, **self.prompt(text), **_joined(self.limit(tokens), self.cool), "stream": stream}


def _joined(limit: Json, cool: Json) -> Json:
    """Ollama's own API has both inside `options`."""
    both = {**limit.get("options", {}), **cool.get("options", {})}
    return {"options": both} if both else {**limit, **cool}


def _messages(text: str) -> Json:
    return {"messages": [{"role": "user", "content": text}]}


def _prompt(text: str) -> Json:
    return {"prompt": text}


def _field(name: str) -> Callable[[int], Json]:
    return lambda tokens: {name: tokens}


def _num_predict(tokens: int) -> Json:
    return {"options": {"num_predict": tokens}}


_COOL: Json = {"temperature": 0}
_COOL_OPTIONS: Json = {"options": {"temperature": 0}}

FORMS: dict[str, Form] = {
    CHAT: Form("chat", _messages, _field("max_tokens"), _COOL),
    COMPLETIONS: Form("completions", _prompt, _field("max_tokens"), _COOL),
    RESPONSES: Form("responses", lambda text: {"input": text}, _field("max_output_tokens"), _COOL),
    MESSAGES: Form("messages", _messages, _field("max_tokens"), _COOL),
    OLLAMA_CHAT: Form("ollama-chat", _messages, _num_predict, _COOL_OPTIONS),
    OLLAMA_GENERATE: Form("ollama-generate", _prompt, _num_predict, _COOL_OPTIONS),
    LLAMACPP: Form("llamacpp", _prompt, _field("n_predict"), _COOL),
    LMSTUDIO_V0: Form("lmstudio-v0", _messages, _field("max_tokens"), _COOL),
}
"""By path."""


def prose(words: int, seed: str) -> str:
    """An invented text that begins differently for each seed, so that no cache knows it. A word is one token or more."""
    source = random.Random(seed)
    return " ".join((f"Note {source.randrange(10**9)}:", *(source.choice(_WORDS) for _ in range(words))))
