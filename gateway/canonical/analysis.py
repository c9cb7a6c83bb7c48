"""What the rules find in one system text, remembered by the text itself. Pure but for its bounded memo.

Everything here depends on the text and the settings only, so a client that sends the same text again costs two look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gateway.canonical import attribution, learned, list_order, memory, place_paths, user_rules
from gateway.canonical.cuts import Cut, Item, apply, items, settle
from gateway.canonical.route import Skeleton, skeleton
from gateway.canonical.rules import find
from gateway.canonical.settings import Settings
from gateway.canonical.text import Document

Value = TypeVar("Value")
Key = Any  # hashable; a tuple of different things for each memo


class Memo(Generic[Value]):
    """The latest `limit` results by key; the longest unused goes first. Its one writer is `get`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[Key, Value] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        value = self._values.pop(key, None)
        if value is None:
            value = make()
            if len(self._values) >= self._limit:
                del self._values[next(iter(self._values))]
        self._values[key] = value
        return value

    def peek(self, key: Key) -> Value | None:
        """A result that is there, without making one or keeping it longer."""
        return self._values.get(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)


@dataclass(frozen=True, slots=True)
class Analysis:
    """cuts: settled, of all rules that need no evidence; off: those of rules that are only observed; blocks: memory blocks."""

    text: str
    first: bool
    cuts: tuple[Cut, ...]
    off: tuple[Cut, ...]
    blocks: tuple[memory.Block, ...]
    skeleton: Skeleton


@dataclass(frozen=True, slots=True)
class Canonical:
    """A text without its cuts, what must be told instead, and what later rules need to know about it."""

    text: str
    cuts: tuple[Cut, ...]
    items: tuple[Item, ...]
    lists: tuple[list_order.List, ...]
    lines: learned.Lines
    custom: tuple[Cut, ...]


def analyse(text: str, first: bool, settings: Settings) -> Analysis:
    """first: it is the first system text, where the attribution header may stand."""
    document = Document(text)
    header = attribution.cut(text) if first else None
    cuts, blocks = find(document)
    found = [*([header] if header else []), *cuts]
    applied = [cut for cut in found if cut.rule in settings.rules]
    off = settle(cut for cut in found if cut.rule not in settings.rules and cut.rule in settings.observe)
    on = settle([*settle(applied), *place_paths.cuts(document, applied)])  # also the paths that a block swallows
    wanted = "memory" in settings.rules or "memory" in settings.observe
    blocks = memory.versions(text, blocks, on, settings.secret) if wanted else ()
    bare = settle([*on, *memory.cuts(text, blocks, frozenset(block.label for block in blocks))])
    return Analysis(text, first, tuple(on), tuple(off), blocks, skeleton([apply(text, bare)], settings.secret))


def without(analysis: Analysis, moved: frozenset[str], settings: Settings) -> Canonical:
    """The canonical text, given which memory blocks move."""
    cuts = settle([*analysis.cuts, *memory.cuts(analysis.text, analysis.blocks, moved)])
    text = apply(analysis.text, cuts)
    document = Document(text)
    lines = learned.lines(text, settings.secret)
    lists = list_order.find(document, lines) if "list_order" in settings.rules | settings.observe else ()
    custom = tuple(user_rules.cuts(document, settings.custom))
    return Canonical(text, tuple(cuts), items(cuts), lists, lines, custom)
