"""What changed goes into the client's own bytes, and everything else keeps its spelling."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.prompt import Prompt, Text
from gateway.dialects.prompt_ranges import Doubt, locate, splice, value_end
from gateway.dialects.prompt_read import read
from gateway.dialects.prompt_write import render

CHAT = "/v1/chat/completions"


def prompt_of(path: str, raw: bytes) -> Prompt:
    prompt = read(path, json.loads(raw))
    assert prompt is not None
    return prompt


def test_an_edited_text_is_spliced_and_the_rest_keeps_its_bytes() -> None:
    system = b'{"role":"system", "content" : "a\\u00e9\\/b" }'
    raw = b'{ "n":1.10,\n "messages": [ ' + system + b',{"role":"user","content":"hi \\"you\\""} ],"z":1e400 }'
    before = prompt_of(CHAT, raw)
    after = replace(before, system=(Text(before.system[0].path, 'new "text"\n'),))
    assert render(raw, before, after) == raw.replace(b'"a\\u00e9\\/b"', b'"new \\"text\\"\\n"')


def test_nothing_changed_is_the_same_object() -> None:
    raw = b'{"messages":[{"role":"user","content":"hi"}]}'
    assert render(raw, prompt_of(CHAT, raw), prompt_of(CHAT, raw)) is raw


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_block_goes_with_its_comma(gone: int) -> None:
    blocks = [b'{"type":"text","text":"%d"}' % at for at in range(3)]
    raw = b'{"system":[' + b" , ".join(blocks) + b'],"messages":[{"role":"user","content":"hi"}]}'
    before = prompt_of("/v1/messages", raw)
    after = replace(before, system=tuple(text for at, text in enumerate(before.system) if at != gone))
    left = json.loads(render(raw, before, after))["system"]
    assert [block["text"] for block in left] == [str(at) for at in range(3) if at != gone]


def test_only_a_block_can_go() -> None:
    raw = b'{"messages":[{"role":"system","content":"x"},{"role":"user","content":"hi"}]}'
    before = prompt_of(CHAT, raw)
    with pytest.raises(Doubt):
        render(raw, before, replace(before, system=()))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"role":"system","content":"x"}],"messages":[{"role":"system","content":"y"},{"role":"user","content":"hi"}]}',
        b'{"messages":[{"role":"system","content":"x","content":"y"},{"role":"user","content":"hi"}]}',
    ],
)
def test_a_key_that_is_there_twice_is_a_doubt(raw: bytes) -> None:
    before = prompt_of(CHAT, raw)
    with pytest.raises(Doubt):
        render(raw, before, replace(before, system=(Text(before.system[0].path, "new"),)))


def test_bytes_that_say_something_else_are_a_doubt() -> None:
    raw = b'{"messages":[{"role":"system","content":"x"},{"role":"user","content":"hi"}]}'
    before = prompt_of(CHAT, raw)
    other = raw.replace(b'"x"', b'"y"')
    with pytest.raises(Doubt):
        render(other, before, replace(before, system=(Text(before.system[0].path, "new"),)))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b'{"a"', b'{"a":"x', b'{"a":[1,2', b'{"a":{"b":"\\', b'{"a" 1}', b'{"a":1 "b":2}', b"[1]"]
)
def test_documents_that_end_early_or_are_none_are_a_doubt(raw: bytes) -> None:
    with pytest.raises(Doubt):
        locate(raw, [("a", "b")])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values, min_size=1), st.booleans(), st.sampled_from([None, 1]))
def test_every_value_is_found_where_it_is(document: dict[str, Any], escaped: bool, indent: int | None) -> None:
    raw = json.dumps(document, ensure_ascii=escaped, indent=indent).encode("utf-8", "surrogatepass")
    paths: list[Any] = [(key,) for key in document]
    paths += [(key, at) for key, value in document.items() if isinstance(value, list) for at in range(len(value))]
    spans = locate(raw, [path for path in paths if len(path) == 2] or paths)
    for path, (start, end) in spans.items():
        value = document[path[0]] if len(path) == 1 else document[path[0]][path[1]]
        assert json.loads(raw[start:end]) == value


@given(st.text())
def test_a_string_ends_where_it_ends(text: str) -> None:
    for literal in (json.dumps(text).encode(), orjson.dumps(text)):
        assert value_end(literal + b'"', 0) == len(literal)


def test_a_known_value_is_stepped_over() -> None:
    raw = b'{"tools":[{"a":"]"}],"messages":[1]}'
    assert locate(raw, [("tools",), ("messages",)], [b'[{"a":"]"}]']) == {("tools",): (9, 20), ("messages",): (32, 35)}


def test_overlapping_changes_are_a_doubt() -> None:
    assert splice(b"abc", [((1, 2), b"X")]) == b"aXc"
    with pytest.raises(Doubt):
        splice(b"abc", [((0, 2), b"X"), ((1, 3), b"Y")])
