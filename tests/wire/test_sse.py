"""Events cut out of a byte stream, wherever the reads end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.frames import HOLD, LOOK
from gateway.wire.sse import COMMENT, Events, parse

EVENT = b'data: {"a":"\xc3\xa9"}\n\n'


def cut(reads: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """(what was forwarded, the whole frames) after all reads and the close."""
    events, forwarded, frames = Events(), [], []
    for read in reads:
        forward, whole = events.feed(read)
        forwarded.append(forward)
        frames += events.split(whole)
    forward, last = events.close()
    return [*forwarded, forward], frames + events.split(last)


def test_an_event_is_forwarded_when_it_is_complete() -> None:
    forwarded, frames = cut([EVENT[:9], EVENT[9:-1], EVENT[-1:]])
    assert forwarded == [b"", b"", EVENT, b""]
    assert frames == [EVENT]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\r\n\n", b"\r\r"])
def test_every_spelling_of_a_blank_line_ends_an_event(end: bytes) -> None:
    stream = b"data: 1" + end + b"data: 2" + end
    for at in range(len(stream)):
        forwarded, frames = cut([stream[:at], stream[at:]])
        assert b"".join(forwarded) == stream
        assert [parse(frame)[1] for frame in frames] == [b"1", b"2"]


def test_what_follows_the_last_boundary_is_held_back() -> None:
    events = Events()
    assert events.feed(EVENT + b"data: {") == (EVENT, EVENT)
    assert not events.torn
    assert events.close() == (b"data: {", b"data: {")
    assert events.close() == (b"", b"")


def test_a_huge_event_is_forwarded_early_and_still_read_whole() -> None:
    events, half = Events(), b"data: " + b"x" * HOLD
    assert events.feed(half) == (half, b"")
    assert events.torn
    assert events.feed(b"yy") == (b"yy", b"")
    assert events.feed(b"zz\n\n" + EVENT) == (b"zz\n\n" + EVENT, half + b"yyzz\n\n" + EVENT)
    assert not events.torn
    assert events.feed(EVENT) == (EVENT, EVENT)


def test_an_event_that_is_too_large_to_read_does_not_grow_and_the_next_is_read() -> None:
    events, piece = Events(), b"x" * (LOOK // 4)
    for _ in range(9):
        assert events.feed(piece) == (piece, b"")
        assert len(events._held) <= LOOK + len(piece)
    assert events.feed(b"\n") == (b"\n", b"")
    forward, whole = events.feed(b"\n" + EVENT)
    assert forward == b"\n" + EVENT
    assert whole == EVENT


@pytest.mark.parametrize(
    ("frame", "event", "data"),
    [
        (b"data: {}\n\n", b"", b"{}"),
        (b"data:{}\n\n", b"", b"{}"),
        (b"data: {}\r\n\r\n", b"", b"{}"),
        (b"\xef\xbb\xbfdata: {}\n\n", b"", b"{}"),
        (b"event: ping\ndata: {}\n\n", b"ping", b"{}"),
        (b"data: {}\nevent:ping\n\n", b"ping", b"{}"),
        (b'data: {"a":\ndata: 1}\n\n', b"", b'{"a":\n 1}'),
        (b": a comment\n\n", b"", b""),
        (b": a comment\ndata: 1\nid: 7\nretry: 5\n\n", b"", b"1"),
        (b"\n\r\n", b"", b""),
        (b"data: {}", b"", b"{}"),
        (b"data: 1\nx\n", b"", b"1"),
        (b"data\n\n", b"", b""),
        (b"event: ping\rdata: 1\r\r", b"ping", b"1"),
        (COMMENT, b"", b""),
    ],
)
def test_parse(frame: bytes, event: bytes, data: bytes) -> None:
    assert parse(frame) == (event, data)


@given(
    st.lists(
        st.lists(st.sampled_from([b"data: a", b"\n", b"\r", b"\n\n", b"\r\r", b"\r\n\r\n", b"\xf0\x9f", b":"]), max_size=8)
    )
)
def test_frames_do_not_depend_on_the_reads(pieces: list[list[bytes]]) -> None:
    reads = [b"".join(read) for read in pieces]
    forwarded, frames = cut(reads)
    assert b"".join(forwarded) == b"".join(frames) == b"".join(reads)
    at_once = cut([b"".join(reads)])[1]
    assert [parse(frame) for frame in frames if frame.strip()] == [parse(frame) for frame in at_once if frame.strip()]
