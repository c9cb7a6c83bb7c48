"""Rule `list_order`: a bullet list that is a permutation of an earlier one is given its first-seen order. Pure.

Off unless asked for, because order can mean rank; by default it is reported. Numbered lists are never touched.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.canonical.cuts import Cut
from gateway.canonical.digests import encode
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.text import Document

NAME = "list_order"
FEWEST, MOST = 3, 64
"""Items of a list, and lists of a route, that are looked at."""

MARKS = ("- ", "* ", "+ ", "• ")


@dataclass(frozen=True, slots=True)
class List:
    """A run of bullet lines [start, end). checks: a checksum for each line, in order."""

    start: int
    end: int
    checks: tuple[int, ...]

    @property
    def key(self) -> str:
        """The same for every order of the same items."""
        return f"{zlib.crc32(repr(sorted(self.checks)).encode()):08x}{len(self.checks):x}"


def find(document: Document) -> tuple[List, ...]:
    """The plain bullet lists of a text: one line an item, one indentation."""
    return tuple(_lists(document))


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


def _lists(document: Document) -> Iterator[List]:
    bullets = [
        number for number, line in enumerate(document.lines) if line.lstrip().startswith(MARKS) and document.prose(number)
    ]
    run: list[int] = []
    for number in bullets:
        if run and (number != run[-1] + 1 or _indent(document, number) != _indent(document, run[0])):
            yield from _list(document, run)
            run = []
        run.append(number)
    yield from _list(document, run)


def _list(document: Document, run: Sequence[int]) -> Iterator[List]:
    """A run of items as a list, unless it is short, has items twice, or its last item goes on in the line below."""
    if len(run) < FEWEST or (not document.blank(run[-1] + 1) and _indent(document, run[-1] + 1) > 0):
        return
    checks = tuple(zlib.crc32(encode(document.lines[at])) for at in run)
    if len(set(checks)) == len(checks):
        yield List(document.starts[run[0]], document.starts[run[-1]] + len(document.lines[run[-1]]), checks)


def _indent(document: Document, number: int) -> int:
    line = document.lines[number]
    return len(line) - len(line.lstrip())
