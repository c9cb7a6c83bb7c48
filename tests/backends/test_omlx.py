from __future__ import annotations

import httpx
import pytest

from tests.backends.look import look

HEALTH = {"status": "healthy", "default_model": "a", "engine_pool": {"model_count": 3, "loaded_count": 2}, "mcp": None}
MODELS = {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "omlx"} for name in ("a", "b", "short")]}
STATUS = {
    "models": [
        {"id": "a", "loaded": True, "is_loading": False, "actual_size": 5, "pinned": True, "max_context_window": 32768},
        {"id": "b", "loaded": False, "is_loading": True, "actual_size": 0, "pinned": True, "max_context_window": None},
        {"id": "long-name", "model_alias": "short", "loaded": True, "actual_size": 7, "pinned": False},
    ]
}
ROUTES = {"/health": HEALTH, "/v1/models": MODELS, "/v1/models/status": STATUS}


async def test_models_by_the_names_that_its_list_shows() -> None:
    seen = await look("omlx", ROUTES)
    assert [(m.name, m.resident, m.context, m.resident_bytes, m.expires) for m in seen.models] == [
        ("a", True, 32768, 5, float("inf")),
        ("b", False, None, None, None),
        ("short", True, None, 7, None),
    ]


async def test_without_the_status_residency_is_not_known() -> None:
    rows = {"data": [{"id": "a", "max_model_len": 4096}]}
    seen = await look("omlx", {"/health": HEALTH, "/v1/models": rows})
    assert [(m.name, m.resident, m.context) for m in seen.models] == [("a", None, 4096)]


async def test_pinned_models_that_load() -> None:
    loading = httpx.Response(503, json=HEALTH | {"status": "loading"})
    for kind in ("omlx", "auto"):
        seen = await look(kind, ROUTES | {"/health": loading})
        assert (seen.kind, seen.up, seen.loading) == ("omlx", False, True)


@pytest.mark.parametrize("kind", ["omlx", "auto"])
async def test_its_public_health_names_it_where_the_rest_needs_a_key(kind: str) -> None:
    refused = httpx.Response(401, json={"detail": "API key required"})
    seen = await look(kind, {"/health": HEALTH}, otherwise=refused)
    assert (seen.kind, seen.up) == ("omlx", False)
    assert "authorization" in (seen.problem or "")


async def test_auto_finds_it() -> None:
    assert (await look("auto", ROUTES)).kind == "omlx"
