"""JSON as servers really send it."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.lenient import dumps, loads


def test_what_only_pythons_parser_reads_is_read() -> None:
    assert loads(b'\xef\xbb\xbf{"a":1}') == {"a": 1}
    assert math.isnan(loads(b"[NaN]")[0])
    assert loads(rb'{"a":"\ud800"}') == {"a": "\ud800"}
    assert loads(b'{"a":"\xff"}') == {"a": "\N{REPLACEMENT CHARACTER}"}


def test_what_is_no_json_is_none() -> None:
    assert loads(b"") is None
    assert loads(b"data") is None
    assert loads(b"[" * 100_000) is None
    assert loads(b"9" * 100_000) is None


def test_text_without_utf8_is_escaped() -> None:
    assert dumps({"a": "\ud800", "b": 1}) == rb'{"a":"\ud800","b":1}'
    assert dumps({"a": "é"}) == '{"a":"é"}'.encode()


@given(st.binary())
def test_no_bytes_make_it_raise(data: bytes) -> None:
    loads(data)


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters())))
def test_what_is_written_is_read_again(value: dict[str, str]) -> None:
    assert json.loads(dumps(value)) == value
