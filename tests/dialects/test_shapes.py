"""Error shapes and their words."""

from __future__ import annotations

import json

import orjson
import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.shapes import anthropic_type, line, openai_type, sse


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "unavailable_error"),
    ],
)
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions", "openai_responses"])
def test_openai(dialect: str, status: int, kind: str) -> None:
    error = orjson.loads(DIALECTS[dialect].error(status, "some_code", "Why.", "r"))
    assert error == {"error": {"message": "Why.", "type": kind, "param": None, "code": "some_code"}}


def test_plain() -> None:
    error = orjson.loads(DIALECTS["plain"].error(404, "not_found", "Why.", "req_7"))["error"]
    assert error == {"message": "Why.", "type": "not_found_error", "param": None, "code": "not_found", "request_id": "req_7"}


@pytest.mark.parametrize("status", range(400, 600))
def test_every_status_has_a_word(status: int) -> None:
    for word in (openai_type(status), anthropic_type(status)):
        assert word.replace("_", "").isalpha()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("message", ["", 'a "quoted"\n\ndata: line', "\ud800", "é"])
def test_no_message_breaks_the_frame(dialect: str, message: str) -> None:
    speaks = DIALECTS[dialect]
    error = json.loads(speaks.error(500, "x", message, "r"))["error"]
    assert message == (error if isinstance(error, str) else error["message"])
    event = speaks.error_event(500, "x", message, "r")
    assert event.count(b"\n") == {"ollama": 1, "anthropic": 3, "openai_responses": 3}.get(dialect, 2)


def test_frames() -> None:
    assert sse({"a": 1}) == b'data: {"a":1}\n\n'
    assert sse({"a": 1}, event="ping") == b'event: ping\ndata: {"a":1}\n\n'
    assert line({"a": 1}) == b'{"a":1}\n'
