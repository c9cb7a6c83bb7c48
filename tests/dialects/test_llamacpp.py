"""llama.cpp's own API."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.dialects.llamacpp import DIALECT
from gateway.dialects.shapes import openai_type, sse
from gateway.values import Usage
from tests.dialects.tapping import see, see_document, tap
from tests.support.replies import Reply, llamacpp


def piece(content: str, tokens: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    return {"index": 0, "content": content, "tokens": list(tokens), "stop": False, "tokens_evaluated": 9, **more}


def test_progress_is_no_first_token() -> None:
    assert tap("llamacpp", llamacpp.progress(9, 3, 3))[1].first is None
    assert see("llamacpp", piece("x", prompt_progress={"total": 9})).first is None
    assert see("llamacpp", piece("")).first is None


@pytest.mark.parametrize("event", [piece("a"), piece("", tokens=(7,))])
def test_the_first_token(event: dict[str, Any]) -> None:
    seen = see("llamacpp", event)
    assert (seen.first, seen.visible, seen.finished, seen.usage) == ("content", True, False, Usage())


def test_timings_may_come_with_every_token() -> None:
    timed = piece("b", timings={"cache_n": 5, "prompt_n": 4, "predicted_n": 2})
    assert tap("llamacpp", [sse(piece("a")), sse(timed)])[1].usage == Usage(9, 5, 2, None, "timings")


def test_the_last_event() -> None:
    seen = tap("llamacpp", llamacpp.completion_stream(Reply(prompt=40, cached=30, prefill_ms=2.0)))[1]
    assert (seen.finished, seen.usage) == (True, Usage(40, 30, 4, 2.0, "timings"))


def test_tokens_cached_are_no_hits() -> None:
    """They are the tokens in the slot at the end, as measured on a real server."""
    last = piece("") | {"stop": True, "tokens_cached": 12, "tokens_predicted": 3}
    assert see("llamacpp", last).usage == Usage(9, None, 3)


def test_builds_that_do_not_tell_what_they_reused() -> None:
    last = piece("") | {"stop": True, "timings": {"prompt_n": 2}}
    assert see("llamacpp", last).usage == Usage(9, 7, None, None, "timings")


@pytest.mark.parametrize("spelling", [b'"stop":true', b'"stop" : true', b'"st\\u006fp":true'])
def test_the_end_is_found_in_every_spelling(spelling: bytes) -> None:
    assert tap("llamacpp", b'data: {"content":"a","stop":false}\n\ndata: {"content":"",' + spelling + b"}\n\n")[1].finished


def test_a_list_of_prompts_is_answered_by_a_list() -> None:
    seen = see_document("llamacpp", orjson.dumps([piece("a") | {"stop": True}, piece("b") | {"stop": True}]))
    assert (seen.first, seen.finished, seen.usage.prompt) == ("content", True, 9)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 501, 503])
def test_the_error_shape(status: int) -> None:
    error = orjson.loads(DIALECT.error(status, "some_code", "Why.", "r"))["error"]
    assert error == {"code": status, "message": "Why.", "type": openai_type(status), "reason": "some_code"}
    assert DIALECT.error_event(status, "x", "Why.", "r") == b"data: " + DIALECT.error(status, "x", "Why.", "r") + b"\n\n"
