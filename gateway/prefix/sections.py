"""The sections of a prompt by their everyday names, and the detector that knows what changed. Pure.

System text is identity, but for what the detectors of the canonical form find in it: memory blocks, and all that says when and
where the agent runs. The same detectors name the cause of a difference, whether or not their rules are switched on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.canonical import attribution, list_order, memory
from gateway.canonical.cuts import settle
from gateway.canonical.rules import find
from gateway.canonical.text import Document
from gateway.prefix.chain import STEP, Chain, Part, step_at

TOOLS, IDENTITY, MEMORY, PLACE_AND_TIME, HISTORY, NEWEST = (
    "tools", "identity", "memory", "place and time", "history", "newest message",
)  # fmt: skip
MEMORIES, PLACES = (memory.NAME, list_order.NAME), ("clock", "place", "ids", "counters", "attribution")
"""Rules by the section that what they find belongs to."""

LONGEST = 1 << 20
"""Characters of a system text that is looked into; a longer one is all identity."""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a system text. rule: the detector that found it."""

    start: int
    end: int
    rule: str

    @property
    def section(self) -> str:
        return MEMORY if self.rule in MEMORIES else PLACE_AND_TIME


@dataclass(frozen=True, slots=True)
class Looked:
    """What is remembered of a text or a list of tools. lines: where each begins, and its hash in this process, which tells
    lines apart but not what they say; spans: what the detectors find; items: hashes of tools, whatever the order of their
    keys."""

    lines: tuple[tuple[int, int], ...] = ()
    spans: tuple[Span, ...] = ()
    items: tuple[int, ...] = ()


def look(text: str, first: bool) -> Looked:
    """A system text. first: nothing stands before it, so that an attribution header may."""
    if len(text) > LONGEST:
        return Looked()
    document = Document(text)
    header = attribution.cut(text) if first else None
    cuts, blocks = find(document)
    spans = [Span(cut.start, cut.end, cut.rule) for cut in settle([*([header] if header else []), *cuts])]
    inside = [Span(block.start, block.end, memory.NAME) for block in blocks]
    spans += inside
    return Looked(tuple(_lines(document)), tuple(sorted(spans, key=lambda span: (span.start, -span.end))))


def look_at_tools(tools: str) -> Looked:
    try:
        listed = orjson.loads(tools)
    except orjson.JSONDecodeError:
        return Looked()
    return Looked(items=tuple(hash(orjson.dumps(tool, option=orjson.OPT_SORT_KEYS)) for tool in listed))


def _lines(document: Document) -> Iterator[tuple[int, int]]:
    return zip(document.starts, map(hash, document.lines), strict=False)


@dataclass(frozen=True, slots=True)
class Change:
    """Where two versions of a text first differ. offset: characters; within: the difference begins at most so much later;
    detector: the rule that knows what stands there, None if none does."""

    offset: int
    within: int
    detector: str | None


def change(new: Looked, old: Looked, shared: int) -> Change:
    """How a system text differs from an earlier version. shared: characters from its start that are the same for sure."""
    pairs = zip(new.lines, old.lines, strict=False)
    at = next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(new.lines), len(old.lines)))
    if not new.lines or at >= len(new.lines):
        step = step_at(shared)
        return Change(shared, step, _nearest(new.spans, shared, shared + step))
    start = new.lines[at][0]
    end = new.lines[at + 1][0] if at + 1 < len(new.lines) else start + STEP
    detector = _nearest(new.spans, start, end) or _nearest(old.spans, start, end)
    return Change(max(start, min(shared, end)), max(1, end - max(start, min(shared, end))), detector or _permuted(new, old))


def _nearest(spans: Sequence[Span], start: int, end: int) -> str | None:
    """The detector of what overlaps [start, end): the narrowest finding, because a block holds others."""
    hits = [span for span in spans if span.start < end and start < span.end]
    return min(hits, key=lambda span: span.end - span.start).rule if hits else None


def _permuted(new: Looked, old: Looked) -> str | None:
    """The same lines in another order."""
    ours, theirs = [line for _, line in new.lines], [line for _, line in old.lines]
    return list_order.NAME if ours != theirs and sorted(ours) == sorted(theirs) else None


def reordered(new: Looked, old: Looked) -> bool:
    """Whether two lists of tools hold the same, but for their order and that of the keys in them."""
    return bool(new.items) and sorted(new.items) == sorted(old.items)


def section_of(part: Part, chain: Chain, offset: int, looked: Looked) -> str:
    """The name of the section that a place of a part is in. offset: characters in the part."""
    if part.kind == "tools":
        return TOOLS
    if part.kind == "message":
        return NEWEST if part.number == chain.parts[-1].number else HISTORY
    hits = [span for span in looked.spans if span.start <= offset < span.end]
    return min(hits, key=lambda span: span.end - span.start).section if hits else IDENTITY


def listing(chain: Chain, looked: Sequence[Looked], reused: int, ratio: float) -> list[dict[str, Any]]:
    """The sections in the order of the prompt, with their tokens and how many of those were reused. looked: by system text;
    reused: tokens of the whole prompt; ratio: tokens for each character."""
    sizes: dict[str, list[float]] = {}
    for name, start, size in _pieces(chain, looked):
        entry = sizes.setdefault(name, [0.0, 0.0])
        entry[0] += size * ratio
        entry[1] += min(max(0.0, reused - start * ratio), size * ratio)
    return [{"name": name, "tokens": round(size), "reused": round(hit)} for name, (size, hit) in sizes.items()]


def _pieces(chain: Chain, looked: Sequence[Looked]) -> Iterator[tuple[str, int, int]]:
    """(section, start, size) in characters, in the order of the prompt."""
    for part in chain.parts:
        if part.kind != "system":
            yield section_of(part, chain, 0, Looked()), part.start, part.size
            continue
        at = 0
        for span in looked[part.number].spans if part.number < len(looked) else ():
            if span.end <= at:
                continue
            start = max(at, span.start)
            yield IDENTITY, part.start + at, start - at
            yield span.section, part.start + start, span.end - start
            at = span.end
        yield IDENTITY, part.start + at, max(0, part.size - at)
