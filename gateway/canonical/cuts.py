"""What a rule finds, and how a text looks without it. Pure.

A rule yields `Cut`s: a span of the text, what stands there afterwards, and what the model must be told instead. Statements
of one text that say the same are told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

PLACEHOLDER = "[see context]"
"""Stands where a value was moved from. Fixed, so that equal texts stay equal whatever the value was."""

SEAM = "[see context]"
"""Stands where a whole line or block was moved from."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One span [start, end) of a text that a rule takes out.

    leaves: what stands there instead; name: what it is, as the model knows it (its label, else the rule's word for it);
    tells: the statement as it goes into a note ("" if nothing needs to be told); value: the part of `tells` that varies, by
    which the same item is known in another request; stale: it may be up to `max_age` old inside a tool loop.
    """

    start: int
    end: int
    rule: str
    name: str
    tells: str
    value: str
    leaves: str = PLACEHOLDER
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """What must be told in place of cuts. key: the same for the same statement with another value; tells: as in `Cut`."""

    key: str
    rule: str
    name: str
    tells: str
    stale: bool = False


def settle(cuts: Iterable[Cut]) -> list[Cut]:
    """The cuts that stand, in the order of the text: where two overlap, the earlier rule's; whole blocks swallow what is in
    them.

    A clock or counter inside a block is still told on its own, so that the block does not change with it. `cuts` come in the
    order of the rules.
    """
    kept: list[Cut] = []
    for cut in cuts:
        clash = [other for other in kept if other.start < cut.end and cut.start < other.end]
        if all(_within(other, cut) for other in clash):
            kept = [other for other in kept if other not in clash or _apart(other, cut)]
            kept.append(cut)
        elif all(_within(cut, other) and _apart(cut, other) for other in clash):
            kept.append(cut)
    told = [replace(cut, tells=_without(cut, [one for one in kept if _within(one, cut)])) for cut in kept]
    return sorted(told, key=lambda cut: (cut.start, -cut.end))


def _apart(inner: Cut, block: Cut) -> bool:
    """Whether what stands inside a block is told apart from it."""
    return bool(inner.stale and inner.tells and block.tells)


def apply(text: str, cuts: Sequence[Cut]) -> str:
    """`text` without the settled `cuts`."""
    out: list[str] = []
    at = 0
    for cut in cuts:
        if cut.start < at:
            continue  # inside a block that went as a whole
        out += (text[at : cut.start], cut.leaves)
        at = cut.end
    out.append(text[at:])
    return "".join(out)


def items(cuts: Sequence[Cut]) -> tuple[Item, ...]:
    """What the settled cuts say, each statement once, in the order of the text.

    Statements with the same key but other values are numbered, so that a text may have two of a kind.
    """
    found: dict[str, Item] = {}
    for cut in cuts:
        if not cut.tells:
            continue
        base = f"{cut.rule}:{cut.tells.replace(cut.value, PLACEHOLDER) if cut.value else cut.name}"
        key, count = base, 1
        while key in found and found[key].tells != cut.tells:
            count += 1
            key = f"{base}#{count}"
        found.setdefault(key, Item(key, cut.rule, cut.name, cut.tells, cut.stale))
    return tuple(found.values())


def _within(inner: Cut, outer: Cut) -> bool:
    """Whether `outer` is strictly larger and holds all of `inner`."""
    return outer.start <= inner.start and inner.end <= outer.end and inner.end - inner.start < outer.end - outer.start


def _without(block: Cut, inside: Sequence[Cut]) -> str:
    """What a block tells when some of its values are told on their own: the block without their lines, or with placeholders."""
    text = block.tells
    for cut in sorted(inside, key=lambda cut: -cut.start):
        start = cut.start - block.start
        end = start + len(cut.value)
        if not cut.value or text[start:end] != cut.value:
            continue
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end) + 1
        if first and last and text[first:last].strip(" \t\n-*") == cut.tells:
            text = text[:first] + text[last:]  # the line says nothing else
        else:
            text = text[:start] + PLACEHOLDER + text[end:]
    return text
