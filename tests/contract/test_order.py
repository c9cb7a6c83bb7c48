"""The grammars of streams: what servers send fits, and every disorder does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.heard import Event, Heard
from gateway.contract.order import GRAMMARS, shown
from gateway.dialects import ENDPOINTS
from tests.support.replies import SHAPES, Reply, ToolCall, llamacpp

REPLIES = {
    "text": Reply(),
    "one word": Reply(text="Yes."),
    "reasoning": Reply(reasoning="Let me see."),
    "a tool call": Reply(text="", tool_calls=(ToolCall("look", {"at": 1}),)),
    "cached": Reply(cached=5, timings=True),
}


def heard(path: str, events: list[bytes]) -> Heard:
    return Heard(path, 200, SHAPES[path].content_type, 0.0, pieces=events)


def fits(path: str, events: list[bytes]) -> bool:
    grammar = GRAMMARS[ENDPOINTS[path].dialect.name]
    return grammar.fits(grammar.words(heard(path, events).events()))


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("path", sorted(SHAPES))
def test_what_servers_send_fits(path: str, reply: str) -> None:
    assert fits(path, SHAPES[path].stream(REPLIES[reply]))
    assert fits(path, SHAPES[path].stream(replace(REPLIES[reply], usage=False)))


@pytest.mark.parametrize("path", sorted(SHAPES))
@given(data=st.data())
def test_no_order_but_that_one(path: str, data: st.DataObject) -> None:
    """Unless equals change places, a stream whose first or last event moved is out of order."""
    events = SHAPES[path].stream(Reply(text="one two three four"))
    at = data.draw(st.sampled_from([0, len(events) - 1]))
    if at == 0 and ENDPOINTS[path].dialect.name in ("ollama", "llamacpp", "openai_completions"):
        at = len(events) - 1  # nothing tells their first event
    moved = events.pop(at)
    assert not fits(path, events if events and at else events[:])
    events.insert(data.draw(st.integers(1, len(events) - 1)), moved)
    assert not fits(path, events)


@pytest.mark.parametrize("path", sorted(SHAPES))
def test_an_error_fits_nowhere(path: str) -> None:
    events = SHAPES[path].stream(Reply())
    line = b'{"error":"no"}\n' if SHAPES[path].content_type.endswith("ndjson") else b'event: error\ndata: {"error":{}}\n\n'
    for at in range(len(events) + 1):
        assert not fits(path, [*events[:at], line, *events[at:]])


def test_comments_and_pings_may_stand_anywhere() -> None:
    events = SHAPES["/v1/messages"].stream(Reply())
    for at in range(len(events) + 1):
        for life in (b": keep-alive\n\n", b'event: ping\ndata: {"type":"ping"}\n\n'):
            assert fits("/v1/messages", [*events[:at], life, *events[at:]])


def words(*events: Event) -> str:
    return shown(GRAMMARS["openai_chat"].words(events))


def test_words_tell_where_counts_stand() -> None:
    delta = {"choices": [{"delta": {"content": "a"}}]}
    finish = {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": {}}
    usage = {"choices": [], "usage": {}, "timings": {}}
    told = words(("", {"choices": [{"delta": {"role": "assistant"}}]}), *[("", delta)] * 3, ("", finish), ("", usage))
    assert told == "role, content x3, finish+timings, usage+timings"
    assert words(("", {"choices": None, "usage": None}), ("", b"[DONE]"), ("", b"[STOP]")) == "?, done, ?"
    assert shown([]) == "nothing"


def test_progress_is_a_piece_without_content() -> None:
    assert fits("/completion", [llamacpp.progress(10, 0, 5), *SHAPES["/completion"].stream(Reply())])
