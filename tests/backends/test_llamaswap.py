from __future__ import annotations

import httpx
import pytest
import respx

from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.server.guard import destructive
from tests.backends.look import URL, look

RUNNING = {
    "running": [
        {"model": "a", "state": "ready", "cmd": "llama-server --api-key secret", "proxy": "http://localhost:5800", "ttl": 60},
        {"model": "b", "state": "starting", "cmd": "x", "proxy": "http://localhost:5801", "ttl": 0},
    ]
}
MODELS = {
    "object": "list",
    "data": [
        {"id": "a", "object": "model", "owned_by": "llama-swap", "meta": {"llamaswap": {"note": 1}}},
        {"id": "b", "object": "model", "owned_by": "llama-swap"},
        {"id": "far", "object": "model", "owned_by": "llama-swap", "meta": {"llamaswap": {"peerID": "other"}}},
    ],
}
ROUTES = {"/running": RUNNING, "/v1/models": MODELS, "/api/version": {"version": "215", "commit": "abc"}}


async def test_models_and_which_of_them_run() -> None:
    seen = await look("llamaswap", ROUTES)
    assert (seen.up, seen.version, seen.single_model, seen.slots) == (True, "215", False, None)
    assert [(m.name, m.resident) for m in seen.models] == [("a", True), ("b", False), ("far", None)]
    assert "secret" not in repr(seen)


async def test_an_older_one_tells_no_version() -> None:
    assert (await look("llamaswap", {"/running": {"running": []}, "/v1/models": MODELS})).version is None


@pytest.mark.parametrize(
    ("routes", "words"),
    [({"/running": httpx.Response(401)}, "authorization"), ({}, "/running answers 404"), ({"/running": RUNNING}, "/v1/models")],
)
async def test_what_is_wrong_is_said(routes: dict, words: str) -> None:
    seen = await look("llamaswap", routes)
    assert not seen.up
    assert words in (seen.problem or "")


async def test_auto_finds_it_before_those_whose_language_it_speaks_too() -> None:
    assert (await look("auto", ROUTES | {"/api/tags": {"models": []}})).kind == "llamaswap"


async def test_no_probe_reaches_the_servers_behind_it() -> None:
    with respx.mock(assert_all_called=False) as mock:
        for path, reply in ROUTES.items():
            mock.get(URL + path).mock(return_value=httpx.Response(200, json=reply))
        control = Control(URL)
        await KINDS["llamaswap"].probe(control)
        await control.close()
        asked = {call.request.url.path for call in mock.calls}
    assert asked == set(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "refused"),
    [
        ("POST", "/api/models/unload/a", True),
        ("POST", "/upstream/a/slots/0", True),
        ("POST", "/upstream/org/model/props", True),
        ("GET", "/upstream/a/props", False),
        ("GET", "/upstream/a/slots", False),
        ("GET", "/running", False),
    ],
)
def test_what_would_take_a_model_away_is_marked(method: str, path: str, refused: bool) -> None:
    assert destructive(method, path, KINDS["llamaswap"].destructive) is refused
