"""OpenAI chat: the first token, the usage chunk, the end."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.dialects.openai import usage_request
from gateway.dialects.shapes import sse
from gateway.values import First, Usage
from gateway.wire.frames import HOLD
from tests.dialects.tapping import see, see_document, tap

DONE = b"data: [DONE]\n\n"


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


@pytest.mark.parametrize(
    "event",
    [
        delta(role="assistant"),
        delta(role="assistant", content=""),
        delta(role="assistant", content=None, reasoning_content=None, tool_calls=None, refusal=None, function_call=None),
        delta(role="assistant", content="", tool_calls=[], reasoning="", audio={"data": "", "transcript": "", "id": "a"}),
        delta(),
        delta(role="assistant", content=None) | {"prompt_progress": {"total": 9, "cache": 3, "processed": 3, "time_ms": 1}},
        {"choices": [], "usage": {"prompt_tokens": 3}},
        {"choices": None, "usage": {"prompt_tokens": 3}},
        {"usage": {"prompt_tokens": 3}},
        {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]},
        {"choices": [None, 3, {"delta": []}], "object": "chat.completion.chunk"},
        "text",
    ],
)
def test_what_is_never_a_first_token(event: Any) -> None:
    seen = see("openai_chat", event)
    assert (seen.first, seen.visible, seen.error) == (None, False, None)


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"content": "a"}, "content"),
        ({"content": "\n"}, "content"),
        ({"content": [{"type": "text", "text": "a"}]}, "content"),
        ({"refusal": "No."}, "content"),
        ({"audio": {"data": "UklG"}}, "content"),
        ({"audio": {"transcript": "a"}}, "content"),
        ({"reasoning_content": "a"}, "reasoning"),
        ({"reasoning": "a", "content": ""}, "reasoning"),
        ({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls", "arguments": ""}}], "content": None}, "tool_call"),
        ({"function_call": {"name": "ls"}}, "tool_call"),
    ],
)
def test_the_first_token(fields: dict[str, Any], first: First) -> None:
    seen = see("openai_chat", delta(role="assistant", content=""), delta(**fields), delta(content="later"))
    assert (seen.first, seen.visible) == (first, True)
    assert see("openai_chat", delta(**fields)).visible is (first != "reasoning")


def test_reasoning_was_there_first_where_both_come_together() -> None:
    seen = see("openai_chat", delta(reasoning_content="a", content="b"))
    assert (seen.first, seen.visible) == ("reasoning", True)


def test_a_second_choice_counts_as_well() -> None:
    assert see("openai_chat", {"choices": [{"delta": {}}, {"delta": {"content": "a"}}]}).first == "content"


def test_a_reason_to_stop_is_no_terminator() -> None:
    ended = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    seen = see("openai_chat", delta(content="a"), ended)
    assert (seen.stopped, seen.finished) == (True, False)
    assert not see("openai_chat", delta(content="a")).stopped
    for done in (DONE, b"data:[DONE]\n\n", b"data: [DONE]\r\n\r\n", b"data: [DONE]\n", b"data: [DONE]"):
        out, seen = tap("openai_chat", sse(ended) + done)
        assert out == sse(ended) + done
        assert seen.finished


def test_keepalive_comments_say_nothing() -> None:
    assert see("openai_chat").first is None
    assert tap("openai_chat", b": keepalive 5/10\n\n: ping\n\n")[1] == tap("openai_chat", b"")[1]


def test_timings_stay_although_usage_comes_after_them() -> None:
    timed = {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": {"cache_n": 8, "prompt_n": 1, "prompt_ms": 2.0}}
    counted = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    assert see("openai_chat", delta(content="a"), timed, counted).usage == Usage(9, 8, 3, 2.0, "timings")


def test_running_counts_are_replaced_by_the_last() -> None:
    running = [delta(content="a") | {"usage": {"prompt_tokens": 9, "completion_tokens": n}} for n in (1, 2, 3)]
    assert see("openai_chat", *running).usage == Usage(9, None, 3)


@pytest.mark.parametrize(
    "chunk",
    [
        b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":3}}\n\n',
        b'data: {"choices":null,"usage":{"prompt_tokens":3}}\r\n\r\n',
        b'data:{"usage" : {"prompt_tokens":3}}\n\n',
        b'event: message\ndata: {"choices":[],"us\\u0061ge":{}}\n\n',
        b': comment\ndata: {"choices":[],\ndata: "usage":{"prompt_tokens":3},"timings":{"cache_n":1}}\n\n',
    ],
)
def test_the_usage_chunk_is_hidden_and_nothing_else(chunk: bytes) -> None:
    before = sse(delta(content="a") | {"usage": None}) + b": ping\n\n"
    for read in (before + chunk + DONE, before + DONE + chunk, chunk + before + DONE):
        kept = read.replace(chunk, b"")
        assert tap("openai_chat", read, hide=True)[0] == kept
        assert tap("openai_chat", [read[at : at + 1] for at in range(len(read))], hide=True)[0] == kept
        assert tap("openai_chat", read)[0] == read
        assert tap("openai_chat", read, hide=True)[1] == tap("openai_chat", read)[1]


@pytest.mark.parametrize(
    "event",
    [
        delta(content="a") | {"usage": {"prompt_tokens": 3}},
        delta() | {"usage": {"prompt_tokens": 3}},
        {"choices": [], "usage": None},
        {"choices": [], "prompt_filter_results": []},
        {"error": "x", "choices": [{}], "usage": {}},
        {"choices": [], "usage": {"prompt_tokens": 3}, "padding": "x" * HOLD},
    ],
)
def test_what_is_not_hidden(event: dict[str, Any]) -> None:
    assert tap("openai_chat", sse(event), hide=True)[0] == sse(event)


def test_the_usage_chunk_is_hidden_behind_half_of_a_huge_event() -> None:
    huge, counted = sse(delta(content="x" * 2 * HOLD)), sse({"choices": [], "usage": {"prompt_tokens": 3}})
    reads = [huge[:-100], huge[-100:] + counted + DONE[:3], DONE[3:]]
    out, seen = tap("openai_chat", reads, hide=True)
    assert out == huge + DONE
    assert (seen.usage, seen.finished) == (Usage(3), True)


def test_a_member_may_be_spread_over_lines() -> None:
    counted = b'data: {"choices":[],"usage"\ndata: :{"prompt_tokens":3}}\n\n'
    assert tap("openai_chat", [sse(delta(content="a")), counted])[1].usage == Usage(3)


def test_an_error_is_not_hidden_with_its_counts() -> None:
    event = {"error": {"message": "x"}, "usage": {"prompt_tokens": 3}}
    assert tap("openai_chat", sse(event), hide=True)[0] == sse(event)


def test_a_document() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    document = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3}}
    seen = see_document("openai_chat", orjson.dumps(document))
    assert (seen.first, seen.stopped, seen.finished, seen.usage) == ("tool_call", True, True, Usage(3))


def test_a_count_of_tokens_is_no_usage() -> None:
    seen = see_document("openai_chat", b'{"input_tokens":17}')
    assert (seen.finished, seen.usage) == (True, Usage())


@pytest.mark.parametrize(
    ("body", "options"),
    [
        ({"stream": True}, {"include_usage": True}),
        ({"stream": True, "stream_options": None}, {"include_usage": True}),
        ({"stream": True, "stream_options": {}}, {"include_usage": True}),
        ({"stream": True, "stream_options": {"include_usage": False, "x": [1]}}, {"include_usage": True, "x": [1]}),
        ({"stream": True, "stream_options": {"include_usage": True}}, None),
        ({"stream": True, "stream_options": "yes"}, None),
        ({"stream": False, "stream_options": {}}, None),
        ({"stream": None}, None),
        ({}, None),
    ],
)
def test_usage_request(body: dict[str, Any], options: dict[str, Any] | None) -> None:
    value = usage_request(body)
    assert (None if value is None else orjson.loads(value)) == options
