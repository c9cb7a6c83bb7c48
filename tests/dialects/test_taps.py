"""What holds for the taps of every dialect."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS, ENDPOINTS
from gateway.dialects.taps import ERROR_TEXT, StreamTap
from gateway.values import Usage
from gateway.wire.frames import HOLD, LOOK
from tests.dialects.tapping import Thorough, see_document, tap
from tests.support.replies import SHAPES, Reply, ToolCall

STREAMING = sorted(DIALECTS)
ANSWERS = sorted(path for path, endpoint in ENDPOINTS.items() if endpoint.task == "answer")
REPLIES = {
    "plain": Reply(),
    "reasoning": Reply(reasoning="Well, let me see.", cached=3),
    "tool": Reply(text="", tool_calls=(ToolCall("ls", {"path": "/"}),), cached=0),
    "timings": Reply(cached=5, timings=True, prefill_ms=2.5),
    "awkward": Reply(text='An error: "usage": null [DONE]\n\ndata: true \\u00e9 message_stop \N{SNOWMAN}', cached=1),
}
WORDS = [
    *("choices", "delta", "content", "text", "reasoning", "tool_calls", "finish_reason", "usage", "timings", "prompt_tokens"),
    *(
        "prompt_tokens_details",
        "cached_tokens",
        "cache_n",
        "prompt_n",
        "error",
        "message",
        "object",
        "type",
        "item",
        "response",
    ),
    *("done", "stop", "prompt_eval_count", "tokens_evaluated", "content_block", "input_tokens", "stats", "thinking", "status"),
    *("response.completed", "response.output_text.delta", "response.output_item.added", "function_call", "response.failed"),
    *("content_block_delta", "text_delta", "message_start", "message_delta", "message_stop", "content_block_start", "tool_use"),
]
SPOKEN = {
    "openai_chat": b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
    "openai_completions": b'data: {"choices":[{"text":"a"}]}\n\n',
    "openai_responses": b'data: {"type":"response.output_text.delta","delta":"a"}\n\n',
    "anthropic": b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}\n\n',
    "ollama": b'{"response":"a"}\n',
    "llamacpp": b'data: {"content":"a"}\n\n',
    "plain": b"",
}
"""An event with visible content, after which the taps take their shortcut."""

wild = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**70) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6),
    max_leaves=12,
)


@st.composite
def wild_streams(draw: st.DrawFn) -> bytes:
    """Frames that are nearly right: JSON of the wrong types under the right names, in any spelling."""
    out = b""
    for _ in range(draw(st.integers(0, 6))):
        doc, separators = draw(wild), draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", "\t: ")]))
        data = json.dumps(doc, separators=separators, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
        data = draw(st.sampled_from([data, data, data, b"[DONE]", draw(st.binary(max_size=9))]))
        data = data.replace(b"usage", b"us\\u0061ge") if draw(st.booleans()) else data
        name = draw(st.sampled_from([b"", b"", b"event: error\n", b"event: message_stop\r\n", b": ping\n"]))
        prefix = draw(st.sampled_from([b"data: ", b"data:", b""]))
        out += name + prefix + data + draw(st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n"]))
    return out


def cuts(data: bytes, draw: st.DataObject) -> list[bytes]:
    at = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *at], [*at, len(data)], strict=True)]


@pytest.mark.parametrize("dialect", STREAMING)
@given(data=st.data(), stream=wild_streams() | st.binary())
def test_bytes_pass_unchanged_and_facts_do_not_depend_on_the_reads(dialect: str, data: st.DataObject, stream: bytes) -> None:
    out, seen = tap(dialect, cuts(stream, data))
    assert out == stream
    assert seen == tap(dialect, stream)[1]
    assert tap(dialect, cuts(stream, data), hide=True)[1] == seen


@pytest.mark.parametrize("dialect", STREAMING)
@given(stream=wild_streams())
def test_the_shortcut_overlooks_nothing(dialect: str, stream: bytes) -> None:
    quick = DIALECTS[dialect].tap("", streaming=True)
    assert isinstance(quick, StreamTap)
    reader = DIALECTS[dialect].tap("", streaming=True)._reader  # type: ignore[attr-defined]
    thorough = Thorough(type(quick._framer)(), quick._parse, reader, b"")
    for watch in (quick, thorough):
        watch.feed(SPOKEN[dialect])
        assert watch.seen.visible or dialect == "plain"
        for at in range(0, len(stream), 40):
            watch.feed(stream[at : at + 40])
        watch.close()
    assert quick.seen == thorough.seen


@pytest.mark.parametrize("dialect", STREAMING)
@given(data=st.data(), document=st.binary() | wild.map(lambda doc: json.dumps(doc).encode()))
def test_documents_pass_at_once_whatever_they_are(dialect: str, data: st.DataObject, document: bytes) -> None:
    watch = DIALECTS[dialect].tap("", streaming=False)
    for read in cuts(document, data):
        assert watch.feed(read) == read
    assert watch.close() == b""
    assert watch.seen == see_document(dialect, document)


@pytest.mark.parametrize("path", ANSWERS)
@pytest.mark.parametrize("name", REPLIES)
def test_every_reply_is_understood_in_every_cut(path: str, name: str) -> None:
    reply, dialect = REPLIES[name], ENDPOINTS[path].dialect.name
    stream = b"".join(SHAPES[path].stream(reply))
    seen = tap(dialect, stream, path=path)[1]
    assert seen.finished
    assert seen.error is None
    if dialect != "llamacpp" or reply.text:
        assert seen.usage.prompt == reply.prompt
        assert seen.usage.completion == reply.completion
    for size in (1, 3, 64):
        reads = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert tap(dialect, reads, path=path) == (stream, seen)


@pytest.mark.parametrize("path", ANSWERS)
@pytest.mark.parametrize("name", REPLIES)
def test_a_document_tells_what_its_stream_tells(path: str, name: str) -> None:
    """But for the counts of a Responses stream, which has `timings` where its document has none."""
    reply, dialect = REPLIES[name], ENDPOINTS[path].dialect.name
    streamed = tap(dialect, b"".join(SHAPES[path].stream(reply)), path=path)[1]
    whole = see_document(dialect, b" \n" + SHAPES[path].document(reply))
    assert whole.finished
    assert (whole.first, whole.visible, whole.error) == (streamed.first, streamed.visible, streamed.error)
    if not (reply.timings and dialect == "openai_responses"):
        assert whole.usage == streamed.usage


@pytest.mark.parametrize("path", ANSWERS)
def test_first_is_set_by_the_event_that_carries_it(path: str) -> None:
    watch = ENDPOINTS[path].dialect.tap(path, streaming=True)
    events = SHAPES[path].stream(REPLIES["reasoning"])
    firsts, visibles = [], []
    for event in events:
        watch.feed(event)
        firsts.append(watch.seen.first)
        visibles.append(watch.seen.visible)
    carries = "reasoning" if any(b"Well" in event for event in events) else "content"
    said = [b"" if b"output_item.added" in event else event for event in events]
    begins = next(at for at, event in enumerate(said) if b"Well" in event or b"Hello" in event)
    assert firsts == [None] * begins + [carries] * (len(events) - begins)
    speaks = next(at for at, event in enumerate(said) if b"Hello" in event)
    assert visibles == [False] * speaks + [True] * (len(events) - speaks)


@pytest.mark.parametrize("path", ANSWERS)
def test_a_stream_cut_short_is_not_finished(path: str) -> None:
    events = SHAPES[path].stream(Reply())
    for upto in range(len(events)):
        assert not tap(ENDPOINTS[path].dialect.name, events[:upto])[1].finished


@pytest.mark.parametrize("path", ANSWERS)
def test_a_document_cut_short_is_not_finished(path: str) -> None:
    document = SHAPES[path].document(Reply()).strip()
    assert not see_document(ENDPOINTS[path].dialect.name, document[:-1]).finished
    assert not see_document(ENDPOINTS[path].dialect.name, b"").finished


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error":"no such model"}', "no such model"),
        (b'{"error":{"message":"no such model","code":404}}', "no such model"),
        (b'{"error":{"type":"overloaded"}}', "overloaded"),
        (b'{"error":true}', "error"),
        (b'{"error":["a"]}', "error"),
        (b'{"object":"error","message":"too long"}', "too long"),
        (b'{"type":"error","message":"too long"}', "too long"),
        (b'{"type":"error","error":{"type":"api_error","message":"' + b"m" * 999 + b'"}}', "m" * ERROR_TEXT),
    ],
)
@pytest.mark.parametrize("dialect", STREAMING)
def test_an_error_inside_a_good_status_is_seen(dialect: str, body: bytes, text: str) -> None:
    for before in (b"", SPOKEN[dialect]):
        framed = body + b"\n" if dialect == "ollama" else b"data: " + body + b"\n\n"
        assert tap(dialect, [before, framed])[1].error == text
    assert see_document(dialect, body).error == text


@pytest.mark.parametrize("dialect", [name for name in STREAMING if name != "ollama"])
def test_a_named_error_event_is_seen_whatever_it_carries(dialect: str) -> None:
    assert tap(dialect, b"event: error\ndata: out of memory\n\n")[1].error == "out of memory"
    assert tap(dialect, b"event: error\ndata:\n\n")[1].error == "error"


@pytest.mark.parametrize("dialect", STREAMING)
def test_what_the_gateway_says_itself_is_understood(dialect: str) -> None:
    """An error event counts as an error; a heartbeat says nothing at all."""
    speaks = DIALECTS[dialect]
    seen = tap(dialect, speaks.error_event(502, "upstream_died", "It died.", "r1"))[1]
    assert seen.error == "It died."
    assert not seen.finished
    assert see_document(dialect, speaks.error(502, "upstream_died", "It died.", "r1")).error == "It died."
    for path in ("", *ANSWERS):
        beat = tap(dialect, speaks.heartbeat(path))[1]
        assert (beat.first, beat.finished, beat.error, beat.usage) == (None, False, None, Usage())


@pytest.mark.parametrize("dialect", STREAMING)
def test_a_stream_that_breaks_can_be_closed_with_an_event(dialect: str) -> None:
    watch = DIALECTS[dialect].tap("", streaming=True)
    assert watch.at_boundary
    assert watch.feed(b'data: {"choices":[') == b""
    assert watch.at_boundary
    assert watch.abandon() == b""
    assert watch.close() == b""


@pytest.mark.parametrize("dialect", STREAMING)
def test_after_half_of_a_huge_event_an_error_starts_on_a_line_of_its_own(dialect: str) -> None:
    watch = DIALECTS[dialect].tap("", streaming=True)
    half = b'data: {"text":"' + b"x" * HOLD
    sent = watch.feed(half)
    assert sent == half
    assert not watch.at_boundary
    sent += watch.abandon() + DIALECTS[dialect].error_event(502, "upstream_died", "It died.", "r1")
    assert watch.at_boundary
    assert tap(dialect, sent)[1].error == "It died."


def test_the_last_event_is_read_although_it_repeats_the_whole_answer() -> None:
    """`response.completed` holds the response again, and Ollama's last line may hold its tokens: both exceed what is held."""
    reply = Reply(text="word " * 30_000, cached=2)
    stream = b"".join(SHAPES["/v1/responses"].stream(reply))
    reads = [stream[at : at + 5000] for at in range(0, len(stream), 5000)]
    out, seen = tap("openai_responses", reads)
    assert out == stream
    assert (seen.finished, seen.usage.cached) == (True, 2)
    last = json.dumps({"done": True, "context": [7] * 50_000, "prompt_eval_count": 9}).encode()
    out, seen = tap("ollama", [last[:70_000], last[70_000:], b"\n"])
    assert out == last + b"\n"
    assert (seen.finished, seen.usage.prompt) == (True, 9)


def test_a_document_too_large_to_read_is_finished_if_it_ends_as_one() -> None:
    head = b'{"usage":{"prompt_tokens":3},"x":"' + b"x" * LOOK
    for end, finished in ((b'"}', True), (b'"}\n', True), (b"", False)):
        seen = see_document("openai_chat", head + end, size=LOOK // 3)
        assert (seen.finished, seen.usage) == (finished, Usage())


def test_the_document_tap_knows_its_boundary() -> None:
    watch = DIALECTS["openai_chat"].tap("", streaming=False)
    assert watch.at_boundary
    watch.feed(b'{"choices":')
    assert not watch.at_boundary
    assert watch.abandon() == b""
    assert watch.close() == b""
    assert not watch.seen.finished


def test_closing_twice_changes_nothing() -> None:
    for streaming in (True, False):
        watch = DIALECTS["ollama"].tap("", streaming=streaming)
        watch.feed(b'{"done":true,"response":"x","prompt_eval_count":4}')
        watch.close()
        once = replace(watch.seen)
        assert watch.close() == b""
        assert watch.seen == once
