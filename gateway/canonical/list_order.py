"""Rule `list_order`: a bullet list that is a permutation of an earlier one is given its first-seen order. Pure.

Off unless asked for, because order can mean rank; by default it is reported. Numbered lists are never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.canonical.cuts import Cut
from gateway.canonical.learned import Lines
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.text import Document

NAME = "list_order"
FEWEST, MOST = 3, 64
"""Items of a list, and lists of a route, that are looked at."""

MARKS = ("- ", "* ", "+ ", "• ")
_FIRST = frozenset({" ", "\t", *(mark[0] for mark in MARKS)})


@dataclass(frozen=True, slots=True)
class List:
    """A run of bullet lines [start, end). checks: a keyed checksum for each line, in order."""

    start: int
    end: int
    checks: tuple[int, ...]

    @property
    def key(self) -> str:
        """The same for every order of the same items."""
        return f"{sum(self.checks):x}-{len(self.checks):x}"


def find(document: Document, lines: Lines) -> tuple[List, ...]:
    """The plain bullet lists of a text: one line an item, one indentation. lines: of the same text."""
    return tuple(_lists(document, lines.checks))


def judge(
    texts: Sequence[str], lists: Sequence[Sequence[List]], route: bytes, memory: Memory
) -> tuple[list[list[Cut]], list[Row]]:
    """For each text the lists that came in another order than at first, and what to remember."""
    known: dict[str, list[int]] = memory.get("lists", route) or {}
    now = dict(known)
    cuts: list[list[Cut]] = []
    for text, found in zip(texts, lists, strict=True):
        cuts.append([])
        for one in found:
            first = now.setdefault(one.key, list(one.checks)) if len(now) < MOST else now.get(one.key)
            if first and first != list(one.checks):
                cuts[-1].append(_restored(text, one, first))
    return cuts, [Row("lists", route, now)] if now != known else []


def _restored(text: str, one: List, first: Sequence[int]) -> Cut:
    lines = dict(zip(one.checks, text[one.start : one.end].split("\n"), strict=True))
    return Cut(one.start, one.end, NAME, "", "", "", "\n".join(lines[check] for check in first))


def _lists(document: Document, checks: Sequence[int]) -> Iterator[List]:
    first, indent = -1, 0  # the run of items that is open
    for number, line in enumerate(document.lines[: len(checks)]):
        bare = line.lstrip() if line[:1] in _FIRST else ""
        is_item = bare.startswith(MARKS) and document.prose(number)
        if first >= 0 and not (is_item and len(line) - len(bare) == indent):
            yield from _list(document, first, number, checks)
            first = -1
        if is_item and first < 0:
            first, indent = number, len(line) - len(bare)
    if first >= 0:
        yield from _list(document, first, min(len(document.lines), len(checks)), checks)


def _list(document: Document, first: int, end: int, all_checks: Sequence[int]) -> Iterator[List]:
    """The items [first, end) as a list, unless it is short, has items twice, or its last item goes on in the line below."""
    if end - first < FEWEST or (not document.blank(end) and _indent(document, end) > 0):
        return
    checks = tuple(all_checks[first:end])
    if len(set(checks)) == len(checks):
        yield List(document.starts[first], document.starts[end] - 1, checks)


def _indent(document: Document, number: int) -> int:
    line = document.lines[number]
    return len(line) - len(line.lstrip())
