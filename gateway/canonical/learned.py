"""Rule `learned`: lines that change between requests of one route while their neighbours stay. Pure.

Off unless asked for, because a change may be meant; by default it is reported from the first change on. As a rule it moves a
line that has changed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.canonical.cuts import SEAM, Cut
from gateway.canonical.digests import checks, encode
from gateway.canonical.ledger import Memory, Row

NAME = "learned"
CHANGES = 2
"""Changes of a line from which on it moves."""
LINES, NEAR, MOST = 3000, 8, 64
"""Lines of a text that are compared, lines of one change, and changing lines of a route."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A text's lines without what other rules take out. checks: one keyed checksum for each; not to be changed."""

    text: str
    checks: list[int]


@dataclass(frozen=True, slots=True)
class Change:
    """A line that is not what it was. times: how often it changed so far."""

    cut: Cut
    times: int


def lines(text: str, secret: bytes) -> Lines:
    return Lines(text, checks(secret, encode(text).split(b"\n", LINES)[:LINES]))


def judge(now: Lines, route: bytes, memory: Memory) -> tuple[list[Change], list[Row]]:
    """Lines that change in this route, as cuts of `now.text`, and what to remember."""
    known = memory.get("lines", route)
    if known is None:
        return [], [Row("lines", route, [now.checks, {}])]
    before, counts = known
    if before == now.checks and not counts:
        return [], []
    counts = dict(counts)
    for at in _differing(before, now.checks):
        place = _between(now.checks, at)
        if place in counts or len(counts) < MOST:
            counts[place] = counts.get(place, 0) + 1
    places = ((at, _between(now.checks, at)) for at in range(len(now.checks)) if counts)
    changes = [Change(_cut(now.text, at), counts[place]) for at, place in places if place in counts]
    changes = [change for change in changes if change.cut.value not in ("", SEAM)]
    rows = [Row("lines", route, [now.checks, counts])] if now.checks != before else []
    return changes, rows


def _differing(before: Sequence[int], now: Sequence[int]) -> Iterator[int]:
    """Lines of `now` between the common head and the common tail, if they are few."""
    head = 0
    while head < min(len(before), len(now)) and before[head] == now[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(now)) - head and before[-1 - tail] == now[-1 - tail]:
        tail += 1
    if head + tail and len(now) - tail - head <= NEAR:
        yield from range(head, len(now) - tail)


def _between(checks: Sequence[int], at: int) -> str:
    """The place of a line, by its neighbours."""
    above = checks[at - 1] if at else 0
    below = checks[at + 1] if at + 1 < len(checks) else 0
    return f"{above:x}-{below:x}"


def _cut(text: str, number: int) -> Cut:
    line = text.split("\n")[number]
    start = sum(len(above) + 1 for above in text.split("\n")[:number])
    return Cut(start, start + len(line), NAME, "Also", line.strip(), line.strip(), SEAM)
