"""Rule `place`, the same path elsewhere: as the head of a longer path, or slugged (`-home-mira-lab`). Pure.

A moved path that stayed in other places would break the prefix there, so it leaves the placeholder of its label in each of
them. It is told once, by its label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import re2

from gateway.canonical import patterns
from gateway.canonical.cuts import PLACEHOLDER, Cut
from gateway.canonical.place import NAME
from gateway.canonical.text import CODE, Document

_LONG_ENOUGH = patterns.compile(r"^(?:file://)?(?:~|/|[A-Za-z]:[\\/]+|\\\\)[^/\\]+[/\\]+[^/\\]+")
_AS_PATH = r"(?:^|[^\pL\pN_./\\~-]|file://)({})(?:[/\\]|[^\pL\pN_.-]|[.](?:\s|$)|$)"
_AS_SLUG = r"(?:^|[^\pL\pN_.-])({})(?:[^\pL\pN_.]|[.](?:\s|$)|$)"
_NO_SLUG = patterns.compile(r"[^\pL\pN]+")


def cuts(document: Document, found: Sequence[Cut]) -> Iterator[Cut]:
    """Where paths of the cuts that were `found`, alone or inside a block, stand in the text again."""
    paths: dict[str, str] = {}
    for cut in found:
        if cut.rule == NAME and cut.leaves != PLACEHOLDER and cut.value and _LONG_ENOUGH.match(cut.value):
            paths.setdefault(cut.value.rstrip("/\\"), cut.leaves)
    for path in sorted(paths, key=lambda path: (-len(path), path)):
        for spelling in _spellings(path):
            pattern, at = patterns.compile(spelling), 0
            while match := pattern.search(document.text, at):
                start, at = match.span(1)
                if not _in_code(document, start):
                    yield Cut(start, at, NAME, "", "", "", paths[path])


def _spellings(path: str) -> Sequence[str]:
    """Patterns for the path as a whole path or the head of one, and as a slug; never as a part of another word."""
    plain = path.removeprefix("file://")
    slug = _NO_SLUG.sub("-", plain)
    return [_AS_PATH.format(re2.escape(plain)), *([_AS_SLUG.format(re2.escape(slug))] if slug.count("-") > 1 else [])]


def _in_code(document: Document, offset: int) -> bool:
    low, high = 0, len(document.lines)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if document.starts[middle] <= offset else (low, middle)
    return document.kind(low) == CODE
