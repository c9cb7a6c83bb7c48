"""Bodies that no server can make sense of get an answer in the caller's API, and what some parser reads passes untouched."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import orjson
import pytest

from tests.plumbing.rig import CALLS, Call, Rig, as_sent, error_message, is_error
from tests.support.clients import Response, fetch, request_bytes
from tests.support.http1 import chunk_bytes, head_bytes
from tests.support.replies import Reply
from tests.support.steps import full, ordinary

LIMIT = 256 << 10
RIG = {
    "config": {"limits": {"body": f"{LIMIT >> 10}KiB", "client_stall": "30s"}, "models": {"nick": {"targets": ["llama/tiny"]}}}
}

DIALECTS = [call for name, call in CALLS.items() if name != "plain_openai"]
each_call = pytest.mark.parametrize("call", DIALECTS, ids=lambda call: call.name)

NO_JSON: dict[str, bytes] = {
    "empty": b"",
    "space": b" \n ",
    "cut": b'{"model": "tiny", "messages": [',
    "word": b'{"model": tru}',
    "two": b'{"model": "tiny"}{}',
    "single quotes": b"{'model': 'tiny'}",
    "control character": b'{"model": "a\nb"}',
    "null byte": b"\0",
    "invalid UTF-8": b'{"model": "tiny\xff", "messages": []}',
    "cut UTF-8": b'{"model": "tiny\xe2\x82", "messages": []}',
    "binary": bytes(range(256)),
    "html": b"<html></html>",
    "deep list": b'{"model": "tiny", "messages": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "deep object": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "deep and never closed": b"[" * 20_000,
}
NO_OBJECT: dict[str, bytes] = {"array": b"[1, 2]", "null": b"null", "text": b'"hi"', "number": b"42", "true": b"true"}

WRONG_TYPES: dict[str, list[Any]] = {
    "model": [7, True, ["tiny"], {"name": "tiny"}],
    "stream": ["yes", 1, [], {}],
    "stream_options": ["include_usage", 1, []],
    "messages": ["hi", 7, True, {"role": "user"}, [None], ["hi"], [7], [[]], [{"role": 7}], [{"role": []}]],
    "tools": ["search", 7, {"name": "search"}],
    "temperature": ["hot", [], {}, True],
    "top_p": ["high", []],
    "top_k": ["few", {}],
    "max_tokens": ["many", [8], {}],
    "seed": ["x", []],
    "stop": [7, {}],
    "options": ["num_ctx", [], 7],
    "metadata": ["x", []],
}

FOR_THE_SERVER: dict[str, list[Any]] = {
    "messages": [[], [{}], [{"role": "user"}], [{"role": "user", "content": [None, 7, {"type": 7}, {"text": 7}]}]],
    "tools": [[None], [7], [{}], [{"function": 7}], [{"function": {"parameters": 7, "name": []}}], [{"input_schema": []}]],
    "system": [7, [None], [7], [{"type": "text", "text": 7}], {}],
    "input": [7, [None], [{"role": 7}], {}, [{"content": 7}]],
    "prompt": [7, None, {}, [None], [[1, 2], "x"]],
    "instructions": [7, [None]],
    "thinking": [7, []],
    "response_format": [7, []],
    "keep_alive": [[], {}],
    "stream": [None],
}
"""Odd, but the server's to judge."""

ONLY_PYTHON_READS: dict[str, bytes] = {
    "BOM": b'\xef\xbb\xbf{"model": "tiny", "messages": [], "prompt": "hi"}',
    "NaN": b'{"model": "tiny", "temperature": NaN,  "prompt": "hi"}',
    "infinity": b'{"model": "tiny", "x": [Infinity, -Infinity, 1e999], "prompt": "hi"}',
    "lone surrogate": b'{"model": "tiny", "prompt": "a \\ud800 b", "messages": [{"role": "user", "content": "\\udfff"}]}',
    "lone surrogate in a key": b'{"\\ud83d": 1, "model": "tiny", "prompt": "hi"}',
    "UTF-16": '{"model": "tiny", "prompt": "hi"}'.encode("utf-16"),
    "odd numbers": b'{"model":"tiny", "prompt":"hi", "a":1.10, "b":123456789012345678901234567890, "c":-0.0, "d":1E+2}',
    "twice": b'{"model":"tiny", "model":"tiny", "prompt":"hi"  ,"prompt":"ho" }',
    "white space": b' \r\n\t{ "model"\t:\n"tiny" ,"prompt":"hi" } \n',
}


def refused(call: Call, response: Response, status: int, code: str) -> None:
    assert (response.status, response.complete) == (status, True), response.body
    assert is_error(call, response.body), response.body
    assert code in response.body.decode()


def to(call: Call, body: bytes, *headers: tuple[str, str]) -> bytes:
    length = () if body else (("Content-Length", "0"),)
    return request_bytes("POST", call.path, body, ("Content-Type", "application/json"), *length, *headers)


@each_call
async def test_no_json(rig: Rig, call: Call) -> None:
    async with rig.expects(*["refused"] * len(NO_JSON)):
        for body in NO_JSON.values():
            refused(call, await rig.send(to(call, body)), 400, "invalid_json")
    async with rig.expects(*["refused"] * len(NO_OBJECT)):
        for body in NO_OBJECT.values():
            refused(call, await rig.send(to(call, body)), 400, "invalid_body")
    assert not rig.upstream(call).asked(call.path)


@each_call
async def test_wrong_types(rig: Rig, call: Call) -> None:
    wrong = [(field, value) for field, values in WRONG_TYPES.items() for value in values]
    async with rig.expects(*["refused"] * len(wrong)):
        for field, value in wrong:
            response = await rig.send(to(call, orjson.dumps(call.body | {field: value})))
            refused(call, response, 400, "bad_request")
            assert field in (error_message(call.path, response.json()) or ""), (field, value)


@each_call
async def test_odd_types_are_the_servers_to_judge(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, *full(b'{"ok": true}'))
    for field, values in FOR_THE_SERVER.items():
        for value in values:
            body = orjson.dumps(call.body | {field: value})
            assert (await rig.send(to(call, body, ("X-Warmgate-Mode", "off")))).status == 200, (field, value)
            assert (await rig.last(call.path, call.backend)).body == as_sent(call.path, body)
            assert (await rig.send(to(call, body))).status == 200, (field, value)
            assert (await rig.last(call.path, call.backend)).json() == orjson.loads(as_sent(call.path, body))


@pytest.mark.parametrize("body", ONLY_PYTHON_READS.values(), ids=ONLY_PYTHON_READS)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/completion"])
async def test_what_only_some_parsers_read_passes_byte_for_byte(rig: Rig, path: str, body: bytes) -> None:
    rig.llama.once(path, *full(b'{"ok": true}'))
    async with rig.expects("ok"):
        response = await rig.send(request_bytes("POST", path, body, ("Content-Type", "application/json")))
    assert response.status == 200
    assert (await rig.last(path)).body == as_sent(path, body)


@pytest.mark.parametrize("name", [b"nick", b"n\\u0069ck"])
async def test_an_alias_is_replaced_in_what_only_python_reads(rig: Rig, name: bytes) -> None:
    body = b'\xef\xbb\xbf {"stream":false,"x" : NaN, "model" :"%b", "prompt":"\\ud800"}'
    rig.llama.once("/v1/completions", *full(b"{}"))
    assert (await rig.send(request_bytes("POST", "/v1/completions", body % name))).status == 200
    assert (await rig.last("/v1/completions")).body == body % b"tiny"


@pytest.mark.parametrize("call", [CALLS["openai_chat"], CALLS["ollama_chat"]], ids=lambda call: call.name)
async def test_a_model_name_without_utf8_hurts_nobody(rig: Rig, call: Call) -> None:
    """It is shown on the status page and in the log."""
    rig.upstream(call).once(call.path, *full(b"{}"))
    name = b"a\\ud800\\u0000\\u202e"
    body = orjson.dumps(call.body).replace(call.model.encode(), name, 1)
    response = await rig.send(to(call, body, ("X-Request-Id", f"odd-{call.name}")))
    assert response.status == (404 if call.backend == "ollama" else 200)
    assert (await rig.record(f"odd-{call.name}"))["status"] == response.status


# size


@each_call
async def test_above_the_limit(rig: Rig, call: Call) -> None:
    big = orjson.dumps(call.body | {"pad": "x" * LIMIT})
    chunked = head_bytes(f"POST {call.path} HTTP/1.1", [("Host", "localhost"), ("Transfer-Encoding", "chunked")])
    for request in (to(call, big), chunked + chunk_bytes(big) + chunk_bytes(b""), to(call, b"x" * (20 * LIMIT))):
        async with rig.expects("refused"):
            refused(call, await rig.send(request), 413, "request_too_large")
    async with rig.expects("refused"):  # a body of which only the length has been told
        head = [("Host", "localhost"), ("Content-Length", str(1 << 40)), ("Expect", "100-continue")]
        refused(call, await rig.send(head_bytes(f"POST {call.path} HTTP/1.1", head)), 413, "request_too_large")
    assert not rig.upstream(call).asked(call.path + "?")


@each_call
async def test_just_below_the_limit(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    body = orjson.dumps(call.body | {"pad": "x" * (LIMIT - len(orjson.dumps(call.body | {"pad": ""})))})
    assert len(body) == LIMIT
    assert (await rig.send(to(call, body))).status == 200
    assert (await rig.last(call.path, call.backend)).body == as_sent(call.path, body)


@each_call
async def test_chunked(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    body = orjson.dumps(call.body)
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    head = head_bytes(f"POST {call.path} HTTP/1.1", [("Host", "localhost"), ("Transfer-Encoding", "chunked")])
    async with rig.expects("ok"):
        response = await rig.send(head + b"".join(map(chunk_bytes, pieces)) + chunk_bytes(b""))
    assert response.body == call.whole(Reply(usage=call.shape.tells_usage(call.body)))
    request = await rig.last(call.path, call.backend)
    assert (request.body, request.header("Content-Length")) == (as_sent(call.path, body), str(len(request.body)))
    assert not request.header("Transfer-Encoding")


@each_call
async def test_expect_is_answered_here(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    body = orjson.dumps(call.body)
    head = [("Host", "localhost"), ("Content-Length", str(len(body)))]
    async with rig.expects("ok"), rig.client() as client:
        await client.send(head_bytes(f"POST {call.path} HTTP/1.1", [*head, ("Expect", "100-Continue")]))
        while b"\r\n\r\n" not in client.buffer:
            assert await client.fill()
        assert bytes(client.buffer) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        response = await client.response()
        assert (response.status, await response.read()) == (200, call.whole(Reply(usage=call.shape.tells_usage(call.body))))
    assert not (await rig.last(call.path, call.backend)).header("Expect")
    async with rig.expects("refused"):
        response = await rig.send(head_bytes(f"POST {call.path} HTTP/1.1", [*head, ("Expect", "a miracle")]) + body)
    refused(call, response, 417, "expectation_failed")


# compressed bodies

CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": lambda data: zlib.compress(data)[2:-4],  # as some clients understand the word
}


@each_call
@pytest.mark.parametrize("coding", CODINGS)
async def test_compressed(rig: Rig, call: Call, coding: str) -> None:
    """A server need not know the coding, and the gateway has to read the body."""
    rig.upstream(call).on(call.path, ordinary())
    body = orjson.dumps(call.body)
    async with rig.expects("ok"):
        response = await rig.send(to(call, CODINGS[coding](body), ("Content-Encoding", coding)))
    assert response.status == 200
    request = await rig.last(call.path, call.backend)
    assert (request.body, request.header("Content-Encoding")) == (as_sent(call.path, body), "")


@each_call
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_badly_compressed(rig: Rig, call: Call, coding: str) -> None:
    packed = CODINGS[coding](orjson.dumps(call.body | {"pad": list(range(500))}))
    bad = {
        "plain": orjson.dumps(call.body),
        "cut": packed[:-20],
        "spoilt": packed[:30] + b"\xff\xff\xff" + packed[33:],
        "": b"x",
    }
    for body in bad.values():
        async with rig.expects("refused"):
            refused(call, await rig.send(to(call, body, ("Content-Encoding", coding))), 400, "invalid_encoding")
    bomb = CODINGS[coding](b" " * (200 * LIMIT))
    assert len(bomb) < LIMIT
    async with rig.expects("refused"):
        refused(call, await rig.send(to(call, bomb, ("Content-Encoding", coding))), 413, "request_too_large")


@each_call
async def test_a_gzip_body_of_several_members(rig: Rig, call: Call) -> None:
    rig.upstream(call).on(call.path, ordinary())
    body = orjson.dumps(call.body)
    packed = gzip.compress(body[:9]) + gzip.compress(body[9:])
    assert (await rig.send(to(call, packed, ("Content-Encoding", "gzip")))).status == 200
    assert (await rig.last(call.path, call.backend)).body == as_sent(call.path, body)


async def test_a_coding_that_only_the_server_may_know(rig: Rig) -> None:
    rig.llama.once("/v1/messages", *full(b"{}"))
    response = await rig.send(request_bytes("POST", "/v1/messages", b"\x1b\x03\0", ("Content-Encoding", "br")))
    assert response.status == 200
    request = await rig.last("/v1/messages")
    assert (request.body, request.header("Content-Encoding")) == (b"\x1b\x03\0", "br")


async def test_the_status_page_still_works(rig: Rig) -> None:
    assert (await fetch(f"{rig.gateway.admin}/status")).status == 200
