"""Ollama. Source of facts: its docs/api.md and server/routes.go; none of the paths asked here runs or loads a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.backends.loads import OLLAMA_LOADS
from gateway.errors import Unreachable
from gateway.values import ModelInfo, Probe

KIND = "ollama"
MAX_SHOWN = 64  # models whose /api/show is asked for, once for each digest
NEVER = 2200  # `keep_alive: -1` is shown as a date around the year 2318
NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


def lists_tags(answer: Answer) -> bool:
    """Whether this is Ollama's `/api/tags`."""
    return answer.ok and isinstance(answer.field("models"), list)


async def probe(control: Control) -> Probe:
    version = await control.get("/api/version")
    tags = await control.get("/api/tags")
    if not lists_tags(tags):
        return Probe(KIND, up=False, problem=f"/api/tags answers {tags.status}: {tags.text}")
    running = {row.get("model") or row.get("name"): row for row in (await control.get("/api/ps")).rows("models")}
    listed = {row.get("id"): row for row in (await control.get("/v1/models")).rows("data")}
    models: list[ModelInfo] = []
    for row in tags.rows("models"):
        name = row.get("model") or row.get("name")
        if isinstance(name, str):
            shown = await _num_ctx(control, name, row.get("digest"), len(models))
            models.append(_model(name, row, listed.get(name), running.get(name), shown))
    found = version.field("version")
    return Probe(KIND, up=True, version=found if isinstance(found, str) else None, models=tuple(models))


def _model(
    name: str, row: Mapping[str, Any], listed: Mapping[str, Any] | None, running: Mapping[str, Any] | None, num_ctx: int | None
) -> ModelInfo:
    rows = {"/api/tags": row} | ({"/v1/models": listed} if listed else {})
    if running is None:
        return ModelInfo(name, context=num_ctx, resident=False, rows=rows)
    size, context = running.get("size_vram") or running.get("size"), running.get("context_length")
    return ModelInfo(
        name,
        context=context if isinstance(context, int) and context > 0 else num_ctx,
        resident=True,
        resident_bytes=size if isinstance(size, int) else None,
        expires=_expires(running.get("expires_at")),
        rows=rows | {"/api/ps": running},
    )


def _expires(value: Any) -> float | None:
    """Seconds since the epoch, inf for never. Ollama writes nanoseconds, which datetime does not read."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", value))
        return float("inf") if when.year >= NEVER else when.timestamp()
    except (ValueError, OverflowError):
        return None


async def _num_ctx(control: Control, name: str, digest: Any, position: int) -> int | None:
    """The context length that the Modelfile fixes, or None: then the server decides when it loads the model."""
    key = (name, digest)
    if key not in control.memo and position < MAX_SHOWN:
        try:
            shown = (await control.post("/api/show", {"model": name})).field("parameters")
        except Unreachable:
            return None  # asked again at the next probe
        match = NUM_CTX.search(shown) if isinstance(shown, str) else None
        control.memo[key] = int(match[1]) if match else None
        while len(control.memo) > 2 * MAX_SHOWN:
            control.memo.pop(next(iter(control.memo)))
    found = control.memo.get(key)
    return found if isinstance(found, int) else None


OLLAMA = Kind(
    name=KIND,
    serves=frozenset(
        {"/api/chat", "/api/generate", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"}
    ),
    probe=probe,
    lists={"/v1/models": "id", "/api/tags": "model", "/api/ps": "model"},
    probes=frozenset({"/api/tags", "/api/version", "/api/ps"}),
    destructive=("* /api/delete",),
    latest=True,
    owns=("/api/",),
    blind_zero=frozenset({"/v1/responses"}),  # hard-coded up to 0.33.0
    loads=OLLAMA_LOADS,
)  # fmt: skip
