"""Anthropic messages."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.dialects.anthropic import DIALECT
from gateway.values import First, Usage
from tests.dialects.tapping import see, see_document, tap
from tests.support.replies import Reply, anthropic


def start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}}


def delta(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


@pytest.mark.parametrize(
    "event",
    [
        start(input_tokens=3),
        {"type": "ping"},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
        delta("text_delta", text=""),
        delta("signature_delta", signature="abc"),
        delta("input_json_delta", partial_json=""),
        {"type": "content_block_delta", "delta": {"type": {}, "text": "a"}},
        {"type": "content_block_stop", "index": 0},
    ],
)
def test_what_is_never_a_first_token(event: dict[str, Any]) -> None:
    seen = see("anthropic", event)
    assert (seen.first, seen.finished, seen.error) == (None, False, None)


@pytest.mark.parametrize(
    ("event", "first"),
    [
        (delta("text_delta", text="a"), "content"),
        (delta("thinking_delta", thinking="a"), "reasoning"),
        (delta("input_json_delta", partial_json="{"), "tool_call"),
        ({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "ls", "input": {}}}, "tool_call"),
        ({"type": "content_block_start", "content_block": {"type": "server_tool_use", "name": "web"}}, "tool_call"),
    ],
)
def test_the_first_token(event: dict[str, Any], first: First) -> None:
    seen = see("anthropic", start(input_tokens=3), event)
    assert (seen.first, seen.visible) == (first, first != "reasoning")


def test_an_estimate_is_replaced() -> None:
    events = anthropic.stream(Reply(prompt=90, cached=60), estimate=1000)
    assert tap("anthropic", events[:1])[1].usage.prompt == 1000
    assert tap("anthropic", events)[1].usage == Usage(90, 60, 4, None, "usage")


def test_counts_that_come_once_are_kept() -> None:
    events = anthropic.stream(Reply(prompt=90, cached=60))
    assert tap("anthropic", events)[1].usage == Usage(90, 60, 4, None, "usage")


def test_a_start_that_knows_nothing_yet_reports_nothing() -> None:
    assert see("anthropic", start(input_tokens=0, output_tokens=0)).usage == Usage(None, None, 0)
    ended = {"type": "message_delta", "usage": {"input_tokens": None, "output_tokens": 3}}
    assert see("anthropic", start(input_tokens=5, cache_read_input_tokens=None), ended).usage == Usage(5, None, 3)


def test_the_end() -> None:
    stopped = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    seen = see("anthropic", delta("text_delta", text="a"), stopped)
    assert (seen.stopped, seen.finished) == (True, False)
    assert see("anthropic", stopped, {"type": "message_stop"}).finished
    assert tap("anthropic", b"event: message_stop\ndata: {}\n\n")[1].finished


@pytest.mark.parametrize(
    ("content", "first"),
    [
        ([], None),
        ([{"type": "text", "text": "a"}], "content"),
        ([{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}], "reasoning"),
        ([{"type": "tool_use", "name": "ls", "input": {}}], "tool_call"),
        ([None, {"type": None}], None),
    ],
)
def test_a_document(content: list[Any], first: First | None) -> None:
    document = {"type": "message", "content": content, "usage": {"input_tokens": 4, "cache_read_input_tokens": 5}}
    seen = see_document("anthropic", orjson.dumps(document))
    assert (seen.first, seen.finished, seen.usage) == (first, True, Usage(9, 5, None, None, "usage"))


def test_a_count_of_tokens_is_no_usage() -> None:
    assert see_document("anthropic", b'{"input_tokens":17}').usage == Usage()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (408, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_the_error_shape(status: int, kind: str) -> None:
    error = orjson.loads(DIALECT.error(status, "some_code", "Why.", "req_7"))
    inner = {"type": kind, "message": "Why.", "code": "some_code"}
    assert error == {"type": "error", "error": inner, "request_id": "req_7"}
    event = DIALECT.error_event(status, "some_code", "Why.", "req_7")
    assert event == b"event: error\ndata: " + DIALECT.error(status, "some_code", "Why.", "req_7") + b"\n\n"
