"""llama-swap: starts and stops model servers, mostly llama-server, by the model that a request names.

Source of facts: its README and internal/server. `/running` and `/v1/models` start nothing. `/upstream/` would, so a probe never
asks the servers behind it; what they are (slots, contexts) stays unknown.
"""

from __future__ import annotations

from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.backends.llamacpp import LLAMACPP
from gateway.backends.loads import LLAMASWAP_LOADS
from gateway.backends.openai import context_of, list_problem
from gateway.values import ModelInfo, Probe

KIND = "llamaswap"


def lists_running(answer: Answer) -> bool:
    """Whether this is llama-swap's `/running`, which other kinds do not have."""
    return answer.ok and isinstance(answer.field("running"), list)


async def probe(control: Control) -> Probe:
    running = await control.get("/running")
    listed = await control.get("/v1/models")
    if problem := list_problem("/running", running, "running") or list_problem("/v1/models", listed):
        return Probe(KIND, up=False, problem=problem)
    version = (await control.get("/api/version")).field("version")
    ready = {row.get("model") for row in running.rows("running") if row.get("state") == "ready"}
    return Probe(
        KIND,
        up=True,
        version=version if isinstance(version, str) else None,
        models=tuple(_model(row, ready) for row in listed.rows("data") if isinstance(row.get("id"), str)),
    )


def _model(row: dict[str, Any], ready: set[Any]) -> ModelInfo:
    """Whether a peer has its model loaded is not told; a model that is being started or stopped is not there."""
    resident = None if _of_a_peer(row) else row["id"] in ready
    return ModelInfo(row["id"], context=context_of(row), resident=resident, rows={"/v1/models": row})


def _of_a_peer(row: dict[str, Any]) -> bool:
    meta = row.get("meta")
    own = meta.get("llamaswap") if isinstance(meta, dict) else None
    return isinstance(own, dict) and "peerID" in own


def _behind(pattern: str) -> str:
    """What must not reach a llama-server must not reach it through `/upstream/` either."""
    method, path = pattern.split(" ")
    return f"{method} /upstream/*{path}"


LLAMASWAP = Kind(
    name=KIND,
    serves=frozenset(
        {
            "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
            "/completion", "/infill",
        }
    ),
    probe=probe,
    lists={"/v1/models": "id"},
    probes=frozenset({"/running", "/api/version"}),
    owns=("/running", "/unload", "/upstream/", "/logs", "/api/models/", "/api/events"),
    strip=LLAMACPP.strip,
    destructive=("* /api/models/unload/*", *map(_behind, LLAMACPP.destructive)),
    loads=LLAMASWAP_LOADS,
)  # fmt: skip
