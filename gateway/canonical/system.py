"""The system texts of one request: what the rules find, what the evidence of the route says, and how the texts look then.

Pure but for bounded memos. The whole outcome is kept as well, as long as nothing that it rests on changes (`Memory.epoch`): it
is the same function of the same things.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.canonical import attribution, digests, learned, list_order, memory, route, user_rules
from gateway.canonical.analysis import Analysis, Canonical, Memo, analyse, without
from gateway.canonical.cuts import Cut, Item, apply, items, settle
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.result import Edit
from gateway.canonical.settings import Settings
from gateway.dialects.prompt import Prompt, Text
from gateway.values import Client

MEMO = 64
"""Texts whose results are kept: in practice a few MB."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What an observed rule found. behind: characters of system text from there on."""

    edit: Edit
    behind: int


@dataclass(frozen=True, slots=True)
class System:
    """texts: the canonical texts, None for a block that is dropped; items: what must be told; rows: what to remember."""

    route: bytes
    texts: tuple[str | None, ...]
    items: tuple[Item, ...]
    edits: tuple[Edit, ...]
    observed: tuple[Observed, ...]
    rows: tuple[Row, ...]

    def applied(self, old: tuple[Text, ...]) -> tuple[Text, ...]:
        """The texts of a prompt as they are now."""
        return tuple(Text(text.path, new) for text, new in zip(old, self.texts, strict=True) if new is not None)


class SystemRules:
    """The rules over system text under one configuration, with their memos."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wanted = settings.rules | settings.observe
        self._analyses: Memo[Analysis] = Memo(MEMO)
        self._texts: Memo[Canonical] = Memo(MEMO)
        self._outcomes: Memo[System] = Memo(MEMO)

    def judge(self, prompt: Prompt, who: Client, known: Memory) -> System:
        """What becomes of the system texts of a prompt."""
        texts = tuple(text.text for text in prompt.system)
        blocks = tuple(_is_block(text) for text in prompt.system)
        key = (prompt.path, prompt.model, who, known.epoch, blocks, texts)
        if (kept := self._outcomes.peek(key)) is not None:
            return kept
        system = self._judge(prompt, texts, who, known)
        if not system.rows:
            self._outcomes.get(key, lambda: system)
        return system

    def _judge(self, prompt: Prompt, texts: tuple[str, ...], who: Client, known: Memory) -> System:
        settings = self._settings
        scope = digests.digest(settings.secret, prompt.path.encode(), digests.encode(prompt.model), digests.client(who))
        analyses = self._analyse(texts)
        found, rows = route.resolve(scope, _joined(analyses), known)
        verdict = memory.judge(texts, [one.blocks for one in analyses], found.id, known)
        applied = memory.NAME in settings.rules
        moved = verdict.moved if applied else frozenset()
        restored = applied and verdict.texts != texts
        if restored:
            analyses = self._analyse(verdict.texts)
        canonical = [
            self._texts.get((one.text, one.first, moved), partial(without, one, moved, settings))
            for at, one in enumerate(analyses)
        ]
        late, late_rows = self._late(canonical, found.id, known)
        return self._together(
            prompt, analyses, canonical, late, System(found.id, (), (), (), (), (*rows, *verdict.rows, *late_rows))
        )

    def _analyse(self, texts: Sequence[str]) -> list[Analysis]:
        heads = attribution.first(texts)
        return [
            self._analyses.get((text, at < heads), partial(analyse, text, at < heads, self._settings))
            for at, text in enumerate(texts)
        ]

    def _late(self, texts: Sequence[Canonical], route_id: bytes, known: Memory) -> tuple[list[list[Cut]], list[Row]]:
        """Rules that look at the canonical texts and at evidence: list_order, learned, the user's own."""
        cuts: list[list[Cut]] = [[] for _ in texts]
        rows: list[Row] = []
        if list_order.NAME in self._wanted:
            found, more = list_order.judge([one.text for one in texts], [one.lists for one in texts], route_id, known)
            cuts = found
            rows += more
        if learned.NAME in self._wanted and texts:
            at = max(range(len(texts)), key=lambda at: len(texts[at].text))
            changes, more = learned.judge(texts[at].lines, route_id, known)
            applied = learned.NAME in self._settings.rules
            cuts[at] += [change.cut for change in changes if change.times >= learned.CHANGES or not applied]
            rows += more
        for at, one in enumerate(texts):
            frozen, more = user_rules.freeze(one.custom, self._settings.custom, route_id, known)
            cuts[at] += frozen
            rows += more
        return cuts, rows

    def _together(
        self, prompt: Prompt, analyses: Sequence[Analysis], texts: Sequence[Canonical], late: Sequence[list[Cut]], empty: System
    ) -> System:
        """The cuts of all texts put together."""
        rules = self._settings.rules | {rule.name for rule in self._settings.custom}
        new: list[str | None] = []
        told: list[Cut] = []
        edits: list[Edit] = []
        observed: list[Observed] = []
        for at, (text, analysis, one) in enumerate(zip(prompt.system, analyses, texts, strict=True)):
            applied = settle(cut for cut in late[at] if cut.rule in rules)
            result = apply(one.text, applied)
            dropped = not result and bool(text.text) and _is_block(text)
            new.append(None if dropped else result)
            told += [*one.cuts, *applied]
            if text.text != analysis.text:
                edits.append(Edit(memory.NAME, _section(at), 0, text.text, analysis.text))
            edits += [*_edits(at, analysis.text, one.cuts), *_edits(at, one.text, applied)]
            later = sum(len(other.text) for other in prompt.system[at + 1 :])
            observed += [_observed(at, cut, analysis.text, later) for cut in analysis.off]
            observed += [_observed(at, cut, one.text, later) for cut in late[at] if cut.rule not in rules]
        return System(empty.route, tuple(new), items(told), tuple(edits), tuple(observed), empty.rows)


def _is_block(text: Text) -> bool:
    """Whether a system text is a block of its own in a list of them, which may be taken out whole."""
    return len(text.path) == 3 and text.path[0] == "system"


def _joined(analyses: Sequence[Analysis]) -> route.Skeleton:
    if len(analyses) == 1:
        return analyses[0].skeleton
    lines = {line for one in analyses for line in one.skeleton.sketch}
    return route.Skeleton(digests.digest(b"", *(one.skeleton.key for one in analyses)), tuple(sorted(lines)[: route.SKETCH]))


def _section(at: int) -> str:
    return f"system[{at}]"


def _edits(at: int, text: str, cuts: Sequence[Cut]) -> Iterator[Edit]:
    end = 0
    for cut in cuts:
        if cut.start >= end:
            yield Edit(cut.rule, _section(at), cut.start, text[cut.start : cut.end], cut.leaves)
            end = cut.end


def _observed(at: int, cut: Cut, text: str, later: int) -> Observed:
    edit = Edit(cut.rule, _section(at), cut.start, text[cut.start : cut.end], cut.leaves)
    return Observed(edit, len(text) - cut.start + later)
