"""Lines cut out of a byte stream, wherever the reads end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.frames import HOLD
from gateway.wire.ndjson import Lines, parse


def test_a_line_is_forwarded_when_it_is_complete() -> None:
    lines = Lines()
    assert lines.feed(b'{"a"') == (b"", b"")
    assert lines.feed(b':1}\n{"b"') == (b'{"a":1}\n', b'{"a":1}\n')
    assert lines.feed(b":2}\r\n") == (b'{"b":2}\r\n', b'{"b":2}\r\n')
    assert lines.close() == (b"", b"")


def test_the_last_line_needs_no_end() -> None:
    lines = Lines()
    lines.feed(b'{"done":true}')
    assert lines.close() == (b'{"done":true}', b'{"done":true}')


def test_a_huge_line_is_forwarded_early() -> None:
    lines, half = Lines(), b"[" * (HOLD + 1)
    assert lines.feed(half) == (half, b"")
    assert lines.torn
    assert lines.feed(b"]\n") == (b"]\n", half + b"]\n")


def test_a_line_has_no_name_and_no_end() -> None:
    assert parse(b'{"a":1}\r\n') == (b"", b'{"a":1}')


@given(st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"x", b"\n"))), st.integers(1, 9))
def test_lines_do_not_depend_on_the_reads(reads: list[bytes], size: int) -> None:
    stream = b"".join(reads)
    lines, forwarded, frames = Lines(), [], []
    for at in range(0, len(stream), size):
        forward, whole = lines.feed(stream[at : at + size])
        forwarded.append(forward)
        frames += lines.split(whole)
    forward, last = lines.close()
    assert b"".join([*forwarded, forward]) == stream
    assert frames + lines.split(last) == stream.splitlines(keepends=True) or b"\r" in stream
    assert b"".join(frames) + last == stream
