from __future__ import annotations

import httpx
import pytest

from tests.backends.look import look

MODELS = {
    "object": "list",
    "data": [
        {"id": "qwen", "object": "model", "owned_by": "vllm", "root": "Qwen/Qwen3-8B", "parent": None, "max_model_len": 40960},
        {"id": "adapter", "object": "model", "owned_by": "vllm", "root": "/lora", "parent": "qwen", "max_model_len": None},
    ],
}
ROUTES = {"/health": httpx.Response(200), "/version": {"version": "0.12.0"}, "/v1/models": MODELS}


async def test_a_model_and_its_adapter() -> None:
    seen = await look("vllm", ROUTES)
    assert (seen.up, seen.version, seen.sleeping, seen.single_model) == (True, "0.12.0", False, False)
    assert [(m.name, m.context, m.resident) for m in seen.models] == [("qwen", 40960, True), ("adapter", None, True)]
    assert seen.models[0].rows == {"/v1/models": MODELS["data"][0]}


async def test_asleep_its_model_is_not_resident() -> None:
    seen = await look("vllm", ROUTES | {"/is_sleeping": {"is_sleeping": True}})
    assert (seen.up, seen.sleeping, [m.resident for m in seen.models]) == (True, True, [False, False])


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"/health": httpx.Response(503)}, "engine"),
        ({"/v1/models": httpx.Response(401, json={"error": "Unauthorized"})}, "authorization"),
        ({"/v1/models": {"error": "no"}}, "model list"),
    ],
)
async def test_what_is_wrong_is_said(broken: dict, words: str) -> None:
    seen = await look("vllm", ROUTES | broken)
    assert (seen.up, seen.loading) == (False, False)
    assert words in (seen.problem or "")


async def test_auto_finds_it_with_a_key_too() -> None:
    assert (await look("auto", ROUTES)).kind == "vllm"
    assert (await look("auto", ROUTES | {"/v1/models": httpx.Response(401)})).kind == "vllm"
