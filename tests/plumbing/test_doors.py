"""Who may come in: keys, hosts, pages of other origins, several listeners."""

from __future__ import annotations

import pytest

from tests.plumbing.rig import ALL, CALLS, Call, Rig, call_id, error_message
from tests.support.clients import Response, fetch, request_bytes
from tests.support.process import free_port
from tests.support.steps import full, ordinary

KEY = "open-sesame"
PORTS = [free_port(), free_port()]
LISTEN = [
    {"address": f"127.0.0.1:{PORTS[0]}", "identity": "llamacpp"},
    {"address": f"127.0.0.1:{PORTS[1]}", "identity": "ollama"},
]
RIG = {
    "url": f"http://127.0.0.1:{PORTS[0]}",
    "config": {
        "listen": LISTEN,
        "api_keys": [KEY, "another"],
        "cors_origins": ["chrome-extension://abcdefghijklmnop", "https://*.chat.example"],
        "hosts": ["box.lan"],
        "passthrough": "all",
    },
}
EXTENSION = "chrome-extension://abcdefghijklmnop"
WITH_KEY = ("Authorization", f"Bearer {KEY}")
each_call = pytest.mark.parametrize("call", ALL, ids=call_id)


@each_call
async def test_a_key_is_needed(rig: Rig, call: Call) -> None:
    wrong = [
        (),
        (("Authorization", "Bearer wrong"),),
        (("X-Api-Key", ""),),
        (("Authorization", KEY),),
        (("X-Api-Key", KEY + "x"),),
    ]
    async with rig.expects(*["refused"] * len(wrong)):
        for headers in wrong:
            response = await rig.ask(call, *headers)
            assert response.status == 401
            assert error_message(call.path, response.json())
    assert not rig.upstream(call).asked(call.path)


@each_call
async def test_a_key_of_the_gateway_is_never_passed_on(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    for headers, left in (
        ([("Authorization", f"Bearer {KEY}")], []),
        ([("X-Api-Key", "another")], []),
        ([("X-Api-Key", KEY), ("Authorization", "Bearer the-server's")], ["Bearer the-server's"]),
        ([("X-Api-Key", "the-server's"), ("Authorization", f"bearer {KEY}")], ["the-server's"]),
        ([("X-Api-Key", KEY), ("Authorization", f"Bearer {KEY}")], []),
    ):
        assert (await rig.ask(call, *headers)).status == 200
        request = await rig.last(call.path, call.backend)
        assert [value for name, value in request.headers if name.lower() in ("authorization", "x-api-key")] == left
        assert KEY not in str(request.headers)
    assert KEY not in rig.gateway.log


async def test_a_key_is_needed_for_everything(rig: Rig) -> None:
    for method, path in (("GET", "/v1/models"), ("GET", "/props"), ("POST", "/v1/embeddings"), ("PUT", "/x"), ("GET", "/ws")):
        upgrade = (("Upgrade", "websocket"), ("Connection", "Upgrade")) if path == "/ws" else ()
        assert (await rig.send(request_bytes(method, path, b"", *upgrade), method=method)).status == 401
    assert (await fetch(f"{rig.gateway.admin}/metrics")).status == 200


# F13, F14: pages


def cors(response: Response) -> list[str]:
    return [value for name, value in response.headers if name.lower() == "access-control-allow-origin"]


@each_call
async def test_a_page_of_an_allowed_origin(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    for origin in (EXTENSION, "https://my.chat.example", "http://localhost:5173", "app://obsidian.md"):
        response = await rig.ask(call, ("Origin", origin), WITH_KEY)
        assert (response.status, cors(response)) == (200, [origin])
        assert "Origin" in response.header("Vary")
        assert not (await rig.last(call.path, call.backend)).header("Origin")
        refused = await rig.ask(call, ("Origin", origin))
        assert (refused.status, cors(refused)) == (401, [origin])  # the page can read why


@each_call
async def test_a_page_of_another_origin(rig: Rig, call: Call) -> None:
    for origin in ("http://evil.example", "null", "chrome-extension://other", "https://chat.example.evil.example", "\xff"):
        async with rig.expects("refused"):
            response = await rig.ask(call, ("Origin", origin), WITH_KEY)
        assert (response.status, cors(response)) == (403, [])
        assert error_message(call.path, response.json())
    assert not rig.upstream(call).asked(call.path)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/api/chat", "/v1/messages", "/unknown"])
async def test_preflight(rig: Rig, path: str) -> None:
    """Without a key, which browsers do not send with it."""
    wanted = (("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization, x-stainless-os"))
    before = {name: len(upstream.requests) for name, upstream in rig.upstreams.items()}
    response = await rig.send(request_bytes("OPTIONS", path, b"", ("Origin", EXTENSION), *wanted), method="OPTIONS")
    assert (response.status, response.body, cors(response)) == (204, b"", [EXTENSION])
    assert "POST" in response.header("Access-Control-Allow-Methods")
    assert response.header("Access-Control-Allow-Headers") == "authorization, x-stainless-os"
    response = await rig.send(request_bytes("OPTIONS", path, b"", ("Origin", "http://evil.example"), *wanted), method="OPTIONS")
    assert (response.status, cors(response)) == (403, [])
    for name, upstream in rig.upstreams.items():
        assert not [request for request in upstream.requests[before[name] :] if request.method == "OPTIONS"]


# hosts


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8484", "[::1]:1", "host.docker.internal", "BOX.lan:99", "localhost."])
async def test_hosts_that_are_served(rig: Rig, host: str) -> None:
    response = await rig.send(request_bytes("GET", "/v1/models", b"", WITH_KEY, host=host), method="GET")
    assert response.status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "a b", "192.168.1.9"])
async def test_hosts_that_are_not(rig: Rig, host: str) -> None:
    """A page whose name was bound to 127.0.0.1 still sends its own name."""
    for path in ("/v1/models", "/v1/messages", "/api/chat"):
        response = await rig.send(request_bytes("GET", path, b"", WITH_KEY, host=host), method="GET")
        assert response.status == 403
        assert error_message(path, response.json())
    assert (await fetch(f"{rig.gateway.admin}/status", None)).status == 200


# listeners


async def test_each_listener_looks_like_one_server(rig: Rig) -> None:
    paths = {"llamacpp": ["/props", "/slots", "/v1/props"], "ollama": ["/api/tags", "/api/version", "/api/ps"]}
    for port, identity in zip(PORTS, paths, strict=True):
        for kind, own in paths.items():
            for path in own:
                response = await fetch(f"http://127.0.0.1:{port}{path}", None, WITH_KEY)
                assert (response.status == 200) == (kind == identity) or path == "/v1/props", (identity, path)
                if kind != identity:
                    assert response.json()["error"]
        names = [row["id"] for row in (await fetch(f"http://127.0.0.1:{port}/v1/models", None, WITH_KEY)).json()["data"]]
        assert names == ["tiny", "gem", "plain"]


async def test_all_models_are_reached_through_each_listener(rig: Rig) -> None:
    for call in CALLS.values():
        rig.upstream(call).on(call.path, ordinary())
        for port in PORTS:
            response = await fetch(f"http://127.0.0.1:{port}{call.path}", call.body, WITH_KEY)
            assert (response.status, response.header("X-Warmgate-Backend")) == (200, call.backend)


async def test_a_path_without_a_model_goes_to_the_listeners_own_server(rig: Rig) -> None:
    for port, upstream in zip(PORTS, (rig.llama, rig.ollama), strict=True):
        upstream.on("/unknown", *full(b"{}"))
        assert (await fetch(f"http://127.0.0.1:{port}/unknown", None, WITH_KEY)).status == 200
        assert len(upstream.asked("/unknown")) == 1


async def test_destructive_paths_pass_where_all_may_pass(rig: Rig) -> None:
    rig.llama.once("/slots/0", *full(b"{}"))
    response = await rig.send(request_bytes("POST", "/slots/0?action=erase", b"{}", WITH_KEY))
    assert response.status == 200
    assert (await rig.last("/slots/0")).target == "/slots/0?action=erase"
