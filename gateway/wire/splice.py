"""Top-level fields of a JSON object by byte range, so that one field can change and every other byte stay the client's.

Re-serialising would turn 1.10 into 1.1 and integers above 64 bits into floats, and drop duplicate keys. The walk is driven by
patterns without backtracking: one step a member, and one more for each bracket nested deeper than eight levels. Only the
structure that the walk passes is checked: this is no validator. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_OTHER = rb'[^"{}\[\]]*+'


def _inside(levels: int) -> bytes:
    """A pattern for what stands between two brackets, if it is nested at most so deep."""
    item = _STRING if levels == 0 else _STRING + rb"|[{\[]" + _inside(levels - 1) + rb"[}\]]"
    return _OTHER + rb"(?:(?:" + item + rb")" + _OTHER + rb")*+"


_OPEN = re.compile(rb"(?:\xef\xbb\xbf)?+" + _SPACE + rb"\{" + _SPACE)
_KEY = re.compile(rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_PLAIN = re.compile(_STRING + rb'|[^\s"{}\[\],:]++', re.DOTALL)
_BRACKET = re.compile(_inside(8) + rb"([{}\[\]])", re.DOTALL)  # the next one that does not belong to a pair inside
_NEXT = re.compile(_SPACE + rb"([,}])" + _SPACE)

Range = tuple[int, int]


class Malformed(ValueError):
    """The bytes are no JSON object, or end before it does."""


def find_values(raw: bytes, name: str) -> list[Range]:
    """Where the values of a top-level field begin and end, in order; more than one if the key is repeated, which parsers allow.

    A key may be spelled with escapes. Raises Malformed.
    """
    return [(start, end) for key, start, end in _members(raw) if key == name]


def set_fields(raw: bytes, fields: Mapping[str, bytes]) -> bytes:
    """The object with these top-level fields set to these JSON values. All other bytes stay as they are.

    Every occurrence of a field is replaced, because servers differ in which one counts; a field that is missing is put first.
    Raises Malformed.
    """
    found: set[str] = set()
    pieces: list[bytes] = []
    at = 0
    for key, start, end in _members(raw):
        if key is not None and key in fields:
            found.add(key)
            pieces += (raw[at:start], fields[key])
            at = end
    pieces.append(raw[at:])
    new = [json.dumps(name).encode() + b":" + value for name, value in fields.items() if name not in found]
    if new:
        brace = raw.index(b"{") + 1
        opened = _OPEN.match(raw)
        comma = b"" if opened and raw[opened.end() : opened.end() + 1] == b"}" else b","
        pieces[0] = raw[:brace] + b",".join(new) + comma + pieces[0][brace:]
    return b"".join(pieces)


def head_field(prefix: bytes, name: str) -> str | None:
    """The text of a top-level string field within the head of a JSON object, which may be cut off anywhere. Never raises.

    None if the field is not in the head or is no string. If it is there twice, the last one counts, as with most parsers.
    """
    value = None
    try:
        for key, start, end in _members(prefix):
            if key == name:
                value = _text(prefix[start:end])
    except Malformed:
        pass
    return value


def _members(raw: bytes) -> Iterator[tuple[str | None, int, int]]:
    """(key, start of its value, end of its value) of each top-level member. Raises Malformed where the walk cannot go on."""
    opened = _OPEN.match(raw)
    if not opened:
        raise Malformed("not a JSON object")
    at = opened.end()
    if raw[at : at + 1] == b"}":
        return
    while True:
        key = _KEY.match(raw, at)
        if not key:
            raise Malformed(f"no key at byte {at}")
        start = key.end()
        end = _end_of_value(raw, start)
        yield _text(key[1]), start, end
        following = _NEXT.match(raw, end)
        if not following:
            raise Malformed(f"neither a comma nor a brace at byte {end}")
        if following[1] == b"}":
            return
        at = following.end()


def _end_of_value(raw: bytes, start: int) -> int:
    if raw[start : start + 1] not in (b"{", b"["):
        plain = _PLAIN.match(raw, start)
        if not plain:
            raise Malformed(f"no value at byte {start}")
        return plain.end()
    depth, at = 1, start + 1
    while depth:
        bracket = _BRACKET.match(raw, at)
        if not bracket:
            raise Malformed(f"the value at byte {start} does not end")
        depth += 1 if bracket[1] in b"{[" else -1
        at = bracket.end()
    return at


def _text(quoted: bytes) -> str | None:
    """What a JSON string says, None if the bytes are no JSON string."""
    try:
        if quoted[:1] == b'"' and b"\\" not in quoted:
            return quoted[1:-1].decode()
        text = json.loads(quoted.decode())
    except ValueError:
        return None
    return text if isinstance(text, str) else None
