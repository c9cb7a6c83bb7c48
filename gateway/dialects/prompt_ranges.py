"""Where a value stands in a JSON document, as a byte range, so that it can be replaced without re-writing the rest. Pure.

The document has been read by a JSON parser before, so this is a scanner and no second parser: it finds ends, it does not
validate. A document that it cannot follow, or in which a key on the way occurs twice, is a `Doubt`, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import orjson

Path = tuple[str | int, ...]
"""Keys and indices from the document down to a value: `("messages", 0, "content")`."""

Span = tuple[int, int]
"""First byte and the byte after the last."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PLAIN = re.compile(rb"[^,\]}\s]++")
_NEXT_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_BACKSLASH = ord("\\")


class Doubt(ValueError):
    """The document is not what its parsed form says, or says it twice."""


def locate(raw: bytes, paths: Collection[Path], known: Sequence[bytes] = ()) -> dict[Path, Span]:
    """The byte range of the value at each of `paths`, found in one pass. Raises Doubt if one is missing or there twice.

    known: arrays or objects that may stand in the document's first level; one that does is stepped over without a scan.
    """
    found: dict[Path, Span] = {}
    _walk(raw, _skip_space(raw, 0), {path: path for path in paths}, found, known)
    return found


def _walk(raw: bytes, at: int, rests: dict[Path, Path], found: dict[Path, Span], known: Sequence[bytes] = ()) -> int:
    """Put the ranges below the value that starts at `at` into `found`; returns where that value ends.

    rests: each whole path -> what is left of it.
    """
    wanted: dict[str | int, dict[Path, Path]] = {}
    for path, rest in rests.items():
        wanted.setdefault(rest[0], {})[path] = rest[1:]
    missing = set(wanted)
    is_array = raw[at : at + 1] == b"["
    close = b"]" if is_array else b"}"
    at, index = _open(raw, at, b"[" if is_array else b"{"), 0
    while raw[at : at + 1] != close:
        step: str | int = index
        if not is_array:
            step, at = _key(raw, at)
        below = wanted.get(step)
        if below is None:
            end = _known_end(raw, at, known) or value_end(raw, at)
        elif step not in missing:
            raise Doubt(f"{step!r} is there twice")
        else:
            missing.discard(step)
            deeper = {path: rest for path, rest in below.items() if rest}
            end = _walk(raw, at, deeper, found) if deeper else _known_end(raw, at, known) or value_end(raw, at)
            found.update((path, (at, end)) for path in below if path not in deeper)
        at, index = _comma(raw, end, close), index + 1
    if missing:
        raise Doubt("a part is not where the parsed body has it")
    return at + 1


def _key(raw: bytes, at: int) -> tuple[str, int]:
    """The key that starts at `at`, and where its value starts."""
    end = value_end(raw, at)
    colon = _skip_space(raw, end)
    if raw[colon : colon + 1] != b":":
        raise Doubt(f"no colon at byte {colon}")
    return string(raw[at:end]), _skip_space(raw, colon + 1)


def value_end(raw: bytes, at: int) -> int:
    """The byte after the value that starts at `at`. Raises Doubt."""
    first = raw[at : at + 1]
    if first == b'"':
        return _string_end(raw, at)
    if first not in (b"[", b"{"):
        return _matched(_PLAIN, raw, at)
    depth = 0
    while True:
        at = _NEXT_BRACKET.match(raw, at).end()  # type: ignore[union-attr]  # matches at least the empty string
        bracket = raw[at : at + 1]
        if not bracket or bracket == b'"':
            raise Doubt("the document ends inside a value")
        depth += 1 if bracket in b"[{" else -1
        at += 1
        if not depth:
            return at


def _string_end(raw: bytes, at: int) -> int:
    """The byte after a string. Searching for the quote is much faster than a pattern, unless many quotes are escaped."""
    at += 1
    for _ in range(16):
        quote = raw.find(b'"', at)
        if quote < 0:
            break
        back = quote
        while back > at and raw[back - 1] == _BACKSLASH:
            back -= 1
        if (quote - back) % 2 == 0:
            return quote + 1
        at = quote + 1
    return _matched(_REST_OF_STRING, raw, at)


def _known_end(raw: bytes, at: int, known: Sequence[bytes]) -> int:
    """The end of a value that was seen before, 0 if it was not: an array or object that begins the same ends the same."""
    if raw[at : at + 1] not in (b"[", b"{"):
        return 0
    return next((at + len(value) for value in known if raw.startswith(value, at)), 0)


def string(literal: bytes) -> str:
    """The text of a JSON string literal. Raises Doubt."""
    if b"\\" not in literal and literal.isascii() and literal[:1] == literal[-1:] == b'"':
        return literal[1:-1].decode()
    try:
        text = orjson.loads(literal)
    except orjson.JSONDecodeError as error:
        raise Doubt("a string that cannot be read") from error
    if not isinstance(text, str):
        raise Doubt("not a string")
    return text


def splice(raw: bytes, changes: Iterable[tuple[Span, bytes]]) -> bytes:
    """`raw` with each range replaced. Ranges may come in any order and must not overlap. Raises Doubt if they do."""
    out: list[bytes] = []
    at = 0
    for (start, end), new in sorted(changes):
        if start < at:
            raise Doubt("overlapping changes")
        out += (raw[at:start], new)
        at = end
    return b"".join((*out, raw[at:]))


def _open(raw: bytes, at: int, bracket: bytes) -> int:
    if raw[at : at + 1] != bracket:
        raise Doubt(f"no {bracket.decode()} at byte {at}")
    return _skip_space(raw, at + 1)


def _comma(raw: bytes, at: int, close: bytes) -> int:
    """The start of the next item after one that ends at `at`, or the closing bracket."""
    at = _skip_space(raw, at)
    if raw[at : at + 1] == b",":
        return _skip_space(raw, at + 1)
    if raw[at : at + 1] != close:
        raise Doubt(f"neither a comma nor {close.decode()} at byte {at}")
    return at


def _skip_space(raw: bytes, at: int) -> int:
    if at < len(raw) and raw[at] > 32:
        return at  # as in all compact JSON
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]  # matches the empty string too


def _matched(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    match = pattern.match(raw, at)
    if not match:
        raise Doubt(f"no value at byte {at}")
    return match.end()
