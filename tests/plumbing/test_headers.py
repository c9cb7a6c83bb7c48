"""Headers in both directions, keys that stay here, and names that are replaced in place."""

from __future__ import annotations

import pytest

from tests.plumbing.rig import ALL, CALLS, DOCUMENTS, STREAMS, Call, Rig, as_sent, call_id
from tests.support.clients import Response, fetch, request_bytes
from tests.support.replies import Reply
from tests.support.steps import full, json_reply, ordinary, stream

RIG = {
    "headers": {"X-Fleet": "mine"},
    "config": {
        "models": {
            "nick": {"aliases": ["old-nick", "gpt-*"], "targets": ["llama/tiny"]},
            "jewel": {"aliases": ["gem?"], "targets": ["ollama/gem"]},
            "flat": {"targets": ["plain/plain"]},
        }
    },
}

each_call = pytest.mark.parametrize("call", ALL, ids=call_id)
PASSED_ON = ["/v1/embeddings", "/tokenize", "/unknown"]


def sent(response: Response, name: str) -> list[str]:
    return [value for key, value in response.headers if key.lower() == name.lower()]


@each_call
async def test_headers_to_the_server(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    headers = [
        ("Authorization", "Bearer for-the-server"),
        ("X-Api-Key", "also for the server"),
        ("User-Agent", "someone/1.0"),
        ("Anthropic-Version", "2023-06-01"),
        ("Anthropic-Beta", "a"),
        ("Anthropic-Beta", "b"),
        ("X-Session-Id", "s1"),
        ("Accept", "text/event-stream"),
        ("Accept-Encoding", "gzip, br, zstd"),
        ("Connection", "keep-alive, X-Mine"),
        ("Keep-Alive", "timeout=5"),
        ("X-Mine", "1"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "Basic x"),
        ("Proxy-Connection", "keep-alive"),
        ("Origin", "http://localhost:3000"),
        ("X-Conversation-Id", "c1"),
        ("X-Warmgate-Mode", "off"),
        ("Cookie", "theme=dark; warmgate_token=secret; lang=en"),
    ]
    assert (await rig.ask(call, *headers)).status == 200
    request = await rig.last(call.path, call.backend)
    names = [name.lower() for name, _ in request.headers]
    for name in ("Authorization", "X-Api-Key", "User-Agent", "Anthropic-Version", "X-Session-Id", "Accept"):
        assert request.header(name) == dict(headers)[name]
    assert [value for name, value in request.headers if name.lower() == "anthropic-beta"] == ["a", "b"]
    for name in (
        "x-mine",
        "keep-alive",
        "te",
        "proxy-authorization",
        "proxy-connection",
        "origin",
        "x-warmgate-mode",
        "expect",
    ):
        assert name not in names
    assert ("x-conversation-id" in names) == (call.backend != "llama")
    assert request.header("Accept-Encoding") == "identity"
    assert request.header("Host") == rig.upstream(call).url.removeprefix("http://")
    assert request.header("Cookie") == "theme=dark; lang=en"
    assert request.header("X-Fleet") == "mine"
    assert "x-forwarded-for" not in names
    assert names.count("host") == names.count("content-length") == names.count("content-type") == 1


@pytest.mark.parametrize("path", PASSED_ON)
async def test_headers_of_what_is_passed_through(rig: Rig, path: str) -> None:
    rig.llama.once(path, *full(b"{}"))
    headers = (
        ("X-Conversation-Id", "c1"),
        ("Authorization", "Bearer x"),
        ("Accept-Encoding", "gzip"),
        ("Origin", "http://localhost"),
    )
    await rig.send(request_bytes("POST", path, b'{"model": "tiny"}', ("X-Mine", "1"), ("Connection", "x-mine"), *headers))
    request = await rig.last(path)
    assert (request.header("Authorization"), request.header("Accept-Encoding")) == ("Bearer x", "gzip")
    assert not any(request.header(name) for name in ("X-Mine", "Origin", "X-Conversation-Id"))


async def test_nothing_is_added_for_a_client_that_says_little(rig: Rig) -> None:
    rig.llama.once("/unknown", *full(b"{}"))
    await rig.send(b"GET /unknown HTTP/1.1\r\nHost: localhost\r\n\r\n", method="GET")
    assert {name.lower() for name, _ in (await rig.last("/unknown")).headers} == {"host", "x-fleet", "x-warmgate-hops"}


@each_call
async def test_headers_to_the_client(rig: Rig, call: Call) -> None:
    own = [
        ("Set-Cookie", "a=1; Path=/"),
        ("Set-Cookie", "b=2"),
        ("X-Own", "1"),
        ("Server", "llama.cpp"),
        ("X-Request-Id", "the server's"),
        ("X-Warmgate-Backend", "forged"),
        ("Access-Control-Allow-Origin", "*"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authenticate", "Basic"),
        ("X-Mine", "1"),
        ("Connection", "X-Mine"),
        ("Cache-Control", "max-age=60"),
    ]
    if call.streaming:
        steps = stream(call.events(), *own, content_type=call.shape.content_type)
    else:
        steps = full(call.whole(), 200, *own)
    rig.upstream(call).once(call.path, *steps)
    response = await rig.ask(call, ("X-Request-Id", "mine-1"))
    assert sent(response, "Set-Cookie") == ["a=1; Path=/", "b=2"]
    assert (sent(response, "X-Own"), sent(response, "Server")) == (["1"], ["llama.cpp"])
    assert (sent(response, "X-Request-Id"), sent(response, "X-Warmgate-Backend")) == (["mine-1"], [call.backend])
    assert response.header("X-Warmgate-Route")
    assert not any(
        sent(response, name) for name in ("Access-Control-Allow-Origin", "Keep-Alive", "Proxy-Authenticate", "X-Mine")
    )
    spans = dict(span.split(";dur=") for span in response.header("Server-Timing").split(", "))
    assert {"queue", "upstream", "route"} <= spans.keys()
    assert all(float(milliseconds) >= 0 for milliseconds in spans.values())
    cache = ["no-cache, no-transform"] if call.streaming else ["max-age=60"]
    assert sent(response, "Cache-Control") == cache
    assert sent(response, "X-Accel-Buffering") == (["no"] if call.streaming else [])
    assert sent(response, "Date")


@pytest.mark.parametrize("given", ["", "x" * 129, "a\tb"])
async def test_request_ids_are_made_where_none_is_fit(rig: Rig, given: str) -> None:
    seen = set()
    for _ in range(2):
        response = await rig.send(
            request_bytes("GET", "/unknown", b"", *([("X-Request-Id", given)] if given else [])), method="GET"
        )
        seen.add(response.header("X-Request-Id"))
    assert len(seen) == 2
    assert all(1 <= len(name) <= 64 and name.isalnum() for name in seen)


# names that are replaced


@each_call
async def test_an_alias_is_replaced_and_nothing_else(rig: Rig, call: Call) -> None:
    """By range: numbers, spaces, order and doubled fields stay the client's."""
    aliases = {"llama": ["nick", "old-nick", "gpt-4o-mini"], "ollama": ["jewel", "gems"], "plain": ["flat"]}[call.backend]
    rig.upstream(call).on(call.path, *full(b'{"a": 1}'))
    for alias in aliases:
        fields = b'"messages":[{"role":"user","content":"\\u0068i model"}] , "prompt" : "%b", "input":"x","max_tokens":8'
        body = b' { "n" : 1.10,"model":  "%b" ,"big":123456789012345678901, ' + fields % alias.encode()
        body += b',"stream":%b ,"stream_options":{"include_usage":true},"model" :"%b"}\n'
        flag = b"true" if call.streaming else b"false"
        asked = body % (alias.encode(), flag, alias.encode())
        assert (await rig.send(request_bytes("POST", call.path, asked))).status == 200
        request = await rig.last(call.path, call.backend)
        wanted = body % (call.model.encode(), flag, call.model.encode())
        assert request.body == as_sent(call.path, wanted)
        assert request.header("Content-Length") == str(len(request.body))


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank", "/unknown"])
async def test_an_alias_in_what_is_passed_through(rig: Rig, path: str) -> None:
    rig.llama.once(path, *full(b"{}"))
    await rig.send(request_bytes("POST", path, b'{"input": 1.10, "model" : "old-nick"}'))
    assert (await rig.last(path)).body == b'{"input": 1.10, "model" : "tiny"}'
    rig.ollama.once("/api/embed", *full(b"{}"))
    await rig.send(request_bytes("POST", "/api/embed", b'{"model":"gemx","input":"a"}'))
    assert (await rig.last("/api/embed", "ollama")).body == b'{"model":"gem","input":"a"}'


async def test_a_call_without_aliases_goes_out_as_it_came(rig: Rig) -> None:
    for call in ALL:
        rig.upstream(call).on(call.path, *full(b"{}"))
        body = (
            b'\n{"model" : "%b", "x":[1.0, 1e5 ,"\\u00e9"], "messages":[], "stream":false, "y":{}, "y":{}} '
            % call.model.encode()
        )
        await rig.send(request_bytes("POST", call.path, body))
        assert (await rig.last(call.path, call.backend)).body == as_sent(call.path, body)


@pytest.mark.parametrize("call", [*STREAMS[4:6], STREAMS[7], DOCUMENTS[7]], ids=call_id)
async def test_an_unknown_model_is_told_which_are_known(rig: Rig, call: Call) -> None:
    """Where no server with a single model would have ignored the name."""
    async with rig.expects("refused"):
        response = await rig.ask(CALLS["ollama_chat"] if call.backend == "plain" else call, model="opal")
    assert response.status == 404
    assert "gem" in response.json()["error"]
    assert "jewel" in response.json()["error"]


async def test_a_single_model_server_ignores_names(rig: Rig) -> None:
    rig.llama.on("/v1/messages", ordinary())
    async with rig.expects("ok"):
        assert (await rig.ask(CALLS["anthropic"], model="claude-whatever")).status == 200
    assert (await rig.last("/v1/messages")).json()["model"] == "claude-whatever"


# token counts that a client did not ask for


async def test_counts_are_asked_for_where_a_server_needs_it(rig: Rig) -> None:
    for path in ("/v1/chat/completions", "/v1/completions"):
        rig.plain.on(path, ordinary(Reply(prompt=77)))
        body = b'{"model":"plain", "prompt":"a","messages":[], "stream":true}'
        async with rig.expects("ok") as changes:
            response = await rig.send(request_bytes("POST", path, body))
        asked = await rig.last(path, "plain")
        assert asked.json()["stream_options"] == {"include_usage": True}
        assert asked.body.replace(b'"stream_options":{"include_usage":true},', b"") == body
        assert b"usage" not in response.body
        assert response.body.endswith(b"data: [DONE]\n\n")
        assert changes.by("warmgate_prompt_tokens_total", "backend") == {"plain": 77}


async def test_counts_are_not_asked_for_twice_or_elsewhere(rig: Rig) -> None:
    chat = "/v1/chat/completions"
    rig.plain.on(chat, ordinary(Reply(prompt=77)))
    rig.llama.on(chat, ordinary(Reply(timings=True)))
    rig.ollama.on("/api/chat", ordinary())
    options = b'"stream":true,"stream_options":{"include_usage":true, "other":1}'
    bodies = {
        b'{"model":"plain","messages":[],%b}' % options: ("plain", chat),
        b'{"model":"plain","messages":[],"stream":false}': ("plain", chat),
        b'{"model":"tiny","messages":[],"stream":true}': ("llama", chat),
        b'{"model":"gem","messages":[]}': ("ollama", "/api/chat"),
    }
    for body, (backend, path) in bodies.items():
        response = await rig.send(request_bytes("POST", path, body))
        assert (await rig.last(path, backend)).body == body
        if b"include" in body:
            assert b'"prompt_tokens":77' in response.body


async def test_other_options_of_the_stream_are_kept(rig: Rig) -> None:
    rig.plain.on("/v1/chat/completions", ordinary())
    body = b'{"model":"flat","messages":[],"stream":true,"stream_options": {"include_usage": false, "other": 1} }'
    response = await rig.send(request_bytes("POST", "/v1/chat/completions", body))
    asked = (await rig.last("/v1/chat/completions", "plain")).json()
    assert (asked["model"], asked["stream_options"]) == ("plain", {"include_usage": True, "other": 1})
    assert b"usage" not in response.body


# lists


async def test_lists_are_merged(rig: Rig) -> None:
    rows = (await fetch(f"{rig.gateway.url}/v1/models")).json()["data"]
    assert {"tiny", "gem", "plain", "nick", "old-nick", "jewel", "flat"} == {row["id"] for row in rows}
    by_name = {row["id"]: row for row in rows}
    assert by_name["tiny"]["meta"] == by_name["nick"]["meta"]
    response = await fetch(f"{rig.gateway.url}/v1/models/nick")
    assert (response.status, response.json()["id"]) == (200, "nick")
    assert (await fetch(f"{rig.gateway.url}/v1/models/none")).status == 404


async def test_paths_of_another_identity_are_not_found(rig: Rig) -> None:
    """The listener looks like llama.cpp, its first backend."""
    for path in ("/api/tags", "/api/version", "/api/ps"):
        response = await fetch(f"{rig.gateway.url}{path}")
        assert (response.status, isinstance(response.json()["error"], str)) == (404, True)
    for path in ("/props", "/health", "/slots"):
        assert (await fetch(f"{rig.gateway.url}{path}")).status == 200


@pytest.mark.parametrize(
    "path", ["/api/delete", "/slots/0?action=erase", "/models/unload", "/sleep", "/reset_prefix_cache", "/admin/x"]
)
async def test_destructive_paths_are_refused(rig: Rig, path: str) -> None:
    before = len(rig.llama.requests)
    for method, target in (("POST", path), ("DELETE", path), ("POST", path.replace("e", "%65", 1)), ("POST", "//x/.." + path)):
        response = await rig.send(request_bytes(method, target, b"{}"))
        assert response.status == 403, (method, target)
        assert response.json()["error"]
    assert len(rig.llama.requests) == before


async def test_a_json_reply_of_the_servers_own(rig: Rig) -> None:
    rig.llama.once("/unknown", *json_reply({"error": "mine"}, 418))
    response = await fetch(f"{rig.gateway.url}/unknown")
    assert (response.status, response.json()) == (418, {"error": "mine"})
