"""Routes: the requests among which evidence is gathered. Pure.

A route is one API, one model, one client and one kind of system text. Two system texts are of one kind when their skeletons
(the text with what rules take out, and digits, masked) have most lines in common, so that a changed word or an added paragraph
does not make a stranger of them. The id of a route comes from the first skeleton seen.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.canonical.digests import checks, digest, encode
from gateway.canonical.ledger import Memory, Row

ALIKE = 0.6
"""Share of common lines from which on two skeletons are of one kind."""

SHORT = 3
"""Lines of a text that is so short that one changed line makes it less than `ALIKE`: there, one may differ on either side."""

SKETCH = 96
"""Lines of a skeleton that are compared: those with the smallest checksums, an unbiased sample of a long text."""

MAX_ROUTES = 16
"""Kinds of system text remembered for one client and model."""

_DIGITS = bytes.maketrans(b"123456789", b"000000000")


@dataclass(frozen=True, slots=True)
class Skeleton:
    """key: digest of the whole skeleton; sketch: keyed checksums of a sample of its lines, ascending."""

    key: bytes
    sketch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """known: whether a request of this route was seen before."""

    id: bytes
    known: bool


def skeleton(texts: Sequence[str], secret: bytes = b"") -> Skeleton:
    """The skeleton of system texts from which what rules take out is gone already. secret: keys the sketch."""
    masked = _mask(encode("\n".join(texts)))
    lines = {zlib.crc32(stripped): stripped for line in masked.split(b"\n") if (stripped := line.strip())}
    sample = [lines[check] for check in sorted(lines)[:SKETCH]]  # by a quick checksum; what is kept of them is keyed
    return Skeleton(digest(secret, masked), tuple(sorted(checks(secret, sample))))


def _mask(text: bytes) -> bytes:
    """The text with every run of digits as one zero."""
    text = text.translate(_DIGITS)
    while b"00" in text:
        text = text.replace(b"00", b"0")
    return text


def resolve(scope: bytes, shape: Skeleton, memory: Memory) -> tuple[Route, list[Row]]:
    """The route of a request, and what to remember. scope: digest of API, model and client."""
    exact = digest(b"", scope, shape.key)
    if (found := memory.get("route", exact)) is not None:
        return Route(bytes.fromhex(found), True), []
    known = memory.get("routes", scope) or []
    best = max(known, key=lambda one: _likeness(one[1], shape.sketch), default=None)
    if best is not None and _alike(best[1], shape.sketch):
        return Route(bytes.fromhex(best[0]), True), [Row("route", exact, best[0])]
    rows = [
        Row("route", exact, exact.hex()),
        Row("routes", scope, [*known[1 - MAX_ROUTES :], [exact.hex(), list(shape.sketch)]]),
    ]
    return Route(exact, False), rows


def _alike(one: Sequence[int], other: Sequence[int]) -> bool:
    common, most = len({*one} & {*other}), max(len(one), len(other))
    return _likeness(one, other) >= ALIKE or (common > 0 and most <= SHORT and most - common <= 1)


def _likeness(one: Sequence[int], other: Sequence[int]) -> float:
    """Estimated share of lines that two texts have in common (Jaccard index of the samples)."""
    union = {*one, *other}
    return len({*one} & {*other}) / len(union) if union else 1.0
