"""Replies whose Content-Type is absent, or does not say that they are streams."""

from __future__ import annotations

import pytest

from tests.plumbing.rig import STREAMS, Call, Rig, call_id
from tests.support.clients import request_bytes
from tests.support.steps import chunk, fin, full, raw, status

each_stream = pytest.mark.parametrize("call", STREAMS, ids=call_id)


def untyped(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def test_no_type_is_made_up(rig: Rig) -> None:
    rig.llama.once("GET /unknown", raw(untyped(b"hello")))
    response = await rig.send(request_bytes("GET", "/unknown"), method="GET")
    assert (response.status, response.body, response.header("Content-Type")) == (200, b"hello", "")


@each_stream
@pytest.mark.parametrize("content_type", ["", "text/plain"])
async def test_a_stream_that_is_not_called_one_is_still_read(rig: Rig, call: Call, content_type: str) -> None:
    named = [("Content-Type", content_type)] if content_type else []
    head = status(200, *named, ("Transfer-Encoding", "chunked"))
    rig.upstream(call).once(call.path, head, *(chunk(event) for event in call.events()), chunk(b""), fin())
    async with rig.expects("ok"):
        response = await rig.ask(call)
    assert (response.status, response.header("Content-Type")) == (200, content_type)
    assert response.body.endswith(call.whole())
    record = await rig.record(response.header("X-Request-Id"))
    assert record["ttft"] is not None


@each_stream
async def test_a_plain_text_is_no_stream(rig: Rig, call: Call) -> None:
    rig.upstream(call).once(call.path, *full(b"hello", content_type="text/plain"))
    response = await rig.ask(call)
    assert (response.body, response.header("Content-Type")) == (b"hello", "text/plain")
