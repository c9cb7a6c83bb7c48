"""OpenAI Responses."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.dialects.openai_responses import DELTAS
from gateway.dialects.shapes import sse
from gateway.values import First, Usage
from tests.dialects.tapping import see, see_document, tap

COUNTED = {"usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 0}}}


def end(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"status": kind, "error": None, **COUNTED, **more}}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.created", "response": {"status": "in_progress", "error": None, "output": []}},
        {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
        {"type": "response.output_item.added", "item": {"type": "reasoning"}},
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.delta", "delta": ""},
        {"type": "response.output_text.done", "text": "a"},
        {"type": ["response.output_text.delta"], "delta": "a"},
        {"type": "response.output_item.added", "item": None},
    ],
)
def test_what_is_never_a_first_token(event: dict[str, Any]) -> None:
    seen = see("openai_responses", event)
    assert (seen.first, seen.finished, seen.error) == (None, False, None)


@pytest.mark.parametrize(("kind", "first"), DELTAS.items())
def test_the_first_token(kind: str, first: First) -> None:
    seen = see("openai_responses", {"type": kind, "delta": "a"})
    assert (seen.first, seen.visible) == (first, first != "reasoning")


def test_a_call_that_is_announced_counts() -> None:
    seen = see("openai_responses", {"type": "response.output_item.added", "item": {"type": "function_call", "name": "ls"}})
    assert (seen.first, seen.visible) == ("tool_call", True)


def test_the_name_of_the_event_stands_in_for_its_type() -> None:
    assert tap("openai_responses", b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n')[1].first == "content"


@pytest.mark.parametrize("kind", ["completed", "incomplete", "failed"])
def test_the_end(kind: str) -> None:
    said = {"type": "response.output_text.delta", "delta": "a"}
    seen = tap("openai_responses", [sse(said), sse(end(kind))])[1]
    assert seen.finished
    assert seen.usage == Usage(9, 0, 2, None, "usage")
    assert (seen.error is None) is (kind != "failed")


def test_a_failure_may_be_silent_about_its_reason() -> None:
    said, failed = {"type": "response.output_text.delta", "delta": "a"}, {"type": "response.failed", "response": {}}
    seen = tap("openai_responses", [sse(said), sse(failed)])[1]
    assert (seen.finished, seen.error) == (True, "error")


def test_done_is_no_terminator_here() -> None:
    assert not tap("openai_responses", b"data: [DONE]\n\n")[1].finished


def test_why_it_failed() -> None:
    failed = end("failed", error={"code": "server_error", "message": "Out of memory."})
    assert see("openai_responses", failed).error == "Out of memory."
    seen = see_document("openai_responses", orjson.dumps(failed["response"]))
    assert (seen.error, seen.finished) == ("Out of memory.", True)


def test_timings_stand_beside_the_response() -> None:
    timed = end("completed") | {"timings": {"cache_n": 7, "prompt_n": 2, "prompt_ms": 3.0}}
    assert see("openai_responses", timed).usage == Usage(9, 7, 2, 3.0, "timings")
    inside = end("completed", timings={"cache_n": 6, "prompt_n": 3})
    assert see("openai_responses", inside).usage == Usage(9, 6, 2, None, "timings")


@pytest.mark.parametrize(
    ("output", "first"),
    [
        ([], None),
        ([{"type": "message", "content": []}], None),
        ([{"type": "message", "content": [{"type": "output_text", "text": "a"}]}], "content"),
        ([{"type": "reasoning"}, {"type": "message", "content": [{"text": "a"}]}], "reasoning"),
        ([{"type": "function_call", "name": "ls"}], "tool_call"),
        ([None, 3, "x"], None),
    ],
)
def test_a_document(output: list[Any], first: First | None) -> None:
    seen = see_document("openai_responses", orjson.dumps({"object": "response", "error": None, "output": output, **COUNTED}))
    assert (seen.first, seen.usage, seen.finished, seen.error) == (first, Usage(9, 0, 2, None, "usage"), True, None)


def test_nothing_is_hidden() -> None:
    stream = sse(end("completed"), event="response.completed")
    assert tap("openai_responses", stream, hide=True)[0] == stream
