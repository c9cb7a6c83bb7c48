"""Ollama's own API."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.dialects.ollama import DIALECT
from gateway.values import First, Usage
from tests.dialects.tapping import see, see_document, tap

FIGURES = {"prompt_eval_count": 20, "prompt_eval_cached_count": 18, "prompt_eval_duration": 2_000_000, "eval_count": 3}


def chat(**message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": False}


@pytest.mark.parametrize(
    "event",
    [
        chat(),
        chat(content=None, thinking="", tool_calls=[]),
        {"response": "", "done": False},
        {"message": None, "done": False},
        {"model": "m", "done": True, "done_reason": "load", "response": ""},
        [],
    ],
)
def test_what_is_never_a_first_token(event: Any) -> None:
    seen = see("ollama", event)
    assert (seen.first, seen.visible, seen.error) == (None, False, None)


@pytest.mark.parametrize(
    ("event", "first"),
    [
        (chat(content="a"), "content"),
        (chat(thinking="a"), "reasoning"),
        (chat(tool_calls=[{"function": {"name": "ls"}}]) | {"done": True}, "tool_call"),
        ({"response": "a"}, "content"),
        ({"response": "", "thinking": "a"}, "reasoning"),
        ({"image": "iVBO", "done": True}, "content"),
    ],
)
def test_the_first_token(event: dict[str, Any], first: First) -> None:
    seen = see("ollama", chat(), event)
    assert (seen.first, seen.visible) == (first, first != "reasoning")


@pytest.mark.parametrize("spelling", [b'"done":true', b'"done": true', b'"done" :\ttrue', b'"d\\u006fne":true'])
def test_the_last_line_is_found_in_every_spelling(spelling: bytes) -> None:
    seen = tap("ollama", b'{"response":"a","done":false}\n{"response":"",' + spelling + b',"prompt_eval_count":4}\n')[1]
    assert (seen.finished, seen.usage) == (True, Usage(4))


def test_the_figures_of_the_last_line() -> None:
    seen = see("ollama", chat(content="a"), chat() | {"done": True, **FIGURES})
    assert seen.usage == Usage(20, 18, 3, 2.0, "usage")


def test_figures_before_the_end_are_not_final() -> None:
    assert see("ollama", chat() | FIGURES).usage == Usage()


def test_an_error_line_after_a_good_status() -> None:
    seen = see("ollama", chat(content="a"), {"error": "the runner has terminated"})
    assert (seen.error, seen.finished) == ("the runner has terminated", False)


def test_a_document() -> None:
    seen = see_document("ollama", orjson.dumps(chat(thinking="a", content="b") | {"done": True, **FIGURES}))
    assert (seen.first, seen.visible, seen.finished) == ("reasoning", True, True)
    assert seen.usage == Usage(20, 18, 3, 2.0, "usage")


def test_the_error_shape() -> None:
    assert orjson.loads(DIALECT.error(404, "model_not_found", "Why.", "r")) == {"error": "Why.", "code": "model_not_found"}
    assert DIALECT.error_event(404, "x", "Why.", "r") == DIALECT.error(404, "x", "Why.", "r") + b"\n"


def test_a_heartbeat_has_the_shape_of_its_path() -> None:
    assert "message" in orjson.loads(DIALECT.heartbeat("/api/chat"))
    assert "response" in orjson.loads(DIALECT.heartbeat("/api/generate"))
