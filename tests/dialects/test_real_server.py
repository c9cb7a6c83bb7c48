"""What a real llama.cpp server answers, through the taps: facts, and not one byte changed."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.request import Request, urlopen

import orjson
import pytest

from gateway.dialects import ENDPOINTS, usage_request
from gateway.dialects.base import Seen
from gateway.engine.server import EngineServer
from gateway.values import Usage
from gateway.wire.splice import set_fields
from tests.support.engine import needs_engine

pytestmark = needs_engine

ANSWER: dict[str, Any] = {"temperature": 0, "stream": True}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": ""}], "max_tokens": 5},
    "/v1/completions": {"prompt": "", "max_tokens": 5},
    "/v1/responses": {"input": "", "max_output_tokens": 5},
    "/v1/messages": {"messages": [{"role": "user", "content": ""}], "max_tokens": 5},
    "/completion": {"prompt": "", "n_predict": 5},
}


def ask(server: EngineServer, path: str, body: bytes, *, hide: bool = False, size: int = 61) -> tuple[bytes, bytes, Seen]:
    """(bytes of the server, bytes for the client, what was seen)."""
    request = Request(server.url + path, body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as reply:
        streaming = reply.headers["Content-Type"].startswith("text/event-stream")
        tap = ENDPOINTS[path].dialect.tap(path, streaming=streaming, hide_usage=hide)
        sent, got = [], []
        while data := reply.read(size):
            sent.append(data)
            got.append(tap.feed(data))
    return b"".join(sent), b"".join([*got, tap.close()]), tap.seen


def body_of(path: str, text: str, **fields: Any) -> bytes:
    return json.dumps({**ANSWER, **BODIES[path], **fields}).replace('""', json.dumps(text), 1).encode()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", BODIES)
def test_every_api(engine: EngineServer, path: str, stream: bool) -> None:
    text = f"{uuid.uuid4().hex} " * 20
    body = body_of(path, text, stream=stream)
    cold, warm = ask(engine, path, body), ask(engine, path, body)
    for sent, got, seen in (cold, warm):
        assert got == sent
        assert (seen.first, seen.finished, seen.error) == ("content", True, None)
    before, after = cold[2].usage, warm[2].usage
    if path == "/v1/completions" and stream:  # no usage unasked; the figures are in `timings`
        assert before.source == "timings"
    assert before.prompt == after.prompt is not None
    assert before.completion == after.completion == 5
    assert before.cached is not None
    assert after.cached == after.prompt - 1  # one token is always evaluated again
    assert before.cached < after.prompt // 2


def asked(engine: EngineServer, path: str) -> tuple[bytes, bytes, Seen]:
    plain = body_of(path, "The pond is frozen.")
    options = usage_request(path, orjson.loads(plain))
    assert options is not None
    return ask(engine, path, set_fields(plain, {"stream_options": options}), hide=True)


def test_counts_that_the_gateway_asked_for_are_seen_and_hidden(engine: EngineServer) -> None:
    sent, got, seen = asked(engine, "/v1/chat/completions")
    assert b'"usage"' in sent
    assert b'"usage"' not in got
    assert [frame for frame in sent.split(b"\n\n") if b'"usage"' not in frame] == got.split(b"\n\n")
    assert (seen.finished, seen.usage.source) == (True, "timings")


def test_counts_on_a_chunk_with_a_choice_are_left_there(engine: EngineServer) -> None:
    """llama.cpp's text completions have no chunk of their own for them."""
    sent, got, seen = asked(engine, "/v1/completions")
    assert b'"usage"' in sent
    assert got == sent
    assert (seen.finished, seen.usage.source) == (True, "timings")


def test_progress_is_no_first_token(engine: EngineServer) -> None:
    path = "/v1/chat/completions"
    request = Request(engine.url + path, body_of(path, uuid.uuid4().hex * 400, return_progress=True))
    tap = ENDPOINTS[path].dialect.tap(path, streaming=True)
    with urlopen(request, timeout=60) as reply:
        events = reply.read().split(b"\n\n")
    told = [event for event in events if b"prompt_progress" in event]
    assert told
    for event in told:
        tap.feed(event + b"\n\n")
    assert tap.seen.first is None


def test_a_count_of_tokens(engine: EngineServer) -> None:
    path = "/v1/chat/completions/input_tokens"
    sent, got, seen = ask(engine, path, body_of("/v1/chat/completions", "The pond.", stream=False))
    assert got == sent
    assert orjson.loads(got)["input_tokens"] > 0
    assert (seen.finished, seen.usage) == (True, Usage())
