"""Rules of the user's own, from the configuration: move, drop or freeze what a pattern finds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.canonical import patterns
from gateway.canonical.cuts import PLACEHOLDER, Cut
from gateway.canonical.digests import digest, encode
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.settings import UserRule
from gateway.canonical.text import CODE, Document


def cuts(document: Document, rules: Sequence[UserRule]) -> Iterator[Cut]:
    """What the rules find in running text, line by line. A frozen span has itself in `leaves` until `freeze` replaces it."""
    for rule in rules:
        pattern = patterns.compile(rule.pattern)
        for number, line in enumerate(document.lines):
            if document.kind(number) == CODE:
                continue
            for match in pattern.finditer(line):
                if match[0] and match[0] != PLACEHOLDER:
                    yield _cut(rule, document.starts[number] + match.start(), match[0])


def freeze(found: Sequence[Cut], rules: Sequence[UserRule], route: bytes, memory: Memory) -> tuple[list[Cut], list[Row]]:
    """The cuts with each frozen span as it was when the route was first seen, and what to remember."""
    frozen = {rule.name for rule in rules if rule.action == "freeze"}
    out: list[Cut] = []
    rows: list[Row] = []
    counts: dict[str, int] = {}
    for cut in found:
        if cut.rule not in frozen:
            out.append(cut)
            continue
        counts[cut.rule] = counts.get(cut.rule, 0) + 1
        key = digest(b"", route, encode(cut.rule), str(counts[cut.rule]).encode())
        first = memory.get("frozen", key)
        if first is None:
            rows.append(Row("frozen", key, cut.leaves))
        elif first != cut.leaves:
            out.append(Cut(cut.start, cut.end, cut.rule, "", "", "", first))
    return out, rows


def _cut(rule: UserRule, start: int, found: str) -> Cut:
    end = start + len(found)
    if rule.action == "move":
        return Cut(start, end, rule.name, rule.name, found, found)
    return Cut(start, end, rule.name, "", "", "", found if rule.action == "freeze" else "")
