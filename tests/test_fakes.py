"""The test tools themselves: scripted upstream, raw client, ordinary replies, gateway process."""

from __future__ import annotations

import asyncio
import gzip
import sys
import time
from pathlib import Path

import pytest

from tests.support import personas
from tests.support.clients import RawClient, events, fetch, lines, post, request_bytes
from tests.support.http1 import Body, chunk_bytes
from tests.support.process import GatewayProcess, Metrics
from tests.support.replies import SHAPES, Reply, ToolCall
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import (
    chunk,
    fin,
    full,
    json_reply,
    never,
    ordinary,
    raw,
    rst,
    sleep,
    status,
    stop_reading,
    stream,
    wait,
)

CHAT = "/v1/chat/completions"
ASK = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True}


# HTTP framing


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_a_chunked_body_is_read_however_it_is_cut(step: int) -> None:
    wire = chunk_bytes(b"abc") + b"5;ext=1\r\nde\r\nf\r\n" + chunk_bytes(b"") + b"NEXT"
    body, buffer, pieces = Body("chunked"), bytearray(), []
    for at in range(0, len(wire), step):
        buffer += wire[at : at + step]
        if not body.complete:
            pieces += body.take(buffer)
    assert (pieces, body.complete, bytes(buffer)) == ([b"abc", b"de\r\nf"], True, b"NEXT")


def test_a_body_with_a_length_takes_no_more_than_that() -> None:
    body, buffer = Body("length", 4), bytearray(b"ab")
    assert (body.take(buffer), body.complete) == ([b"ab"], False)
    buffer += b"cdef"
    assert (body.take(buffer), body.complete, bytes(buffer)) == ([b"cd"], True, b"ef")


# the scripted upstream, and the raw client that looks at it


async def test_a_request_is_recorded_as_it_was_sent() -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on("/x", *json_reply({"ok": True}))
        await client.send(request_bytes("POST", "/x?a=1", b"body", ("X-Odd-CASE", "1"), ("x-odd-case", "2")))
        response = await client.response()
        assert await response.read() == b'{"ok":true}'
        assert response.complete
        [request] = upstream.asked("/x")
    assert (request.method, request.target, request.body, request.connection) == ("POST", "/x?a=1", b"body", 0)
    assert request.headers[-2:] == [("X-Odd-CASE", "1"), ("x-odd-case", "2")]
    assert request.answered_by == "script"


async def test_scripts_for_once_come_before_the_standing_one() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/x", *json_reply(0))
        upstream.once("/x", *json_reply(1))
        upstream.once("POST /x", *json_reply(2))
        answers = [(await fetch(f"{upstream.url}/x", {})).json() for _ in range(4)]
    assert answers == [2, 1, 0, 0]


async def test_each_chunk_arrives_by_itself_and_at_its_time() -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on(CHAT, *stream([b"one", b"two"], gap=0.1))
        await client.send(post(CHAT, ASK))
        response = await client.response()
        await response.read()
    assert [piece.data for piece in response.arrived] == [b"one", b"two"]
    assert response.arrived[1].at - response.arrived[0].at > 0.08
    assert response.complete


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_every_framing_carries_the_same_body(framing: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/x", *stream([b"one", b"two"], framing=framing))  # type: ignore[arg-type]
        response = await fetch(f"{upstream.url}/x")
    assert response.body == b"onetwo"
    assert response.complete is (framing != "close")
    assert response.closed == ("eof" if framing == "close" else None)


async def test_a_body_can_be_compressed() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/doc", *json_reply([1], gzipped=True))
        upstream.on("/stream", *stream([b"a", b"b"], gzipped=True))
        document, streamed = await fetch(f"{upstream.url}/doc"), await fetch(f"{upstream.url}/stream")
    assert (gzip.decompress(document.body), document.header("content-encoding")) == (b"[1]", "gzip")
    assert gzip.decompress(streamed.body) == b"ab"


@pytest.mark.parametrize(("ending", "seen"), [(fin, "eof"), (rst, "reset")])
async def test_the_upstream_hangs_up_in_the_middle(ending: object, seen: str) -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on(CHAT, *stream([b"one"], end=False), sleep(0.02), ending())  # type: ignore[operator]
        await client.send(post(CHAT, ASK))
        response = await client.response()
        assert await response.read() == b"one"
        assert (response.complete, response.closed) == (False, seen)
        assert upstream.connections[0].closed_at is None  # it was this side that closed


@pytest.mark.parametrize("how", ["eof", "reset"])
async def test_a_peer_that_leaves_is_seen_in_the_middle_of_a_silence(how: str) -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on(CHAT, never())
        await client.send(post(CHAT, ASK))
        await upstream.wait_for(CHAT)
        assert upstream.open_connections == 1
        left = time.monotonic()
        client.fin() if how == "eof" else client.rst()
        connection = upstream.connections[0]
        assert await connection.peer_closed(within=1.0)
        assert connection.closed_how == how
        assert connection.closed_at is not None
        assert 0 <= connection.closed_at - left < 1.0
        assert upstream.open_connections == 0


async def test_peer_closed_waits_no_longer_than_told() -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on(CHAT, never())
        await client.send(post(CHAT, ASK))
        await upstream.wait_for(CHAT)
        assert not await upstream.connections[0].peer_closed(within=0.02)


async def test_a_reused_connection_is_reset_at_the_second_head() -> None:
    async with ScriptedUpstream(reset_at_request=2) as upstream, RawClient(upstream.url) as client:
        upstream.on(CHAT, *json_reply({}))
        await client.send(post(CHAT, ASK))
        await (await client.response()).read()
        await client.send(request_bytes("GET", "/v1/models"))  # a probe does not count
        await (await client.response()).read()
        await client.send(post(CHAT, ASK))
        with pytest.raises(ConnectionError, match="reset"):
            await client.response()
        assert len(upstream.asked(CHAT)) == 2


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async with ScriptedUpstream(idle_close=0.05) as upstream, RawClient(upstream.url) as client:
        upstream.on(CHAT, sleep(0.12), *json_reply({}))
        await client.send(post(CHAT, ASK))
        await (await client.response()).read()
        asked = time.monotonic()
        assert not await client.fill()
        assert (client.closed, 0.03 < time.monotonic() - asked < 5) == ("eof", True)


async def test_a_script_can_answer_before_the_body_and_wait_for_the_test() -> None:
    go = asyncio.Event()
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on("/up", raw(b"HTTP/1.1 100 Continue\r\n\r\n"), wait(go), *json_reply("early"), at_head=True)
        await client.send(b"POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        while not upstream.asked("/up"):
            await asyncio.sleep(0.001)
        go.set()
        response = await client.response()
        assert await response.read() == b'"early"'
        assert not upstream.asked("/up")[0].complete


@pytest.mark.parametrize("from_the_start", [True, False])
async def test_a_server_that_does_not_read_holds_the_sender_back(from_the_start: bool) -> None:
    async with ScriptedUpstream(reads=not from_the_start, receive_buffer=4096) as upstream, RawClient(upstream.url) as client:
        upstream.on("/up", stop_reading(), never(), at_head=True)
        await client.send(b"POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.send(bytes(50_000_000)), 0.2)
        assert [len(request.arrived) < 1_000_000 for request in upstream.requests] == ([] if from_the_start else [True])


async def test_a_client_that_does_not_read_holds_the_server_back() -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url, receive_buffer=4096) as client:
        upstream.on("/big", *stream([bytes(100_000)] * 200))
        await client.send(request_bytes("GET", "/big"))
        await upstream.wait_for("/big")
        await asyncio.sleep(0.1)
        assert upstream.connections[0].sent < 10_000_000
        client.rst()
        assert await upstream.connections[0].peer_closed(within=1.0)


async def test_a_slow_sender_is_slow() -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on("/x", *json_reply({}))
        await client.send_slowly(b"GET /x HTTP/1.1\r\n", interval=0.002)
        assert upstream.requests == []
        await client.send(b"Host: x\r\n\r\n")
        assert (await client.response()).status == 200


async def test_a_mistake_in_a_script_fails_the_test() -> None:
    upstream = ScriptedUpstream()
    await upstream.start()
    upstream.on("/no-such-dialect", ordinary())
    with pytest.raises(ConnectionError):
        await fetch(f"{upstream.url}/no-such-dialect", {})
    with pytest.raises(KeyError):
        await upstream.stop()


async def test_a_stopped_server_comes_back_on_its_port() -> None:
    async with ScriptedUpstream() as upstream:
        await upstream.stop()
        with pytest.raises(ConnectionRefusedError):
            await fetch(f"{upstream.url}/v1/models")
        await upstream.start()
        assert (await fetch(f"{upstream.url}/v1/models")).status == 200


# personas and ordinary replies


async def test_personas_answer_as_their_servers_do() -> None:
    async with ScriptedUpstream(personas.llamacpp(slots=3, n_ctx=2048)) as upstream:
        props = (await fetch(f"{upstream.url}/props")).json()
        missing = await fetch(f"{upstream.url}/api/tags")
        upstream.persona = personas.ollama("a:latest", version="0.31.0")
        greeting, version = await fetch(f"{upstream.url}/"), await fetch(f"{upstream.url}/api/version")
        head = await fetch(f"{upstream.url}/", method="HEAD")
        upstream.persona = personas.openai("m1", "m2")
        listed = (await fetch(f"{upstream.url}/v1/models")).json()
        upstream.persona = personas.llamacpp_loading()
        loading = await fetch(f"{upstream.url}/health")
    assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (3, 2048)
    assert (missing.status, missing.json()["error"]["type"]) == (404, "not_found_error")
    assert (greeting.body, version.json()) == (b"Ollama is running", {"version": "0.31.0"})
    assert (head.status, head.body) == (200, b"")
    assert [row["id"] for row in listed["data"]] == ["m1", "m2"]
    assert loading.status == 503


async def test_any_path_can_be_scripted_but_probes_stay_answered() -> None:
    async with ScriptedUpstream(personas.llamacpp()) as upstream:
        upstream.on("*", *full(b"anything", 418))
        assert (await fetch(f"{upstream.url}/whatever")).status == 418
        assert (await fetch(f"{upstream.url}/props")).status == 200
        assert [request.answered_by for request in upstream.requests] == ["script", "persona"]


SAID = Reply("Good day to you.", "Let me think.", (ToolCall("look", {"at": "it"}),), prompt=20, cached=15, completion=9)


@pytest.mark.parametrize("path", sorted(SHAPES))
async def test_a_streamed_reply_and_a_document_say_the_same(path: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on(path, ordinary(SAID))
        streamed = await fetch(upstream.url + path, {"stream": True, "stream_options": {"include_usage": True}})
        document = await fetch(upstream.url + path, {"stream": False})
    parsed = lines(streamed.body) if path.startswith("/api/") and "v0" not in path else events(streamed.body)
    assert _text_of(parsed) == SAID.text
    assert SAID.text in document.body.decode()
    assert b"15" in streamed.body  # the cached count
    assert b"15" in document.body
    if "complet" in path and path != "/completion":
        assert parsed[-1] == "[DONE]"
        assert parsed[-2]["usage"]["prompt_tokens_details"] == {"cached_tokens": 15}


def _text_of(parsed: list[object]) -> str:
    """All visible text of a stream of any dialect."""
    found = []
    for event in parsed:
        if not isinstance(event, dict):
            continue
        kind, delta = event.get("type"), event.get("delta")
        found.append(event.get("content") or event.get("response") if not kind else None)
        found.append((event.get("message") or {}).get("content") if not kind else None)
        found.append(delta if kind == "response.output_text.delta" else None)
        found.append(delta.get("text") if isinstance(delta, dict) else None)
        for choice in event.get("choices", ()):
            found.append(choice.get("text") or choice.get("delta", {}).get("content"))
    return "".join(text for text in found if isinstance(text, str))


async def test_openai_streams_carry_usage_only_when_asked() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, ordinary(Reply(timings=True, cached=3)))
        unasked = events((await fetch(upstream.url + CHAT, ASK)).body)
        asked = events((await fetch(upstream.url + CHAT, {**ASK, "stream_options": {"include_usage": True}})).body)
    assert not any("usage" in event for event in unasked[:-1])
    assert unasked[-2]["timings"]["cache_n"] == 3  # on the chunk that ends the answer
    assert (asked[-2]["choices"], "timings" in asked[-2], "timings" in asked[-3]) == ([], True, False)


# the gateway process

STAND_IN = """
import http.server, pathlib, signal, sys, yaml
config = yaml.safe_load(pathlib.Path(sys.argv[-1]).read_text())
class Admin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = b"ok" if self.path == "/healthz" else b'# TYPE x counter\\nx_total{a="1",b="2"} 3\\nx_total{a="1",b="3"} 4\\n'
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(config["exit_code"])))
if config.get("complain"):
    print("Traceback (most recent call last)", flush=True)
http.server.HTTPServer(("127.0.0.1", int(config["admin"]["listen"].split(":")[1])), Admin).serve_forever()
"""
COMMAND = (sys.executable, "-c", STAND_IN)


async def test_a_process_is_started_looked_at_and_ended(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, {"exit_code": 0}, command=COMMAND) as gateway:
        metrics = await gateway.metrics()
        assert metrics["x_total", frozenset({("a", "1"), ("b", "2")})] == 3
        assert metrics.value("x_total", a="1") == 7
        assert metrics.value("x_total", b="3") == 4
        assert metrics.value("x_total", a="2") == 0
        assert gateway.resident_bytes > 1_000_000
        assert "GET /metrics" in gateway.log
    assert await gateway.wait(0.1) == 0


@pytest.mark.parametrize(("config", "why"), [({"exit_code": 3}, "exit code 3"), ({"exit_code": 0, "complain": 1}, "Traceback")])
async def test_an_unclean_end_fails_the_test(tmp_path: Path, config: dict[str, int], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        async with GatewayProcess(tmp_path, config, command=COMMAND):
            pass


async def test_a_process_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)ended with 1 at its start.*exit_code"):
        async with GatewayProcess(tmp_path, {}, command=(sys.executable, "-c", "raise SystemExit('no exit_code')")):
            pass


def test_metrics_are_parsed_with_their_labels() -> None:
    text = '# TYPE t histogram\nt_bucket{le="1.0"} 2\nt_bucket{le="+Inf"} 3\nt_count 3\nt_sum 1.5\n'
    metrics = Metrics.parse(text)
    assert (metrics.value("t_bucket", le="+Inf"), metrics.value("t_sum"), len(metrics.matching("t_bucket"))) == (3, 1.5, 2)


async def test_exact_bytes_reach_the_client() -> None:
    async with ScriptedUpstream() as upstream, RawClient(upstream.url) as client:
        upstream.on("/x", status(200, ("Transfer-Encoding", "chunked")), chunk(b"\xff\x00"), chunk(b""))
        await client.send(request_bytes("GET", "/x"))
        await asyncio.sleep(0.02)
        await client.fill()
    assert client.buffer.endswith(b"\r\n\r\n2\r\n\xff\x00\r\n0\r\n\r\n")
    assert client.buffer.startswith(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
