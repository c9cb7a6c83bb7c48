"""oMLX. Source of facts: its README and omlx/server.py. `/health` is public and names its engine pool; no other server's does.

Neither the lists nor the status load a model. Loading pinned models at start-up is told by 503 on `/health`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.backends.loads import OMLX_LOADS
from gateway.backends.openai import context_of, list_problem
from gateway.values import ModelInfo, Probe

KIND = "omlx"


def tells_engine_pool(answer: Answer) -> bool:
    """Whether this is oMLX's `/health`, ready (200) or loading (503)."""
    return isinstance(answer.body, dict) and "engine_pool" in answer.body


async def probe(control: Control) -> Probe:
    health = await control.get("/health")
    if health.status == 503:
        return Probe(KIND, up=False, loading=True, problem="its pinned models are still loading")
    listed = await control.get("/v1/models")
    if problem := list_problem("/v1/models", listed):
        return Probe(KIND, up=False, problem=problem)
    status = await control.get("/v1/models/status")
    states = {row.get("model_alias") or row.get("id"): row for row in status.rows("models")}  # the list shows the alias only
    return Probe(
        KIND,
        up=True,
        models=tuple(_model(row, states.get(row["id"])) for row in listed.rows("data") if isinstance(row.get("id"), str)),
    )


def _model(row: dict[str, Any], state: Mapping[str, Any] | None) -> ModelInfo:
    rows = {"/v1/models": row}
    if state is None:
        return ModelInfo(row["id"], context=context_of(row), rows=rows)
    loaded, size, context = state.get("loaded") is True, state.get("actual_size"), state.get("max_context_window")
    return ModelInfo(
        row["id"],
        context=context if isinstance(context, int) and context > 0 else context_of(row),
        resident=loaded,
        resident_bytes=size if loaded and isinstance(size, int) and size > 0 else None,
        expires=float("inf") if loaded and state.get("pinned") is True else None,
        rows=rows,
    )


OMLX = Kind(
    name=KIND,
    serves=frozenset(
        {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}
    ),
    probe=probe,
    lists={"/v1/models": "id"},
    probes=frozenset({"/v1/models/status"}),
    owns=("/v1/models/status", "/admin/"),
    loads=OMLX_LOADS,
    shares=True,
    settle=0.25,  # blocks are published a little after they were computed (its issue 1731); a guess, no figure is known
)  # fmt: skip
