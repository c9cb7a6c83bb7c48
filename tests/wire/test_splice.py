"""Fields of raw JSON changed by byte range, and every other byte left alone."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.splice import Malformed, find_values, head_field, set_fields

names = st.sampled_from(["model", "id_slot", "a", "é", '"', "\\", "{", ""]) | st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(names, values, max_size=6)
styles: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 0, 2, "\t", "\r\n"]), "ensure_ascii": st.booleans()}
)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"model":"a"}', [b'"a"']),
        (b' { "x" : {"model": 1} , "model" :\t[1, "]"] } ', [b'[1, "]"]']),
        (b'{"mod\\u0065l":1,"model":2}', [b"1", b"2"]),
        (b'{"x":"model","y":{"model":3}}', []),
        (b'{"x":"a \\" } , \\"model\\": 1","model":-1.5e+7}', [b"-1.5e+7"]),
        (b"{}", []),
        (b'\xef\xbb\xbf{"model":null,"z":1}', [b"null"]),
        (b'{"x":' + b"[" * 50 + b'"model"' + b"]" * 50 + b',"model":true}', [b"true"]),
        (b'{"x":"\xff\xfe","model":1}', [b"1"]),
    ],
)
def test_find_values(raw: bytes, found: list[bytes]) -> None:
    assert [raw[start:end] for start, end in find_values(raw, "model")] == found


def test_fields_are_replaced_in_place_and_new_ones_are_put_first() -> None:
    raw = b' {  "n": 1.10, "model": "a", "big": 123456789012345678901234567890, "model": "b" }\n'
    assert set_fields(raw, {"model": b'"c"', "id_slot": b"2", "u": b"{}"}) == (
        b' {"id_slot":2,"u":{},  "n": 1.10, "model": "c", "big": 123456789012345678901234567890, "model": "c" }\n'
    )


def test_an_empty_object_gets_no_comma() -> None:
    assert set_fields(b"{ \n}", {"a": b"1"}) == b'{"a":1 \n}'
    assert set_fields(b"{}", {}) == b"{}"


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b'"a"', b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1,', b'{"a":[', b'{"a":"b', b'{"a":1 "b":2}', b"{a:1}"],
)
def test_what_is_no_whole_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        set_fields(raw, {"model": b"1"})
    assert head_field(raw, "model") is None


@given(objects, names, values, styles)
def test_the_result_is_the_object_with_the_change(body: dict[str, Any], name: str, value: Any, style: dict[str, Any]) -> None:
    raw = json.dumps(body, **style).encode("utf-8", "surrogatepass")
    result = set_fields(raw, {name: json.dumps(value).encode()})
    assert json.loads(result) == {**body, name: value}
    for start, end in reversed(find_values(result, name)):
        result = result[:start] + result[end:]
    for start, end in reversed(find_values(raw, name)):
        raw = raw[:start] + raw[end:]
    assert result.endswith(raw[1:])
    assert name in body or result == b"{" + json.dumps(name).encode() + b":" + (b"," if body else b"") + raw[1:]


@given(objects, names, styles)
def test_values_are_found_at_the_top_only(body: dict[str, Any], name: str, style: dict[str, Any]) -> None:
    raw = json.dumps({**body, "nested": {name: {"deeper": [{name: 1}]}}}, **style).encode("utf-8", "surrogatepass")
    found = [json.loads(raw[start:end]) for start, end in find_values(raw, name)]
    assert found == [json.loads(raw)[name]] if name in json.loads(raw) else found == []


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 10, 11, 200])
def test_depth_does_not_matter(depth: int) -> None:
    deep: Any = ["}", {"model": '"'}]
    for level in range(depth):
        deep = {"model": deep, "x": []} if level % 2 else [deep, {}, "["]
    raw = orjson.dumps({"deep": deep, "model": "a"})
    assert find_values(raw, "model") == [(len(raw) - 4, len(raw) - 1)]


def test_a_field_is_found_in_a_head_that_is_cut_off() -> None:
    raw = b'{"a": {"model": "no"}, "model": "gemma\\u0033:4b", "file": "' + b"x" * 100
    assert head_field(raw, "model") == "gemma3:4b"
    assert head_field(raw, "file") is None
    assert head_field(raw[:40], "model") is None
    assert head_field(b'{"model": 3}', "model") is None
    assert head_field(b'{"model":"a","model":"b"}', "model") == "b"
    assert head_field(b'{"model":"a\xff', "model") is None
    assert head_field(b'{"model":"\xff"}', "model") is None


@given(objects, st.data())
def test_a_head_never_tells_anything_else_than_the_whole(body: dict[str, Any], data: st.DataObject) -> None:
    raw = json.dumps({**{key: value for key, value in body.items() if key != "model"}, "model": "m"}).encode()
    cut = data.draw(st.integers(0, len(raw)))
    assert head_field(raw[:cut], "model") == ("m" if cut >= len(raw) - 1 else None)


@given(st.binary(), st.sampled_from([b"", b"{", b'{"model":', b'{"a":[{"', b'{"a":"\\']))
def test_no_bytes_make_it_raise(tail: bytes, head: bytes) -> None:
    head_field(head + tail, "model")
    try:
        set_fields(head + tail, {"model": b"1"})
    except Malformed:
        pass


def test_a_large_body_is_walked_in_few_steps() -> None:
    """Time grows with the length, not with its square: backslashes, quotes and open brackets are what backtracks."""
    for filler in (b"\\\\" * 500_000, b'\\"' * 500_000, b"[{" * 200_000):
        raw = b'{"x":"' + filler + b'","model":1}'
        assert find_values(raw, "model") == [(len(raw) - 2, len(raw) - 1)]
        with pytest.raises(Malformed):
            find_values(raw[:-12], "model")
    with pytest.raises(Malformed):
        find_values(b'{"x":' + b'[{"":' * 100_000, "model")
