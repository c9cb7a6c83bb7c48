"""LM Studio. Source of facts: its developer docs (REST API v1 and v0, TTL and auto-evict) and its bug tracker.

Nothing asked here loads a model or touches its idle timer. A path that it does not know is answered with 200 and an `error`, so
only a list where one belongs proves anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.backends.loads import LMSTUDIO_LOADS
from gateway.backends.openai import list_problem
from gateway.values import ModelInfo, Probe

KIND = "lmstudio"
V1, V0, OPENAI = "/api/v1/models", "/api/v0/models", "/v1/models"

Beside = Mapping[str, Mapping[Any, Mapping[str, Any]]]
"""The rows of the lists beside the one that is read: by path and name of the model."""


def lists_v1(answer: Answer) -> bool:
    """Whether this is the list of the REST API v1 (since 0.4.0), which other kinds do not have."""
    return answer.ok and isinstance(answer.field("models"), list) and all("key" in row for row in answer.rows("models"))


def lists_v0(answer: Answer) -> bool:
    """The same for v0 (since 0.3.6)."""
    return answer.ok and isinstance(answer.field("data"), list) and all("state" in row for row in answer.rows("data"))


async def probe(control: Control) -> Probe:
    for path, lists, read in SURFACES:
        answer = await control.get(path)
        if lists(answer):
            return Probe(KIND, up=True, models=tuple(read(answer, await _beside(control, path))))
    return Probe(KIND, up=False, problem=list_problem(path, answer) or f"{path} answers with another server's list")


async def _beside(control: Control, path: str) -> Beside:
    paths = [other for other in (OPENAI, V0) if other != path]
    return {other: {row.get("id"): row for row in (await control.get(other)).rows("data")} for other in paths}


def _models_v1(answer: Answer, beside: Beside) -> Iterator[ModelInfo]:
    """Each model by its key, and each further instance of it by its own name (`key:2`), which requests may name too."""
    for row in answer.rows("models"):
        if isinstance(key := row["key"], str):
            contexts = _instances(row)
            context = contexts.get(key, next(iter(contexts.values()), None))
            yield ModelInfo(key, context=context, resident=bool(contexts), rows={V1: row} | _rows(beside, key))
            for name in (name for name in contexts if name != key):
                yield ModelInfo(name, context=contexts[name], resident=True, rows=_rows(beside, name))


def _instances(row: Mapping[str, Any]) -> dict[str, int | None]:
    """Names of a model's loaded instances -> tokens of context."""
    found = row.get("loaded_instances")
    rows = [instance for instance in found if isinstance(instance, dict)] if isinstance(found, list) else []
    return {row["id"]: _context(row.get("config"), "context_length") for row in rows if isinstance(row.get("id"), str)}


def _models_v0(answer: Answer, beside: Beside) -> Iterator[ModelInfo]:
    for row in answer.rows("data"):
        if isinstance(name := row.get("id"), str):
            loaded = row["state"] == "loaded"
            context = _context(row, "loaded_context_length") if loaded else None
            yield ModelInfo(name, context=context, resident=loaded, rows={V0: row} | _rows(beside, name))


def _context(holder: Any, key: str) -> int | None:
    """Only a loaded model has a context; what it will be loaded with is a setting that the server does not tell."""
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and value > 0 else None


def _rows(beside: Beside, name: str) -> dict[str, Mapping[str, Any]]:
    return {path: rows[name] for path, rows in beside.items() if name in rows}


SURFACES = ((V1, lists_v1, _models_v1), (V0, lists_v0, _models_v0))
"""The newest first: path, whether its answer is a list, what reads it."""

SERVES = frozenset(
    {
        "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
        "/api/v0/chat/completions", "/api/v0/completions",
    }
)  # fmt: skip

LMSTUDIO = Kind(
    name=KIND,
    serves=SERVES,
    probe=probe,
    lists={OPENAI: "id", V1: "key", V0: "id"},
    probes=frozenset({V1, V0}),
    owns=("/api/v1/", "/api/v0/"),
    evicts=True,  # auto-evict: of the models that were loaded by a request, one stays (its bug tracker, issue 671)
    blind_zero=SERVES,  # it has no cached-token figure; a 0 only fills a field that the schema asks for
    loads=LMSTUDIO_LOADS,
)
