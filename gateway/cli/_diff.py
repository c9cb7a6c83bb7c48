"""What changed in a text, line by line, and which words of a line: plain data, and coloured for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from rich.text import Text

from gateway.logs import printable

AROUND = 1
"""Unchanged lines shown above and below a change."""
LONG, KEEP = 240, 80
"""Characters above which a line is cut, and what is kept of it on either side of its changed words."""

Sign = Literal["-", "+", " ", "…"]
STYLES: dict[Sign, str] = {"-": "red", "+": "green", " ": "dim", "…": "dim"}

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """changed: span of the characters that differ from the line's counterpart, (0, 0) if it has none."""

    sign: Sign
    text: str
    changed: tuple[int, int] = (0, 0)


def diff(before: str, after: str) -> Iterator[Line]:
    """The lines that differ, with a little around; "…" stands for lines left out in between. Safe for a terminal."""
    old, new = _lines(before), _lines(after)
    groups = SequenceMatcher(None, old, new).get_grouped_opcodes(AROUND)
    for number, group in enumerate(groups):
        if number:
            yield Line("…", "")
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                yield from (Line(" ", text) for text in old[start:end])
            elif end - start == new_end - new_start:
                yield from _replaced(old[start:end], new[new_start:new_end])
            else:
                yield from (Line("-", text) for text in old[start:end])
                yield from (Line("+", text) for text in new[new_start:new_end])


def styled(line: Line) -> Text:
    """The line for a rich console, its changed words in bold, its middle only if it is long."""
    start, end = line.changed
    text, left = line.text, 0
    if len(text) > LONG and end > start:
        left = max(0, start - KEEP)
        text = ("…" if left else "") + text[left : end + KEEP] + ("…" if end + KEEP < len(text) else "")
        left -= 1 if left else 0
    out = Text(f"{line.sign} {text}", style=STYLES[line.sign])
    if end > start:
        out.stylize("bold", start - left + 2, end - left + 2)
    return out


def _lines(text: str) -> list[str]:
    return [printable(line.expandtabs(4), len(line) * 4 + 1) for line in text.split("\n")]


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    """As many lines as before: the words that changed are known."""
    spans = [_changed(one, other) for one, other in zip(old, new, strict=True)]
    yield from (Line("-", text, span) for text, (span, _) in zip(old, spans, strict=True))
    yield from (Line("+", text, span) for text, (_, span) in zip(new, spans, strict=True))


def _changed(old: str, new: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The spans without the words that both have at their start and at their end."""
    ours, theirs = _WORD.findall(old), _WORD.findall(new)
    head = _common(ours, theirs)
    tail = _common(ours[head:][::-1], theirs[head:][::-1])
    start, rest = len("".join(ours[:head])), len("".join(ours[len(ours) - tail :]))
    return (start, len(old) - rest), (start, len(new) - rest)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        count += 1
    return count
