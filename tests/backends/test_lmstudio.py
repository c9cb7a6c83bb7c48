from __future__ import annotations

import httpx
import pytest
import respx

from gateway.backends import KINDS
from gateway.backends.control import Control
from tests.backends.look import URL, look

UNKNOWN = httpx.Response(200, json={"error": "Unexpected endpoint or method. (GET /x)"})


def instance(name: str, context: int) -> dict:
    return {"id": name, "config": {"context_length": context}}


V1 = {
    "models": [
        {"key": "a", "max_context_length": 131072, "loaded_instances": [instance("a", 4096), instance("a:2", 8192)]},
        {"key": "b", "max_context_length": 32768, "loaded_instances": []},
        {"key": "c", "max_context_length": 32768, "loaded_instances": [instance("mine", 2048)]},
    ]
}  # fmt: skip
V0 = {
    "object": "list",
    "data": [
        {"id": "a", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096},
        {"id": "b", "state": "not-loaded", "max_context_length": 32768},
    ],
}
OPENAI = {"object": "list", "data": [{"id": name, "object": "model", "x": 1} for name in ("a", "a:2", "b")]}


async def test_models_and_their_instances() -> None:
    seen = await look("lmstudio", {"/api/v1/models": V1, "/v1/models": OPENAI}, otherwise=UNKNOWN)
    assert (seen.up, seen.problem, seen.single_model) == (True, None, False)
    assert [(m.name, m.resident, m.context) for m in seen.models] == [
        ("a", True, 4096),
        ("a:2", True, 8192),
        ("b", False, None),
        ("c", True, 2048),
        ("mine", True, 2048),
    ]
    a, second, *_ = seen.models
    assert a.rows == {"/api/v1/models": V1["models"][0], "/v1/models": OPENAI["data"][0]}
    assert second.rows == {"/v1/models": OPENAI["data"][1]}


async def test_before_0_4_the_older_list_tells() -> None:
    seen = await look("lmstudio", {"/api/v0/models": V0, "/v1/models": OPENAI}, otherwise=UNKNOWN)
    assert [(m.name, m.resident, m.context) for m in seen.models] == [("a", True, 4096), ("b", False, None)]
    assert seen.models[0].rows["/api/v0/models"] == V0["data"][0]


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        ({}, "Unexpected endpoint"),
        ({"/api/v1/models": httpx.Response(401), "/api/v0/models": httpx.Response(401)}, "authorization"),
        ({"/api/v0/models": {"data": [{"id": "a"}]}}, "another server"),
    ],
)
async def test_200_is_not_enough(routes: dict, words: str) -> None:
    seen = await look("lmstudio", routes, otherwise=UNKNOWN)
    assert not seen.up
    assert words in (seen.problem or "")


@pytest.mark.parametrize("odd", ["x", None, [7, {}, {"id": 7}], [{"id": "a", "config": {"context_length": "x"}}]])
async def test_odd_instances_do_no_harm(odd: object) -> None:
    rows = [{"key": 7}, {"key": "a", "loaded_instances": odd}, V1["models"][1]]
    seen = await look("lmstudio", {"/api/v1/models": {"models": rows}}, otherwise=UNKNOWN)
    assert [(m.name, m.context) for m in seen.models] == [("a", None), ("b", None)]


@pytest.mark.parametrize("routes", [{"/api/v1/models": V1}, {"/api/v1/models": {"models": []}}, {"/api/v0/models": V0}])
async def test_auto_finds_it_though_it_answers_200_to_everything(routes: dict) -> None:
    assert (await look("auto", routes | {"/v1/models": OPENAI}, otherwise=UNKNOWN)).kind == "lmstudio"


async def test_it_asks_for_lists_only() -> None:
    with respx.mock(assert_all_called=False) as mock:
        mock.get(f"{URL}/api/v1/models").mock(return_value=httpx.Response(200, json=V1))
        mock.get(f"{URL}/api/v0/models").mock(return_value=httpx.Response(200, json=V0))
        mock.get(f"{URL}/v1/models").mock(return_value=httpx.Response(200, json=OPENAI))
        control = Control(URL)
        await KINDS["lmstudio"].probe(control)
        await control.close()
        asked = [(call.request.method, call.request.url.path) for call in mock.calls]
    assert asked == [("GET", "/api/v1/models"), ("GET", "/v1/models"), ("GET", "/api/v0/models")]
