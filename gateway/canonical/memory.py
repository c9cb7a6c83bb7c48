"""Rule `memory`: blocks of memories, recalled facts, retrieved passages and user profiles. Pure.

A block moves whole, and only once there is evidence that it changes: from the second differing version in a route on (absent
and present differ). It leaves nothing behind, so that a text that has the block and one that has not are the same. Facts are a
set: a list of them that comes back in another order is given its first-seen order and is no new version. Passages are ranked:
their order is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut, apply
from gateway.canonical.digests import checks, digest, encode
from gateway.canonical.fields import normal
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.memory_words import FACTS, PASSAGES, asks, begins_order, is_facts, is_known
from gateway.canonical.text import Document

NAME = "memory"


_HEAD = patterns.compile(
    r"^\s*(?:#{1,6}\s+|[-*]\s+)?(?:\*\*|__)?([^\s:：#*<>|][^:：<>|*\n]*?)(?:\*\*|__)?\s*([:：])?(?:\*\*|__)?\s*$"
)
_INLINE = patterns.compile(r"^\s*(?:[-*]\s+)?(?:\*\*|__)?([^\s:：#*<>|][^:：<>|*\n]*?)(?:\*\*|__)?\s*[:：](?:\*\*|__)?\s+\S")
_TAG = patterns.compile(r"^\s*<([^\s<>/!?\"]+)(?:\s[^<>\n]*)?>")
_BRACKET = patterns.compile(r"^\s*\[([^\[\]/:]{3,40})\]\s*$")
_BANNER = patterns.compile(r"^\s*([-=*#~<]{2,}\s*)(?i:begin|start)(?: of)?\s+([\pL][\pL _-][\pL _-]+?)\s*[-=*#~>]{0,40}\s*$")
_OBJECT = patterns.compile(r"^\s*\{\s*\"([\pL_ -][\pL_ -][\pL_ -]+)\"\s*:\s*[\[{].*[\]}]\s*\}\s*,?\s*$")
_LONGEST = 40
"""Characters of a name. Not a count in the pattern: RE2 would unroll the class of all letters so often, in megabytes."""

_SCHEMA = patterns.compile(r"\"(?:type|properties|description|\$ref|format)\"\s*:|\"(?:string|<[^<>\"]*>|\.\.\.)\"")
_BULLET = patterns.compile(r"^\s*(?:[-*+•]\s+|・\s*)\S")
_NUMBERED = patterns.compile(r"^\s*(?:\d{1,3}[.)]|\(\d{1,3}\)|\[\d{1,3}\])\s+\S")
_INDENTED = patterns.compile(r"^\s+\S")


@dataclass(frozen=True, slots=True)
class Block:
    """One block: characters [start, end) of its lines. label: its normal label, numbered if it stands twice; items: the offsets
    of the lines of a plain bullet list of facts, () for anything else; checks: a keyed checksum for each item; version: a keyed
    digest of what it says, of its items without their order. What other rules take out of a block does not count.
    bare: it is the list only, its head stays: orders stand between.
    """

    label: str
    name: str
    start: int
    end: int
    items: tuple[tuple[int, int], ...]
    checks: tuple[int, ...] = ()
    version: str = ""
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """moved: labels of the blocks that move; texts: the text with facts in their first-seen order."""

    moved: frozenset[str]
    texts: tuple[str, ...]
    rows: tuple[Row, ...]


def find(document: Document, lines: Sequence[int]) -> tuple[Block, ...]:
    """The blocks of a text, in order. `lines`: those that the hints hit."""
    found: list[Block] = []
    names: dict[str, int] = {}
    after = 0
    for number in lines:
        hit = _begins(document, number) if number >= after else None
        if not hit:
            continue
        label, name, last = hit
        if _instructs(document, number, last):
            continue
        names[label] = names.get(label, 0) + 1
        numbered = label if names[label] == 1 else f"{label} #{names[label]}"
        first = _behind_orders(document, number, last)
        start, end = document.starts[first], document.starts[last] + len(document.lines[last])
        items = _items(document, max(number + 1, first), last) if is_facts(label) else ()
        found.append(Block(numbered, name, start, end, items, bare=first > number))
        after = last + 1
    return tuple(found)


def versions(text: str, blocks: Sequence[Block], cuts: Sequence[Cut], secret: bytes) -> tuple[Block, ...]:
    """The blocks with their checksums, given what other rules (`cuts`, settled) take out."""
    return tuple(_version(text, block, cuts, secret) for block in blocks)


def _version(text: str, block: Block, cuts: Sequence[Cut], secret: bytes) -> Block:
    items = [_bare(text, start, end, cuts) for start, end in block.items]
    head = _bare(text, block.start, block.items[0][0] if items else block.end, cuts)
    return replace(block, checks=tuple(checks(secret, items)), version=digest(secret, head, *sorted(items)).hex())


def _bare(text: str, start: int, end: int, cuts: Sequence[Cut]) -> bytes:
    """A part of a text without what other rules take out of it."""
    inside = [
        replace(cut, start=cut.start - start, end=cut.end - start) for cut in cuts if start <= cut.start and cut.end <= end
    ]
    return encode(apply(text[start:end], inside).strip())


def judge(texts: Sequence[str], blocks: Sequence[Sequence[Block]], route: bytes, memory: Memory) -> Verdict:
    """Which blocks move, given what the route has shown before."""
    known: dict[str, list[object]] | None = memory.get("blocks", route)
    now = dict(known or {})
    present = {block.label: block for found in blocks for block in found}
    for label, block in present.items():
        was = now.get(label)
        moves = known is not None if was is None else bool(was[1]) or was[0] != block.version
        order = list(block.checks)
        if was and isinstance(was[2], list) and sorted(was[2]) == sorted(order):
            order = was[2]
        now[label] = [was[0] if was else block.version, moves, order]
    for label in now.keys() - present.keys():
        now[label] = [now[label][0], True, now[label][2]]
    rows = (Row("blocks", route, now),) if now != known else ()
    moved = frozenset(label for label in present if now[label][1])
    restored = tuple(_restore(text, found, now) for text, found in zip(texts, blocks, strict=True))
    return Verdict(moved, restored, rows)


def cuts(text: str, blocks: Sequence[Block], moved: frozenset[str]) -> Iterator[Cut]:
    """The blocks that move, each with the line breaks that belong to it."""
    for block in blocks:
        if block.label in moved:
            start, end = _with_breaks(text, block)
            told = text[block.start : block.end].strip("\n")
            yield Cut(start, end, NAME, block.name, f"{block.name}:\n{told}" if block.bare else told, "", "")


def _with_breaks(text: str, block: Block) -> tuple[int, int]:
    """The span to cut, so that the text around closes as if the block had never been there."""
    rest = text[block.end :]
    behind = len(rest) - len(rest.lstrip("\n \t"))
    if behind < len(rest):
        return block.start, block.end + rest[:behind].rfind("\n") + 1
    before = text[: block.start].rstrip("\n")
    return len(before), block.end


def _begins(document: Document, number: int) -> tuple[str, str, int] | None:
    """(label, name, last line) of a block that begins at this line."""
    if not document.prose(number) or document.blank(number):
        return None
    line = document.lines[number]
    if (tag := _TAG.match(line)) and is_known(label := normal(tag[1])):
        last = _closing(document, number, f"</{tag[1]}>")
        return (label, tag[1], last) if last is not None else None
    if (marked := _marked(document, number)) is not None:
        return marked
    head = _HEAD.match(line)
    if head and is_known(label := normal(head[1])) and (head[2] or document.heading(number) or "**" in line):
        last = _section_end(document, number) if document.heading(number) else _list_end(document, number)
        return (label, head[1], last) if last > number else None
    inline = _INLINE.match(line)
    if inline and (label := normal(inline[1])) in FACTS | PASSAGES:
        return label, inline[1], number
    return None


def _marked(document: Document, number: int) -> tuple[str, str, int] | None:
    """A block between `[Memories]` and `[/Memories]` or lines that say BEGIN and END, or an object of JSON on one line."""
    line = document.lines[number]
    if (bracket := _BRACKET.match(line)) and is_known(label := normal(bracket[1])):
        last = _closing(document, number, f"[/{bracket[1]}]")
        return (label, bracket[1], last) if last is not None else None
    if (banner := _BANNER.match(line)) and len(banner[2]) <= _LONGEST and is_known(label := normal(banner[2])):
        for last in range(number + 1, len(document.lines)):
            below = document.lines[last].lower()
            if banner[2].lower() in below and " end" in below.replace("-", " ").replace("=", " "):
                return label, banner[2], last
    one = _OBJECT.match(line)
    if one and len(one[1]) <= _LONGEST and not _SCHEMA.search(line) and is_known(label := normal(one[1])):
        return label, one[1], number
    return None


def _instructs(document: Document, first: int, last: int) -> bool:
    """Whether what stands below a block's first line are orders: a section about memories, not one of them. One is enough in
    running text under a head, which `_behind_orders` leaves; half of the lines in a list or between tags."""
    lines = [
        line for line in document.lines[first + 1 : last + 1] if line.strip() and not line.lstrip().startswith(("#", "<", "["))
    ]
    listed = any(_BULLET.match(line) or _NUMBERED.match(line) for line in lines)
    if not listed and _is_head(document, first):
        return any(_is_order(line) for line in lines)
    return 2 * sum(begins_order(line) for line in lines) >= len(lines) > 0


def _is_head(document: Document, number: int) -> bool:
    return document.heading(number) > 0 or _HEAD.match(document.lines[number]) is not None


def _is_order(line: str) -> bool:
    return begins_order(line) or asks(line)


def _behind_orders(document: Document, number: int, last: int) -> int:
    """The first line of what is remembered: the head, or the list below it if there are orders between the two."""
    if not _is_head(document, number):
        return number
    below = number + 1
    while below <= last and not (_BULLET.match(document.lines[below]) or _NUMBERED.match(document.lines[below])):
        below += 1
    orders = any(_is_order(line) for line in document.lines[number + 1 : below])
    return below if orders and below <= last else number


def _closing(document: Document, number: int, mark: str) -> int | None:
    for last in range(number, len(document.lines)):
        if document.lines[last].rstrip().endswith(mark):
            return last
    return None


def _section_end(document: Document, number: int) -> int:
    """The last line with text before the next heading of the same or a higher level, or before a paragraph that follows the
    section's list: what is said after the facts is no fact, and may be an instruction."""
    level, last, listed = document.heading(number), number, False
    for at in range(number + 1, len(document.lines)):
        if 0 < document.heading(at) <= level:
            break
        if document.blank(at):
            continue
        line = document.lines[at]
        in_list = bool(_BULLET.match(line) or _NUMBERED.match(line) or (listed and _INDENTED.match(line)))
        if listed and not in_list and document.blank(at - 1) and not _introduces(document, at):
            break
        last, listed = at, listed or in_list
    return last


def _introduces(document: Document, number: int) -> bool:
    """Whether a line begins another list or part of the same section."""
    return document.heading(number) > 0 or document.lines[number].rstrip(" *_").endswith((":", "："))


def _list_end(document: Document, number: int) -> int:
    """The last line of the list or paragraph below a label."""
    below = number + 1
    if below < len(document.lines) and document.blank(below) and below + 1 < len(document.lines):
        below += 1 if _BULLET.match(document.lines[below + 1]) else 0
    last, inner = number, _indent(document, below) > _indent(document, number)
    listed = below < len(document.lines) and bool(
        _BULLET.match(document.lines[below]) or _NUMBERED.match(document.lines[below])
    )
    for at in range(below, len(document.lines)):
        line = document.lines[at]
        if document.blank(at) or document.heading(at):
            break
        if inner and _indent(document, at) <= _indent(document, number):
            break
        if not listed and asks(line):
            break
        if listed and not (_BULLET.match(line) or _NUMBERED.match(line) or _INDENTED.match(line)):
            break
        last = at
    return last


def _indent(document: Document, number: int) -> int:
    line = document.lines[number] if number < len(document.lines) else ""
    return len(line) - len(line.lstrip())


def _items(document: Document, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The lines of a plain bullet list, () unless there is nothing else between."""
    lines = [at for at in range(first, last + 1) if not document.blank(at)]
    if len(lines) < 2 or lines[-1] - lines[0] + 1 != len(lines) or not all(_BULLET.match(document.lines[at]) for at in lines):
        return ()
    return tuple((document.starts[at], document.starts[at] + len(document.lines[at])) for at in lines)


def _restore(text: str, blocks: Sequence[Block], known: dict[str, list[object]]) -> str:
    """The text with its lists of facts in the order that is remembered. Its length does not change."""
    for block in blocks:
        order = known[block.label][2]
        if not block.items or not isinstance(order, list) or order == list(block.checks):
            continue
        rank = {check: at for at, check in enumerate(order)}
        lines = [(rank[check], text[start:end]) for check, (start, end) in zip(block.checks, block.items, strict=True)]
        text = text[: block.items[0][0]] + "\n".join(line for _, line in sorted(lines)) + text[block.items[-1][1] :]
    return text
