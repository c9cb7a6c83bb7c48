"""All rules, in the order in which they apply. A rule is one file; this is the only list of them. Pure.

attribution   drops the rotating billing header              attribution.py
tools         one order for tools and schema keywords        tools.py
clock         current date and time                          clock.py
place         where the agent runs                           place.py, place_*.py
ids           session, request, message and trace ids        ids.py
counters      budgets, usage, uptimes, telemetry             counters.py
memory        blocks of memories, once they differ           memory.py, memory_words.py
list_order    permuted bullet lists (observe by default)     list_order.py
learned       lines seen to change (observe by default)      learned.py
user rules    move, drop or freeze, from the configuration   user_rules.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import re2

from gateway.canonical import (
    clauses,
    clock,
    counters,
    ids,
    memory,
    memory_words,
    patterns,
    place,
    place_blocks,
    place_sentences,
)
from gateway.canonical.cuts import Cut
from gateway.canonical.digests import encode
from gateway.canonical.text import Document

ORDER = ("attribution", "tools", "clock", "place", "ids", "counters", "memory", "list_order", "learned")


@dataclass(frozen=True, slots=True)
class LineRule:
    """A rule that looks at single lines. hints: patterns for the lines that it wants to see (too many, never too few)."""

    name: str
    hints: tuple[str, ...]
    cuts: Callable[[Document, list[int]], Iterator[Cut]]


LINE_RULES = (
    LineRule(clock.NAME, clock.HINTS, clock.cuts),
    LineRule(place.NAME, place.HINTS, place.cuts),
    LineRule(place.NAME, place_sentences.HINTS, place_sentences.cuts),
    LineRule(ids.NAME, ids.HINTS, ids.cuts),
    LineRule(counters.NAME, counters.HINTS, counters.cuts),
    LineRule(place.NAME, place_blocks.HINTS, place_blocks.cuts),  # after the single lines, which a block swallows
)


def _compile() -> tuple[re2.Set, list[int]]:
    """One set over the hints of all rules, and which rule each of them is of; the memory rule's come last."""
    hints = [
        (hint, at) for at, wanted in enumerate((*(rule.hints for rule in LINE_RULES), memory_words.HINTS)) for hint in wanted
    ]
    return patterns.searching(hint for hint, _ in hints), [at for _, at in hints]


_HINTS, _OWNERS = _compile()


def find(document: Document) -> tuple[list[Cut], tuple[memory.Block, ...]]:
    """What the rules over lines find in a text, in the order of the rules, and its memory blocks."""
    hits: list[list[int]] = [[] for _ in (*LINE_RULES, memory)]
    for number, line in enumerate(encode(document.plain).split(b"\n")):
        if line and (found := _HINTS.Match(line)):
            for at in {_OWNERS[hint] for hint in found}:
                hits[at].append(number)
    cuts = [cut for rule, lines in zip(LINE_RULES, hits[:-1], strict=True) if lines for cut in rule.cuts(document, lines)]
    stating = [cut for cut in cuts if "\n" in cut.tells or clauses.states(document, cut)]
    return stating, memory.find(document, hits[-1])
