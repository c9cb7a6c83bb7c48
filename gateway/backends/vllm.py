"""vLLM. Source of facts: its docs (serving, sleep mode, security) and vllm/entrypoints. One model and its adapters a process.

`/version`, `/health` and `/v1/models` do not touch the model. `/is_sleeping` exists in development mode only and wakes nothing.
An API key guards `/v1` only. A server that loads does not listen yet.
"""

from __future__ import annotations

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.backends.openai import context_of, list_problem
from gateway.values import ModelInfo, Probe

KIND = "vllm"


def tells_version(answer: Answer) -> bool:
    """Whether this is vLLM's `/version`, which other kinds do not have."""
    return answer.ok and isinstance(answer.field("version"), str)


async def probe(control: Control) -> Probe:
    health = await control.get("/health")
    if not health.ok:
        return Probe(KIND, up=False, problem=f"/health answers {health.status}: its engine does not work")
    listed = await control.get("/v1/models")
    if problem := list_problem("/v1/models", listed):
        return Probe(KIND, up=False, problem=problem)
    version = await control.get("/version")
    sleeping = (await control.get("/is_sleeping")).field("is_sleeping") is True
    models = tuple(
        ModelInfo(row["id"], context=context_of(row), resident=not sleeping, rows={"/v1/models": row})
        for row in listed.rows("data")
        if isinstance(row.get("id"), str)
    )
    return Probe(
        KIND, up=True, version=version.field("version") if tells_version(version) else None, models=models, sleeping=sleeping
    )


VLLM = Kind(
    name=KIND,
    serves=frozenset(
        {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}
    ),
    probe=probe,
    lists={"/v1/models": "id"},
    probes=frozenset({"/version"}),
    owns=("/tokenize", "/detokenize", "/is_sleeping", "/wake_up", "/sleep", "/reset_prefix_cache", "/version"),
    destructive=(
        "POST /collective_rpc", "POST /pause", "POST /update_weights", "POST /scale_elastic_ep", "POST /v1/unload_lora_adapter",
    ),
    blind_zero=frozenset({"/v1/responses", "/v1/messages"}),  # the counts need a flag, the fields are there without it
    shares=True,  # whole blocks, as soon as they are computed
)  # fmt: skip
