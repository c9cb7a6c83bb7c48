"""Requests that are odd as HTTP, not as JSON. Each gets an HTTP answer, in plain JSON where no path is known yet."""

from __future__ import annotations

import asyncio
import time

import orjson
import pytest

from tests.plumbing.rig import ALL, CALLS, STREAMS, Call, Rig, call_id, error_message, is_error
from tests.support.clients import RawClient, Response, fetch, post, request_bytes
from tests.support.http1 import chunk_bytes, head_bytes
from tests.support.replies import Reply
from tests.support.steps import full, ordinary

STALL = 1.0
RIG = {"config": {"limits": {"client_stall": f"{STALL:g}s", "body": "1MiB"}}}

CHAT = CALLS["openai_chat"]
each_call = pytest.mark.parametrize("call", STREAMS, ids=call_id)


def plain_error(response: Response) -> str:
    assert response.complete
    assert response.header("Content-Type").startswith("application/json")
    return error_message("", response.json()) or ""


async def still_serves(rig: Rig) -> None:
    rig.llama.once(CHAT.path, ordinary())
    assert (await rig.ask(CHAT)).status == 200


# what is no HTTP, or too much of it

BROKEN: dict[str, bytes] = {
    "a header of 64 KiB": request_bytes("GET", "/v1/models", b"", ("X-Big", "x" * (64 << 10))),
    "a header of 4 MiB": request_bytes("GET", "/v1/models", b"", ("X-Big", "x" * (4 << 20))),
    "a header's name of 64 KiB": request_bytes("GET", "/v1/models", b"", ("x" * (64 << 10), "1")),
    "a path of 64 KiB": request_bytes("GET", "/" + "x" * (64 << 10)),
    "a query of 64 KiB": request_bytes("GET", "/v1/models?" + "x" * (64 << 10)),
    "100,000 headers": request_bytes("GET", "/v1/models", b"", *((f"X-{n}", "1") for n in range(100_000))),
    "no HTTP": b"hello\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200) + b"\r\n\r\n",
    "another version": b"GET / HTTP/7.3\r\nHost: localhost\r\n\r\n",
    "a space in the target": b"GET /v1/mo dels HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\nHost: localhost\r\n: value\r\n\r\n",
    "a null byte in a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Odd: a\0b\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a negative length": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a length in words": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
    "a length with a sign": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\n{}",
    "a length beyond all numbers": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n{}",
    "length and chunks": head_bytes(
        "POST / HTTP/1.1", [("Host", "localhost"), ("Content-Length", "2"), ("Transfer-Encoding", "chunked")]
    )
    + chunk_bytes(b""),
    "an unknown transfer encoding": head_bytes("POST / HTTP/1.1", [("Host", "localhost"), ("Transfer-Encoding", "zip")]),
    "a tunnel": b"CONNECT models.example:443 HTTP/1.1\r\nHost: models.example:443\r\n\r\n",
    "a tunnel to this machine": b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n",
    "a method of odd characters": b"GE(T / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("request_", BROKEN.values(), ids=BROKEN)
async def test_broken(rig: Rig, request_: bytes) -> None:
    before = passed_on(rig)
    well_formed = request_.startswith(b"CONNECT localhost")  # so that it is passed on, and refused by the server
    async with rig.expects("client_error" if well_formed else "refused"):
        response = await rig.send(request_, method="GET")
    assert 400 <= response.status < 500, (response.status, response.body)
    assert (response.header("Server"), bool(response.header("X-Request-Id"))) == ("warmgate", True)
    assert plain_error(response)
    assert passed_on(rig) == before + well_formed
    await still_serves(rig)


def passed_on(rig: Rig) -> int:
    """Clients' requests that have come to a server; the gateway's own have no such header."""
    requests = [request for upstream in rig.upstreams.values() for request in upstream.requests]
    return sum(bool(request.header("X-Warmgate-Hops")) for request in requests)


@pytest.mark.parametrize("name", ["a header of 64 KiB", "a header's name of 64 KiB", "a path of 64 KiB"])
async def test_what_is_too_large_is_called_so(rig: Rig, name: str) -> None:
    response = await rig.send(BROKEN[name], method="GET")
    assert response.status == 431
    assert b"xxxx" not in response.body
    record = await rig.record(response.header("X-Request-Id"))
    assert (record["outcome"], record["error"]) == ("refused", "headers_too_large")


BAD_CHUNKS: dict[str, bytes] = {
    "a size in words": b"many\r\n{}\r\n0\r\n\r\n",
    "a negative size": b"-2\r\n{}\r\n0\r\n\r\n",
    "no line end": b"2\r\n{}0\r\n\r\n",
    "a size that is too small": b"1\r\n{}\r\n0\r\n\r\n",
    "a huge size": b"fffffffffffffffffff\r\n{}\r\n",
    "an endless size": b"0" * 100_000,
}


@pytest.mark.parametrize("chunks", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/embeddings", "/unknown"])
async def test_bad_chunks(rig: Rig, path: str, chunks: bytes) -> None:
    """At once with the head, and after it has been seen."""
    head = head_bytes(f"POST {path} HTTP/1.1", [("Host", "localhost"), ("Transfer-Encoding", "chunked")])
    expected = (408,) if chunks.startswith(b"000") else (400,)  # a size may have leading zeros
    response = await rig.send(head + chunks)
    assert (response.status in expected, response.complete) == (True, True), response.body
    assert error_message(path, response.json()) or error_message("", response.json())
    async with rig.client() as client:
        await client.send(head + b"1\r\n{\r\n")
        await asyncio.sleep(0.05)
        await client.send(chunks)
        response = await client.response()
        await response.read()
    assert (response.status in expected, response.complete) == (True, True), response.body
    assert error_message(path, response.json()), response.body


# slow


@each_call
async def test_a_slow_body(rig: Rig, call: Call) -> None:
    """A byte every now and then does not keep a place for ever."""
    began = time.monotonic()
    async with rig.expects("refused"), rig.client() as client:
        await client.send(call.raw()[:-30])
        dripping = asyncio.create_task(client.send_slowly(call.raw()[-30:], interval=0.3))
        async with asyncio.timeout(10):
            response = await client.response()
            await response.read()
        dripping.cancel()
    assert response.status == 408
    assert is_error(call, response.body)
    assert b"did not arrive in time" in response.body, "what was left of the time for the last byte says nothing"
    assert time.monotonic() - began >= STALL * 0.9


@pytest.mark.parametrize("path", ["/v1/embeddings", "/unknown", "/api/show"])
async def test_a_body_that_stops(rig: Rig, path: str) -> None:
    head = head_bytes(f"POST {path} HTTP/1.1", [("Host", "localhost"), ("Content-Length", "100")])
    async with rig.expects("refused"):
        response = await rig.send(head + b"{")
    assert response.status == 408
    assert error_message(path, response.json())


# odd but right


@pytest.mark.parametrize("call", ALL, ids=call_id)
@pytest.mark.parametrize("host", ["", "Host: localhost\r\n"])
async def test_http_1_0(rig: Rig, call: Call, host: str) -> None:
    """No chunks for a client that does not know them: the end of the connection ends the answer."""
    rig.upstream(call).once(call.path, *call.answer())
    body = orjson.dumps(call.body)
    request = f"POST {call.path} HTTP/1.0\r\n{host}Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with rig.expects("ok"):
        response = await rig.send(request)
    assert (response.status, response.body) == (200, call.whole())
    assert not response.header("Transfer-Encoding")
    assert response.closed == "eof" or response.complete


async def test_http_1_0_errors(rig: Rig) -> None:
    response = await rig.send(b"POST /v1/messages HTTP/1.0\r\nContent-Length: 2\r\n\r\n[]")
    assert (response.status, is_error(CALLS["anthropic"], response.body)) == (400, True)
    response = await rig.send(b"GET /v1/nothing HTTP/1.0\r\n\r\n", method="GET")
    assert response.status == 404


@pytest.mark.parametrize("count", [2, 10, 100])
@pytest.mark.parametrize("streaming", [False, True])
async def test_pipelining(rig: Rig, count: int, streaming: bool) -> None:
    """Answers come in the order of the requests, whatever came in between."""
    rig.llama.on("/v1/chat/completions", ordinary(Reply(text="a chat")))
    rig.llama.on("/v1/messages", ordinary(Reply(text="a message")))
    chat, message = CHAT.raw(stream=streaming), CALLS["anthropic"].raw(stream=streaming)
    bad, get = post("/v1/messages", []), request_bytes("GET", "/v1/models/none")
    kinds = [(chat, 200, b"chat"), (get, 404, b"error"), (message, 200, b"message"), (bad, 400, b"JSON object")]
    wanted = [kinds[n % len(kinds)] for n in range(count)]
    async with asyncio.timeout(20), rig.client() as client:
        await client.send(b"".join(request for request, _, _ in wanted))
        for _, status, words in wanted:
            response = await client.response()
            await response.read()
            assert (response.status, response.complete, words in response.body) == (status, True, True)


async def test_a_request_that_comes_byte_by_byte(rig: Rig) -> None:
    rig.llama.once(CHAT.path, ordinary())
    async with rig.expects("ok"), rig.client() as client:
        await client.send_slowly(CHAT.raw(), interval=0.001)
        response = await client.response()
        await response.read()
    assert response.status == 200


@pytest.mark.parametrize("target", ["http://localhost/v1/chat/completions", "http://localhost:8484/v1/chat/completions?a=b"])
async def test_absolute_form(rig: Rig, target: str) -> None:
    """As clients send it that take the gateway for their HTTP proxy."""
    rig.llama.once(CHAT.path, ordinary())
    async with rig.expects("ok"):
        response = await rig.send(post(target, CHAT.body))
    assert response.status == 200
    request = await rig.last(CHAT.path)
    assert request.target == CHAT.path + ("?a=b" if "?" in target else "")


async def test_options_of_the_server(rig: Rig) -> None:
    response = await rig.send(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", method="OPTIONS")
    assert (response.status, response.complete) == (400, True)
    await still_serves(rig)


@pytest.mark.parametrize("method", ["PROPFIND", "TRACE", "PATCH", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat", "/unknown"])
async def test_other_methods_are_the_servers_to_judge(rig: Rig, method: str, path: str) -> None:
    response = await rig.send(request_bytes(method, path, b"{}"))
    assert (response.status, response.complete) == (404, True)
    assert any(request.method == method for request in (*rig.llama.asked(path), *rig.ollama.asked(path)))


@pytest.mark.parametrize("method", ["BREW", "X-Y", "get"])
async def test_methods_that_nobody_knows(rig: Rig, method: str) -> None:
    response = await rig.send(request_bytes(method, "/v1/models"), method="GET")
    assert response.status == 400
    assert plain_error(response)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/health", "/unknown", "/api/chat"])
async def test_head(rig: Rig, path: str) -> None:
    """The headers of the GET, no body, and a connection that still works."""
    async with asyncio.timeout(10), rig.client() as client:
        await client.send(request_bytes("HEAD", path) + request_bytes("GET", path))
        head = await client.response(method="HEAD")
        get = await client.response(method="GET")
        await get.read()
    assert (head.status, head.body) == (get.status, b"")
    assert head.header("Content-Type") == get.header("Content-Type")
    own = path == "/v1/models"  # a list that the gateway makes itself
    assert head.header("Content-Length") in (str(len(get.body)), *(() if own else ("",)))


async def test_a_get_with_a_body(rig: Rig) -> None:
    rig.llama.once("GET /unknown", *full(b'{"got": true}'))
    response = await rig.send(request_bytes("GET", "/unknown", b'{"a": 1}'), method="GET")
    assert response.json() == {"got": True}
    assert (await rig.last("/unknown")).body == b'{"a": 1}'


@pytest.mark.parametrize(
    "path",
    ["/a%20b/%E2%82%AC", "/a%2Fb", "/%ff", "//double", "/a/../b", "/a;x=1", "/a?b=%20+c&d", "/a?b#c", "/%", "/a|b"],
)
async def test_odd_paths_are_kept(rig: Rig, path: str) -> None:
    response = await rig.send(request_bytes("GET", path), method="GET")
    assert response.status == 404
    assert path.partition("#")[0] in [request.target for request in rig.llama.requests]


ODD_BYTES = {
    "in the path": b"GET /\xff\xfe/\xe9 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: in-path\r\n\r\n",
    "in the query": b"GET /a?\xff\xe9 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: in-query\r\n\r\n",
    "in a header": b"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Odd: \xff\xe9\r\nX-Request-Id: in-header\r\n\r\n",
    "in the agent": b"GET /a HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \xff\xe9\r\nX-Request-Id: in-agent\r\n\r\n",
    "in the key": b"GET /a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\r\nX-Request-Id: in-key\r\n\r\n",
    "in the origin": b"GET /a HTTP/1.1\r\nHost: localhost\r\nOrigin: \xff\r\nX-Request-Id: in-origin\r\n\r\n",
    "in the host": b"GET /a HTTP/1.1\r\nHost: \xff\r\nX-Request-Id: in-host\r\n\r\n",
    "in the id": b"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: \xff\r\n\r\n",
}


@pytest.mark.parametrize("request_", ODD_BYTES.values(), ids=ODD_BYTES)
async def test_bytes_that_are_no_utf8(rig: Rig, request_: bytes) -> None:
    response = await rig.send(request_, method="GET")
    assert response.status in (400, 403, 404), response.body
    assert (await fetch(f"{rig.gateway.admin}/status")).status == 200
    assert (await fetch(f"{rig.gateway.admin}/metrics")).status == 200


async def test_header_bytes_that_are_not_ascii(rig: Rig) -> None:
    """UTF-8 as it is; what is none is left out, and harms nothing."""
    name = "café".encode().decode("latin-1")
    rig.llama.once("GET /a", *full(b"{}", 200, ("X-Name", name), ("X-Odd", "a\xffb")))
    odd = f"GET /a HTTP/1.1\r\nHost: localhost\r\nX-Name: {name}\r\nX-Odd: a\xffb\r\n\r\n"
    response = await rig.send(odd.encode("latin-1"), method="GET")
    assert (response.status, response.header("X-Name"), response.header("X-Odd")) == (200, name, "ab")
    request = await rig.last("/a")
    assert (request.header("X-Name"), request.header("X-Odd")) == (name, "ab")


async def test_a_connection_goes_on_after_an_error(rig: Rig) -> None:
    rig.llama.on(CHAT.path, ordinary())
    async with rig.client() as client:
        for _ in range(3):
            await client.send(post("/v1/messages", {"messages": [None]}))
            assert (await (await client.response()).read()).startswith(b'{"type":"error"')
            await client.send(CHAT.raw())
            response = await client.response()
            assert b"[DONE]" in await response.read()


async def test_the_admin_port_answers_bad_input_too(rig: Rig) -> None:
    for request in (request_bytes("POST", "/-/reload", b"["), request_bytes("BREW", "/status"), request_bytes("GET", "/%ff")):
        async with asyncio.timeout(10), RawClient(rig.gateway.admin) as client:
            await client.send(request)
            response = await client.response()
            await response.read()
        assert response.complete
        assert response.status in (200, 400, 404, 405)
