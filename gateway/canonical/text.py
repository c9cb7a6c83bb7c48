"""A system text as lines: where fences stand, which lines are examples, and where a sentence may begin. Pure.

Everything that decides *where a rule may look at all* is here, so that the rules only say what they look for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

import orjson

from gateway.canonical import patterns

PROSE, CODE, JSON = 0, 1, 2
"""What a line belongs to: running text, a code fence, or a fence whose whole body is one JSON object."""

_FENCE = patterns.compile(r"^\s{0,8}(?:[-*+]\s+|\d+[.)]\s+)?(```+|~~~+)")
_SHOWN = (
    r"\b(?:examples?|e\.g|for instance|samples?|templates?|schemas?|formats?|shape|few-shot|scenarios?|test cases?"
    r"|transcripts?|logs?|"
    r"logfile|change ?log|release notes|history|quotes?|quoted|quotations?|beispiele?|vorlage|muster|protokoll"
    r"|exemples?|modèle|"
    r"journal|ejemplos?|plantilla|registro|forme|formes|formato|gabarit|format vorgabe|schreibweise|änderungsverlauf"
    r"|verlauf|historique|historial)\b|例如|比如|示例|例子|格式|日志|模板|例えば|たとえば|サンプル|ログ|テンプレート"
    r"|以下の例|書式|形式|様式|書き方|履歴|入力例|出力例"
)
_ASKS = (
    r"\b(?:formatted|such as|like this|looks? like|of (?:this|the) (?:kind|form)|pasted|ignore|deadlines?|milestones?"
    r"|respond|reply|replies|answers?|outputs?|returns?|say|write|print|"
    r"use this|polic(?:y|ies)|schedule|events?|meetings?|assume|pretend|suppose|if|when)\b"
)
_HEADS_SHOWN = patterns.compile(rf"(?i){_SHOWN}")
_INTRODUCES_SHOWN = patterns.compile(rf"(?i){_SHOWN}|{_ASKS}")
_FOR_EXAMPLE = patterns.compile(
    r"(?i)^\W*(?:for )?(?:examples?|e\.g\.?|for instance|beispiel|z\.\s?b\.|exemple|ejemplo)\b|^\W*(?:例如|比如|示例|例)[:：]"
)
_ITEM = patterns.compile(r"^(?:\s+|\s*(?:[-*+•–]|\d{1,3}[.)])\s)")
_METADATA = patterns.compile(
    r"(?i)^\W*(?:version|author|title|revision|license|copyright|status|effective|subject|from|to|cc|name)\W*[:=]"
)
_BREAK = patterns.compile(r"(?:[.!?]\s+|[。！？；]\s*|;\s+|\s[|·•]\s+)")
_FIELD_BREAK = patterns.compile(r"[,，、]\s*|\s[(\[（]|\s[–—]\s+")
_FIELD_BREAKS = frozenset(",，、([（–—")
_KEY = patterns.compile(r"\s([\pL_][\pL\pN_]*)=|\b[0-9a-f-]{12,}\s+([\pL_][\pL\pN_]*):")
_BREAKS = frozenset(".!?。！？；;|·•")
_BEGIN = patterns.compile(r"^\s*(?:[-*+•–]\s+|\d{1,3}[.)]\s+|#{1,6}\s+)?(?:[\p{So}\x{FE0F}]+\s*)?[\[(（【]?(?:\*\*|__|[*_])?")
_ODD = {0x00A0: " ", 0x202F: " ", 0x2009: " ", 0x200B: " ", 0x200C: " ", 0x200D: " ", 0xFEFF: " ", 0x2060: " "}
_IS_ODD = patterns.compile("[" + "".join(map(chr, _ODD)) + "]")
"""Spaces that patterns do not take for spaces, and signs without a width: each read as one space, so that offsets stay."""


class Document:
    """One system text. Offsets are in characters of the text; `plain` and `lines` are as `text`, with ordinary spaces only."""

    __slots__ = ("_fences", "_shown", "_tree", "lines", "plain", "starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree: list[tuple[int, int]] | None = None
        self._shown: dict[int, bool] = {}
        self.plain = text if text.isascii() or not _IS_ODD.search(text) else text.translate(_ODD)
        self.lines = self.plain.split("\n")
        self.starts = list(accumulate([len(line) + 1 for line in self.lines], initial=0))
        self._fences = self._find_fences() if "```" in text or "~~~" in text else None

    def kind(self, number: int) -> int:
        """PROSE, CODE or JSON. A fence's own lines are CODE."""
        return self._fences[number] if self._fences else PROSE

    def prose(self, number: int) -> bool:
        """Whether a statement may be looked for in this line: no code, not quoted."""
        return self.kind(number) == PROSE and not self.lines[number].lstrip().startswith(">")

    def heading(self, number: int) -> int:
        """1-6 for a Markdown heading, else 0."""
        line = self.lines[number].lstrip(" ")
        level = len(line) - len(line.lstrip("#"))
        return level if 0 < level < 7 and line[level : level + 1] in (" ", "\t") and self.kind(number) == PROSE else 0

    def blank(self, number: int) -> bool:
        """Whether there is nothing at this line; lines outside the text are blank."""
        return not 0 <= number < len(self.lines) or not self.lines[number].strip()

    def shown(self, number: int) -> bool:
        """Whether the line is something that the text *shows* (an example, a format, a log), not something that it says.

        So it is when a line that introduces it says so: one with a colon over its paragraph or list, or a heading over it.
        """
        if number not in self._shown:
            introduced = any(_INTRODUCES_SHOWN.search(line) for line in self._introductions(number))
            self._shown[number] = introduced or any(_HEADS_SHOWN.search(line) for line in self._headings(number))
        return self._shown[number]

    def metadata(self, number: int) -> bool:
        """Whether a neighbour of the line is a field of a document's head (version, author): a bare date is its date."""
        return any(not self.blank(near) and _METADATA.match(self.lines[near]) for near in (number - 1, number + 1))

    def beginnings(self, number: int) -> Iterator[int]:
        """Offsets within the line where a sentence, a labelled field or a list item may begin."""
        line = self.lines[number]
        begin = _BEGIN.match(line)
        yield begin.end() if begin else 0
        if not _BREAKS.isdisjoint(line):
            for match in _BREAK.finditer(line):
                yield match.end()

    def field_beginnings(self, number: int) -> Iterator[int]:
        """Offsets within the line where a label may begin: like `beginnings`, and behind commas and brackets, before `key=`."""
        yield from self.beginnings(number)
        line = self.lines[number]
        if not _FIELD_BREAKS.isdisjoint(line):
            for match in _FIELD_BREAK.finditer(line):
                yield match.end()
        if "=" in line or line.count(":") > 1:
            for match in _KEY.finditer(line):
                yield match.start(match.lastindex)

    def _introductions(self, number: int) -> Iterator[str]:
        """Lines that say what the line is: those with a colon at their end above it, as far as its paragraph or list goes."""
        at = number - 1
        if self.kind(number) == JSON:
            while at >= 0 and self.kind(at) == JSON:
                at -= 1
            at -= 1  # the fence itself
        below = self.lines[number]
        while at >= 0 and not self.blank(at) and not self.heading(at):
            line = self.lines[at]
            if _ITEM.match(line) and not _ITEM.match(below) and self.kind(number) == PROSE:
                return  # a list ends above this line
            if line.rstrip().endswith((":", "：")) or _FOR_EXAMPLE.match(line):
                yield line
            at, below = at - 1, line
        while at >= 0 and self.blank(at):
            at -= 1
        if at >= 0 and self.lines[at].rstrip().endswith((":", "：")):
            yield self.lines[at]

    def _headings(self, number: int) -> Iterator[str]:
        """The headings over a line, innermost first."""
        if self._tree is None:
            self._tree = self._heading_tree()
        at = bisect_left(self._tree, number, key=lambda heading: heading[0]) - 1
        while at >= 0:
            line, at = self._tree[at]
            yield self.lines[line]

    def _heading_tree(self) -> list[tuple[int, int]]:
        """For each heading its line, and the index of the heading over it, or -1."""
        tree: list[tuple[int, int]] = []
        levels: list[int] = []
        for number, line in enumerate(self.lines):
            level = self.heading(number) if "#" in line else 0
            if level:
                above = len(tree) - 1
                while above >= 0 and levels[above] >= level:
                    above = tree[above][1]
                tree.append((number, above))
                levels.append(level)
        return tree

    def _find_fences(self) -> list[int]:
        kinds, number = [PROSE] * len(self.lines), 0
        while number < len(self.lines):
            opening = _FENCE.match(self.lines[number])
            if not opening:
                number += 1
                continue
            end = self._fence_end(number, opening[1])
            inside = JSON if self._is_json(number + 1, end) else CODE
            kinds[number] = CODE
            for at in range(number + 1, min(end, len(kinds))):
                kinds[at] = inside
            if end < len(kinds):
                kinds[end] = CODE
            number = end + 1
        return kinds

    def _fence_end(self, opening: int, mark: str) -> int:
        """The line that closes a fence, or the end of the text."""
        for number in range(opening + 1, len(self.lines)):
            line = self.lines[number].strip()
            if line.startswith(mark) and not line.strip(mark[0]):
                return number
        return len(self.lines)

    def _is_json(self, start: int, end: int) -> bool:
        try:
            return isinstance(orjson.loads("\n".join(self.lines[start:end])), dict)
        except orjson.JSONDecodeError:
            return False
