"""Anything OpenAI-shaped: a server that has `/v1/models`, of which nothing more is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Control
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


async def probe(control: Control) -> Probe:
    listed = await control.get("/v1/models")
    if listed.status in (401, 403):
        return Probe(KIND, up=False, problem=NEEDS_KEY)
    if listed.status == 503:
        return Probe(KIND, up=False, loading=True, problem=f"/v1/models answers 503: {listed.text}")
    if not listed.ok or not isinstance(listed.field("data"), list):  # LM Studio answers 200 with an error body
        return Probe(KIND, up=False, problem=f"/v1/models answers {listed.status} without a model list: {listed.text}")
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
