"""The canonical form of a prompt: the same prompt with a stable prefix. Pure but for bounded memos.

    find (by rule, memoised) -> route and evidence -> cut -> place notes -> check that all is told -> write

On any doubt the client's own bytes go out: a prompt is never failed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gateway.canonical import digests, learned, list_order, memory, notes, route, tools, user_rules
from gateway.canonical.analysis import Analysis, Canonical, Memo, analyse, without
from gateway.canonical.cuts import Cut, Item, apply, items, settle
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.result import Edit, Finding, Result
from gateway.canonical.settings import Settings
from gateway.dialects.prompt import Message, Prompt, Text
from gateway.dialects.prompt_ranges import Doubt, locate
from gateway.dialects.prompt_write import render
from gateway.values import Client

MEMO = 64
"""Texts whose results are kept. At most this many times the limit of a system text, in practice a few hundred kB."""


class Canonicalizer:
    """One configuration and its memos. Not to be used by two threads at once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._analyses: Memo[Analysis] = Memo(MEMO)
        self._texts: Memo[Canonical] = Memo(MEMO)
        self._tools: Memo[_Tools] = Memo(MEMO)

    def canonicalize(self, raw: bytes, prompt: Prompt, who: Client, known: Memory, now: float) -> Result:
        """raw: the body that `prompt` was read from; known: what the ledger knows; now: wall clock, seconds. Never raises."""
        original = Result(raw, prompt)
        if self.settings.mode == "off":
            return original
        if _too_long(prompt.system, self.settings.limit):
            return replace(original, reason="system text too long")
        try:
            result = self._canonicalize(raw, prompt, who, known, now)
        except Doubt as doubt:
            return replace(original, reason=f"doubt: {doubt}")
        except Exception as error:  # a fault in a rule must not become a fault of the request
            return replace(original, reason=f"fault: {type(error).__name__}")
        if self.settings.mode == "observe":
            return _observed(original, result)
        return result

    def _canonicalize(self, raw: bytes, prompt: Prompt, who: Client, known: Memory, now: float) -> Result:
        settings = self.settings
        system = self._system(prompt, who, known)
        ordered = self._order_tools(raw, prompt, known)
        placed = notes.place(prompt.messages, system.items, system.route, known, settings, now)
        evidence = (*system.rows, *ordered.rows)
        if placed is None:
            return Result(raw, prompt, remember=evidence, route=system.route, reason="no message to carry a note")
        after = _with_notes(replace(prompt, system=system.texts), placed.notes)
        if not _all_told(system.items, placed.notes, settings, now):
            return Result(raw, prompt, remember=evidence, route=system.route, reason="not all would be told")
        body = render(raw, prompt, after, ordered.raw)
        edits = [*_tool_edits(ordered), *system.edits, *_note_edits(placed.notes, known, prompt)]
        return Result(
            body=body,
            prompt=after,
            edits=tuple(edits),
            findings=tuple(_findings(system.found, prompt)),
            remember=(*evidence, *placed.rows),
            sent=placed.sent,
            notes=placed.notes,
            route=system.route,
        )

    def _system(self, prompt: Prompt, who: Client, known: Memory) -> _System:
        settings = self.settings
        analyses = [self._analyse(text.text, not at) for at, text in enumerate(prompt.system)]
        scope = digests.digest(settings.secret, prompt.path.encode(), digests.encode(prompt.model), digests.client(who))
        found, rows = route.resolve(scope, _joined(analyses), known)
        verdict = memory.judge([one.text for one in analyses], [one.blocks for one in analyses], found.id, known)
        moved = verdict.moved if "memory" in settings.rules else frozenset()
        restored = "memory" in settings.rules and verdict.texts != tuple(one.text for one in analyses)
        if restored:
            analyses = [self._analyse(text, not at) for at, text in enumerate(verdict.texts)]
        texts = [self._texts.get((one.text, not at, moved), lambda one=one: without(one, moved, settings)) for at, one in enumerate(analyses)]
        late, late_rows = self._late(texts, found.id, known)
        system = _System(found.id, rows=(*rows, *verdict.rows, *late_rows))
        system.collect(prompt, analyses, texts, late, settings)
        if restored:
            system.edits += [
                Edit(memory.NAME, _section(at), 0, "", "") for at, text in enumerate(prompt.system) if text.text != verdict.texts[at]
            ]
        return system

    def _analyse(self, text: str, first: bool) -> Analysis:
        return self._analyses.get((text, first), lambda: analyse(text, first, self.settings))

    def _late(self, texts: Sequence[Canonical], route_id: bytes, known: Memory) -> tuple[list[list[Cut]], list[Row]]:
        """Rules that look at the canonical texts and at evidence: list_order, learned, the user's own."""
        wanted = self.settings.rules | self.settings.observe
        cuts: list[list[Cut]] = [[] for _ in texts]
        rows: list[Row] = []
        if "list_order" in wanted:
            found, more = list_order.judge([one.text for one in texts], [one.lists for one in texts], route_id, known)
            cuts = [[*have, *new] for have, new in zip(cuts, found, strict=True)]
            rows += more
        if "learned" in wanted and texts:
            at = max(range(len(texts)), key=lambda at: len(texts[at].text))
            changes, more = learned.judge(texts[at].lines, route_id, known)
            applied = learned.NAME in self.settings.rules
            cuts[at] += [change.cut for change in changes if change.times >= learned.CHANGES or not applied]
            rows += more
        for at, one in enumerate(texts):
            if one.custom:
                frozen, more = user_rules.freeze(one.custom, self.settings.custom, route_id, known)
                cuts[at] += frozen
                rows += more
        return cuts, rows

    def _order_tools(self, raw: bytes, prompt: Prompt, known: Memory) -> _Tools:
        if not prompt.tools or "tools" not in self.settings.rules | self.settings.observe:
            return _Tools(b"", None, ())
        path = prompt.tools[0]
        start, end = locate(raw, [path], self._seen_tools())[path]
        mine = raw[start:end]
        made: list[_Tools] = []

        def make() -> _Tools:
            made.append(_order(mine, self.settings, known))
            return made[0]

        ordered = self._tools.get((mine, known.epoch), make)
        new = ordered.raw if "tools" in self.settings.rules else None
        return _Tools(mine, new, ordered.rows if made else ())

    def _seen_tools(self) -> tuple[bytes, ...]:
        return tuple(key[0] for key in self._tools.keys() if isinstance(key, tuple))


@dataclass(frozen=True, slots=True)
class _Tools:
    """before: the list of tools as sent; raw: in canonical order, None if it is already."""

    before: bytes
    raw: bytes | None
    rows: tuple[Row, ...]


class _System:
    """The system texts of one request on their way. Built by `Canonicalizer._system`, read-only afterwards."""

    def __init__(self, route_id: bytes, rows: tuple[Row, ...]) -> None:
        self.route = route_id
        self.rows = rows
        self.texts: tuple[Text, ...] = ()
        self.items: tuple[Item, ...] = ()
        self.edits: list[Edit] = []
        self.found: list[tuple[int, Cut, str]] = []

    def collect(
        self, prompt: Prompt, analyses: Sequence[Analysis], texts: Sequence[Canonical], late: Sequence[list[Cut]], settings: Settings
    ) -> None:
        """Put the cuts of all texts together."""
        custom = {rule.name for rule in settings.custom}
        told: list[Cut] = []
        out: list[Text] = []
        for at, (text, analysis, one) in enumerate(zip(prompt.system, analyses, texts, strict=True)):
            applied = settle(cut for cut in late[at] if cut.rule in settings.rules | custom)
            new = apply(one.text, applied)
            told += [*one.cuts, *applied]
            self.edits += [*_edits(at, analysis.text, one.cuts), *_edits(at, one.text, applied)]
            self.found += [(at, cut, analysis.text) for cut in analysis.off]
            self.found += [(at, cut, one.text) for cut in late[at] if cut not in applied]
            if new or not text.text or not (text.path[0] == "system" and len(text.path) == 3):
                out.append(Text(text.path, new))
        self.texts = tuple(out)
        self.items = items(told)


def _order(raw: bytes, settings: Settings, known: Memory) -> _Tools:
    rows: list[Row] = []

    def seen_first(what: tuple[str, ...], order: tools.Order) -> tools.Order:
        key = digests.digest(settings.secret, *(digests.encode(part) for part in what))
        first = known.get("order", key)
        if first is None:
            rows.append(Row("order", key, list(order)))
            return order
        return tuple(first)

    return _Tools(raw, tools.canonical(raw, seen_first), tuple(rows))


def _too_long(texts: Sequence[Text], limit: int) -> bool:
    characters = sum(len(text.text) for text in texts)
    return characters > limit or (characters * 4 > limit and sum(len(digests.encode(text.text)) for text in texts) > limit)


def _joined(analyses: Sequence[Analysis]) -> route.Skeleton:
    if len(analyses) == 1:
        return analyses[0].skeleton
    lines = {line for one in analyses for line in one.skeleton.sketch}
    return route.Skeleton(digests.digest(b"", *(one.skeleton.key for one in analyses)), tuple(sorted(lines)[: route.SKETCH]))


def _with_notes(prompt: Prompt, placed: dict[int, notes.Note] | object) -> Prompt:
    if not placed:
        return prompt
    messages = list(prompt.messages)
    for at, note in placed.items():  # type: ignore[attr-defined]
        messages[at] = _noted(messages[at], note.text)
    return replace(prompt, messages=tuple(messages))


def _noted(message: Message, note: str) -> Message:
    first = message.texts[0]
    return replace(message, texts=(Text(first.path, note + first.text), *message.texts[1:]))


def _all_told(wanted: Iterable[Item], placed: object, settings: Settings, now: float) -> bool:
    """The last check: every item is told by a note in this request, as it is, or a clock at most `max_age` old."""
    told: dict[str, tuple[str | None, float]] = {}
    for _, note in sorted(placed.items()):  # type: ignore[attr-defined]
        told.update((line.key, (line.tells, note.made)) for line in note.lines)
    for item in wanted:
        tells, made = told.get(item.key, (None, 0.0))
        if tells != item.tells and not (tells is not None and item.stale and now - made <= settings.max_age):
            return False
    return True


def _observed(original: Result, result: Result) -> Result:
    """What a rewriting result looks like when nothing may be rewritten: no notes were sent, so none are remembered."""
    found = tuple(Finding(edit, 0) for edit in result.edits if edit.rule != "note") + result.findings
    rows = tuple(row for row in result.remember if row.kind not in ("note", "noted"))
    return replace(original, findings=found, remember=rows, route=result.route, reason=result.reason)


def _section(at: int) -> str:
    return f"system[{at}]"


def _edits(at: int, text: str, cuts: Sequence[Cut]) -> Iterable[Edit]:
    end = 0
    for cut in cuts:
        if cut.start >= end:
            yield Edit(cut.rule, _section(at), cut.start, text[cut.start : cut.end], cut.leaves)
            end = cut.end


def _tool_edits(ordered: _Tools) -> Iterable[Edit]:
    if ordered.raw is not None:
        yield Edit(tools.__name__.rpartition(".")[2], "tools", 0, ordered.before.decode("utf-8", "replace"), ordered.raw.decode())


def _note_edits(placed: object, known: Memory, prompt: Prompt) -> Iterable[Edit]:
    for at, note in sorted(placed.items()):  # type: ignore[attr-defined]
        yield Edit("note", f"message[{at}]", 0, "", note.text)


def _findings(found: Sequence[tuple[int, Cut, str]], prompt: Prompt) -> Iterable[Finding]:
    talk = sum(len(text.text) for message in prompt.messages for text in message.texts)
    for at, cut, text in found:
        behind = len(text) - cut.start + sum(len(later.text) for later in prompt.system[at + 1 :]) + talk
        yield Finding(Edit(cut.rule, _section(at), cut.start, text[cut.start : cut.end], cut.leaves), behind)
