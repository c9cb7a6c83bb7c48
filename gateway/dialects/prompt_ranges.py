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
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_PLAIN = re.compile(rb"[^,\]}\s]++")
_NEXT_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)


class Doubt(ValueError):
    """The document is not what its parsed form says, or says it twice."""


def locate(raw: bytes, paths: Collection[Path], known: Sequence[bytes] = ()) -> dict[Path, Span]:
    """The byte range of the value at each of `paths`, found in one pass. Raises Doubt if one is missing or there twice.

    known: arrays or objects that may stand in the document's first level; one that does is stepped over without a scan.
    """
    return dict(_walk(raw, _skip_space(raw, 0), {path: path for path in paths}, known))


def _walk(raw: bytes, at: int, rests: dict[Path, Path], known: Sequence[bytes] = ()) -> Iterable[tuple[Path, Span]]:
    """Ranges below the value that starts at `at`; `rests` maps each whole path to what is left of it."""
    wanted: dict[str | int, dict[Path, Path]] = {}
    for path, rest in rests.items():
        wanted.setdefault(rest[0], {})[path] = rest[1:]
    items: Iterable[tuple[str | int, Span]] = enumerate(elements(raw, at)) if raw[at : at + 1] == b"[" else members(raw, at, known)
    seen: set[str | int] = set()
    for step, span in items:
        if step not in wanted:
            continue
        if step in seen:
            raise Doubt(f"{step!r} is there twice")
        seen.add(step)
        below = {path: rest for path, rest in wanted[step].items() if rest}
        yield from ((path, span) for path in wanted[step] if path not in below)
        if below:
            yield from _walk(raw, span[0], below)
    if len(seen) < len(wanted):
        raise Doubt("a part is not where the parsed body has it")


def elements(raw: bytes, at: int) -> Iterable[Span]:
    """The byte ranges of all elements of the array that starts at `at`. Raises Doubt."""
    at = _open(raw, at, b"[")
    while raw[at : at + 1] != b"]":
        end = value_end(raw, at)
        yield at, end
        at = _comma(raw, end, b"]")


def members(raw: bytes, at: int, known: Sequence[bytes] = ()) -> Iterable[tuple[str, Span]]:
    """Key and byte range of the value of each member of the object that starts at `at`. Raises Doubt."""
    at = _open(raw, at, b"{")
    while raw[at : at + 1] != b"}":
        key_end = value_end(raw, at)
        colon = _skip_space(raw, key_end)
        if raw[colon : colon + 1] != b":":
            raise Doubt(f"no colon at byte {colon}")
        start = _skip_space(raw, colon + 1)
        end = _known_end(raw, start, known) or value_end(raw, start)
        yield string(raw[at:key_end]), (start, end)
        at = _comma(raw, end, b"}")


def value_end(raw: bytes, at: int) -> int:
    """The byte after the value that starts at `at`. Raises Doubt."""
    first = raw[at : at + 1]
    if first == b'"':
        return _matched(_STRING, raw, at)
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


def _known_end(raw: bytes, at: int, known: Sequence[bytes]) -> int:
    """The end of a value that was seen before, 0 if it was not: an array or object that begins the same ends the same."""
    if raw[at : at + 1] not in (b"[", b"{"):
        return 0
    return next((at + len(value) for value in known if raw.startswith(value, at)), 0)


def string(literal: bytes) -> str:
    """The text of a JSON string literal. Raises Doubt."""
    try:
        text = orjson.loads(literal)
    except orjson.JSONDecodeError as error:
        raise Doubt("a string that cannot be read") from error
    if not isinstance(text, str):
        raise Doubt("not a string")
    return text


def splice(raw: bytes, changes: Iterable[tuple[Span, bytes]]) -> bytes:
    """`raw` with each range replaced. Ranges may come in any order and must not overlap. Raises Doubt if they do."""
    out, at = [], 0
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
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]  # matches the empty string too


def _matched(pattern: re.Pattern[bytes], raw: bytes, at: int) -> int:
    match = pattern.match(raw, at)
    if not match:
        raise Doubt(f"no value at byte {at}")
    return match.end()
