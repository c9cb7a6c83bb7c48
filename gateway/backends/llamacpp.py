"""llama.cpp's llama-server, with one model or as a router.

Source of facts: llama.cpp tools/server README and measurements on b11549. `/health`, `/props` and `/v1/models` neither wake a
sleeping server nor keep it awake; `/slots` and `/tokenize` do, so a probe never asks them.
"""

from __future__ import annotations

from typing import Any

from gateway.backends.base import Kind
from gateway.backends.control import Answer, Control
from gateway.backends.loads import LLAMACPP_LOADS
from gateway.backends.openai import NEEDS_KEY, context_of
from gateway.values import ModelInfo, Probe

KIND = "llamacpp"


def tells_props(answer: Answer) -> bool:
    """Whether this is llama-server's `/props`, or what it answers to every path while it reads its model."""
    still_loading = answer.status == 503 and answer.field("error", "type") == "unavailable_error"
    return isinstance(answer.field("default_generation_settings"), dict) or still_loading


async def probe(control: Control) -> Probe:
    health = await control.get("/health")
    if health.status == 503:
        return Probe(KIND, up=False, loading=True, problem="the model is still loading")
    props = await control.get("/props")
    listed = await control.get("/v1/models")
    if listed.status in (401, 403):
        return Probe(KIND, up=False, problem=NEEDS_KEY)
    if listed.status == 503:
        return Probe(KIND, up=False, loading=True, problem="the model is still loading")
    if not listed.ok:
        return Probe(KIND, up=False, problem=f"/v1/models answers {listed.status}: {listed.text}")
    rows = listed.rows("data")
    router = props.field("role") == "router" or any(isinstance(row.get("status"), dict) for row in rows)
    slots = props.field("total_slots")
    sleeping = props.field("is_sleeping") is True
    return Probe(
        KIND,
        up=True,
        version=_text(props.field("build_info")),
        models=tuple(_model(row, props, router, sleeping) for row in rows if isinstance(row.get("id"), str)),
        single_model=not router,
        slots=slots if isinstance(slots, int) and slots > 0 and not router else None,
        mark=_text(props.field("media_marker")),
        sleeping=sleeping,
    )


def _model(row: dict[str, Any], props: Answer, router: bool, sleeping: bool) -> ModelInfo:
    """Context is what a slot really has (`n_ctx` of the running server), not what the model was trained on."""
    status = row.get("status")
    if router:
        resident = isinstance(status, dict) and status.get("value") == "loaded"
        context = context_of(row)
    else:
        resident = not sleeping
        n_ctx = props.field("default_generation_settings", "n_ctx")
        context = n_ctx if isinstance(n_ctx, int) and n_ctx > 0 else context_of(row)
    return ModelInfo(row["id"], context=context, resident=resident, rows={"/v1/models": row})


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


PINS = frozenset(
    {
        "/v1/chat/completions", "/chat/completions", "/v1/completions", "/completions", "/v1/responses", "/responses",
        "/completion", "/infill",
    }
)  # fmt: skip
"""`/v1/messages` drops the field."""

LLAMACPP = Kind(
    name=KIND,
    serves=frozenset(
        {
            "/v1/chat/completions", "/chat/completions", "/v1/completions", "/completions", "/v1/responses", "/responses",
            "/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions/input_tokens", "/v1/responses/input_tokens",
            "/completion", "/infill",
        }
    ),
    probe=probe,
    lists={"/v1/models": "id", "/models": "id"},
    probes=frozenset({"/props", "/v1/props", "/slots", "/health", "/v1/health"}),
    owns=("/slots", "/props", "/tokenize", "/detokenize", "/apply-template", "/lora-adapters"),
    pins=PINS,
    asks_cache=frozenset({"/completion", "/infill"}),  # `cache_prompt` is true by default only since the end of 2024
    usage_unasked=True,  # `timings` stand on the last chunk without being asked for
    strip=frozenset({"x-conversation-id"}),  # it makes a generation outlive its client
    destructive=(
        "* /slots/*", "POST /props", "POST /models", "DELETE /models", "POST /models/*", "POST /lora-adapters",
    ),
    loads=LLAMACPP_LOADS,
    slot_files=True,
    steps=True,
)  # fmt: skip
