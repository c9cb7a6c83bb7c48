"""Each kind's probe, against httpx mocked by respx with what these servers really answer."""

from __future__ import annotations

import httpx
import pytest
import respx

from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.errors import Unreachable
from tests.backends.look import URL, look

LLAMA_PROPS = {
    "default_generation_settings": {"n_ctx": 8192, "params": {}},
    "total_slots": 4,
    "build_info": "b11549-abc",
    "media_marker": "<__media_77__>",
    "is_sleeping": False,
}
LLAMA_MODELS = {"object": "list", "data": [{"id": "qwen", "object": "model", "meta": {"n_ctx_train": 131072}, "x": 1}]}
LOADING = httpx.Response(503, json={"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
TAGS = {
    "models": [{"name": "q:7b", "model": "q:7b", "digest": "d1"}, {"name": "e:latest", "model": "e:latest", "digest": "d2"}]
}
PS = {
    "models": [
        {
            "name": "q:7b", "model": "q:7b", "size": 10, "size_vram": 9, "context_length": 32768,
            "expires_at": "2026-11-30T12:00:00.123456789+01:00",
        }
    ]
}  # fmt: skip


LLAMA = {"/health": {"status": "ok"}, "/props": LLAMA_PROPS, "/v1/models": LLAMA_MODELS}
OLLAMA = {"/api/version": {"version": "0.33.1"}, "/api/tags": TAGS, "/api/ps": PS}


async def test_llamacpp() -> None:
    seen = await look("llamacpp", LLAMA)
    assert (seen.up, seen.single_model, seen.slots, seen.version, seen.mark) == (True, True, 4, "b11549-abc", "<__media_77__>")
    [model] = seen.models
    assert (model.name, model.context, model.resident) == ("qwen", 8192, True), "the slot's context, not the trained one"
    assert model.rows["/v1/models"]["x"] == 1


async def test_llamacpp_asleep_has_no_resident_model() -> None:
    seen = await look("llamacpp", LLAMA | {"/props": LLAMA_PROPS | {"is_sleeping": True}})
    assert (seen.up, seen.sleeping, seen.models[0].resident) == (True, True, False)


async def test_llamacpp_as_router() -> None:
    rows = [{"id": "a", "status": {"value": "loaded"}}, {"id": "b", "status": {"value": "unloaded"}}]
    seen = await look("llamacpp", LLAMA | {"/v1/models": {"data": rows}})
    assert (seen.single_model, seen.slots) == (False, None)
    assert [(m.name, m.resident) for m in seen.models] == [("a", True), ("b", False)]


async def test_llamacpp_loading() -> None:
    seen = await look("llamacpp", {"/health": LOADING, "/props": LOADING, "/v1/models": LOADING})
    assert (seen.up, seen.loading) == (False, True)


async def test_llamacpp_with_a_key_says_what_to_do() -> None:
    refused = httpx.Response(401, json={"error": {"message": "Invalid API Key"}})
    seen = await look("llamacpp", {"/health": {"status": "ok"}, "/props": refused, "/v1/models": refused})
    assert not seen.up
    assert "authorization" in (seen.problem or "")


async def test_no_probe_asks_what_would_wake_a_model() -> None:
    with respx.mock(assert_all_called=False) as mock:
        for path, reply in LLAMA.items():
            mock.get(URL + path).mock(return_value=httpx.Response(200, json=reply))
        control = Control(URL)
        await KINDS["llamacpp"].probe(control)
        await control.close()
        asked = {call.request.url.path for call in mock.calls}
    assert asked == {"/health", "/props", "/v1/models"}


async def test_ollama() -> None:
    shown = {"/api/show": {"parameters": "stop x\nnum_ctx                        16384"}}
    seen = await look("ollama", OLLAMA | shown)
    assert (seen.up, seen.version, seen.single_model, seen.slots) == (True, "0.33.1", False, None)
    running, idle = seen.models
    assert (running.resident, running.context, running.resident_bytes, running.expires) == (True, 32768, 9, 1796036400.123456)
    assert (idle.resident, idle.context) == (False, 16384)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2318-03-01T00:00:00Z", float("inf")), ("2026-11-30T11:00:00Z", 1796036400.0), ("soon", None), (7, None)],
)
async def test_ollamas_expiry(text, seconds) -> None:
    row = PS["models"][0] | {"expires_at": text}
    seen = await look("ollama", OLLAMA | {"/api/ps": {"models": [row]}})
    assert seen.models[0].expires == seconds


async def test_openai_with_any_spelling_of_the_context() -> None:
    rows = [{"id": "a", "max_model_len": 4096}, {"id": "b", "meta": {"n_ctx": 512}}, {"id": "c"}, {"no": "id"}, "x"]
    seen = await look("openai", {"/v1/models": {"data": rows}})
    assert [(m.name, m.context, m.resident) for m in seen.models] == [("a", 4096, None), ("b", 512, None), ("c", None, None)]


@pytest.mark.parametrize("reply", [{"error": "Unexpected endpoint"}, {"data": None}, [], httpx.Response(500, text="<html>")])
async def test_a_200_with_an_error_body_is_not_up(reply) -> None:
    answer = reply if isinstance(reply, httpx.Response) else httpx.Response(200, json=reply)
    seen = await look("openai", {"/v1/models": answer})
    assert not seen.up
    assert seen.problem


@pytest.mark.parametrize(
    ("routes", "kind"),
    [
        (OLLAMA | {"/v1/models": LLAMA_MODELS}, "ollama"),
        (LLAMA, "llamacpp"),
        ({"/api/tags": LLAMA_MODELS | TAGS} | LLAMA, "llamacpp"),
        ({"/v1/models": {"data": []}}, "openai"),
        ({}, "auto"),
        (dict.fromkeys(("/api/tags", "/props", "/health", "/v1/models"), LOADING), "llamacpp"),
    ],
)
async def test_auto_finds_the_kind(routes, kind) -> None:
    assert (await look("auto", routes)).kind == kind


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("All connection attempts failed"), "connection refused"),
        (httpx.ReadTimeout("x"), "no answer in time"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), "tls.ca"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "host name"),
        (httpx.RemoteProtocolError("peer closed"), "peer closed"),
    ],
)
async def test_connection_errors_in_words(error, words) -> None:
    with pytest.raises(Unreachable, match=words):
        await look("openai", {"/v1/models": error})


async def test_an_endless_list_is_cut_off() -> None:
    with pytest.raises(Unreachable, match="more than"):
        await look("openai", {"/v1/models": httpx.Response(200, content=b"x" * (9 << 20))})
