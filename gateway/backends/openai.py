"""Anything OpenAI-shaped: a server that has `/v1/models`, of which nothing more is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.values import ModelInfo, Probe

KIND = "openai"
NEEDS_KEY = "it asks for an API key; set headers: { authorization: Bearer ... } for this backend"
CONTEXT_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length", "loaded_context_length", "n_ctx")
"""Spellings of the context length in model rows: vLLM, LM Studio, OpenRouter-like servers, llama.cpp."""


def context_of(row: Mapping[str, Any]) -> int | None:
    """Tokens of context that a model row names at its top or in `meta`, or None."""
    meta = row.get("meta")
    for place in (row, meta if isinstance(meta, dict) else {}):
        for key in (*CONTEXT_KEYS, "n_ctx_train"):
            value = place.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def list_problem(path: str, answer: Answer, key: str = "data") -> str | None:
    """What is wrong with a reply that should hold a list under `key`. A 200 proves nothing: it may come with an error."""
    if answer.status in (401, 403):
        return NEEDS_KEY
    if not answer.ok or not isinstance(answer.field(key), list):
        return f"{path} answers {answer.status} without a model list: {answer.text}"
    return None


async def probe(control: Control) -> Probe:
    listed = await control.get("/v1/models")
    if listed.status == 503:
        return Probe(KIND, up=False, loading=True, problem=f"/v1/models answers 503: {listed.text}")
    if problem := list_problem("/v1/models", listed):
        return Probe(KIND, up=False, problem=problem)
    models = tuple(
        ModelInfo(row["id"], context=context_of(row), rows={"/v1/models": row})
        for row in listed.rows("data")
        if isinstance(row.get("id"), str)
    )
    return Probe(KIND, up=True, models=models)


OPENAI = Kind(
    name=KIND,
    serves=frozenset(
        {
            "/v1/chat/completions", "/chat/completions", "/v1/completions", "/completions", "/v1/responses", "/responses",
            "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions/input_tokens", "/v1/responses/input_tokens",
        }
    ),
    probe=probe,
    lists={"/v1/models": "id", "/models": "id"},
)  # fmt: skip
