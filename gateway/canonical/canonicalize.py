"""The canonical form of a prompt: the same prompt with a stable prefix. Pure but for bounded memos.

    find (by rule, memoised) -> route and evidence -> cut -> place notes -> check that all is told -> write

On any doubt the client's own bytes go out: a prompt is never failed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.canonical import digests, notes, tools
from gateway.canonical.analysis import Memo
from gateway.canonical.cuts import Item
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.result import Edit, Finding, Result
from gateway.canonical.settings import Mode, Settings
from gateway.canonical.system import MEMO, System, SystemRules
from gateway.dialects.prompt import Message, Prompt, Text
from gateway.dialects.prompt_ranges import Doubt, Path, Span, locate
from gateway.dialects.prompt_write import render
from gateway.values import Client

TOOLS = "tools"
NOTE = "note"


class Canonicalizer:
    """One configuration and its memos. Not to be used by two threads at once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._rules = SystemRules(settings)
        self._tools: Memo[Ordered] = Memo(MEMO)

    def canonicalize(
        self, raw: bytes, prompt: Prompt, who: Client, known: Memory, now: float, mode: Mode | None = None
    ) -> Result:
        """raw: the body that `prompt` was read from; known: what the ledger knows; now: wall clock, seconds; mode: for this
        request, if not that of the settings. Never raises.
        """
        original, mode = Result(raw, prompt), mode or self.settings.mode
        if mode == "off" or not (prompt.system or prompt.tools):
            return original
        if _too_long(prompt.system, self.settings.limit):
            return replace(original, reason="system text too long")
        try:
            result = self._canonicalize(raw, prompt, who, known, now)
        except Doubt as doubt:
            return replace(original, reason=f"doubt: {doubt}")
        except Exception as error:  # a fault in a rule must not become a fault of the request
            return replace(original, reason=f"fault: {type(error).__name__}")
        return result if mode == "rewrite" else _observed(original, result)

    def _canonicalize(self, raw: bytes, prompt: Prompt, who: Client, known: Memory, now: float) -> Result:
        system = self._rules.judge(prompt, who, known)
        placed = notes.place(prompt.messages, system.items, system.route, known, self.settings, now)
        told = placed is not None and _all_told(system.items, placed.notes, self.settings, now)
        after = _after(prompt, system, placed) if placed is not None and told else prompt
        changed = list(_changed(prompt, after))
        spans = self.locate(raw, prompt, changed)
        ordered = self._order_tools(raw, prompt, spans, known)
        evidence = (*system.rows, *ordered.rows)
        if placed is None or not told:
            reason = "no message to carry a note" if placed is None else "not all would be told"
            return Result(raw, prompt, remember=evidence, route=system.route, reason=reason)
        return Result(
            body=render(raw, prompt, after, ordered.raw, spans) if changed or ordered.raw is not None else raw,
            prompt=after,
            edits=(*ordered.edits, *system.edits, *_note_edits(placed.notes)),
            findings=tuple(_findings(system, prompt)),
            remember=(*evidence, *placed.rows),
            sent=placed.sent,
            notes=placed.notes,
            route=system.route,
        )

    def locate(self, raw: bytes, prompt: Prompt, changed: Iterable[Path]) -> dict[Path, Span]:
        """Where in the body the parts are that are edited, and the tools: one pass over the bytes finds them all. Raises
        Doubt."""
        paths = [*changed, *([prompt.tools[0]] if prompt.tools else [])]
        if paths:
            paths += [text.path for text in prompt.system]  # a long string is passed quicker by itself than inside a value
        return locate(raw, paths, tuple(before for before, _ in self._tools)) if paths else {}

    def judge(
        self, raw: bytes, prompt: Prompt, spans: Mapping[Path, Span], who: Client, known: Memory
    ) -> tuple[System, Ordered]:
        """What the rules say about the system texts and the tools. spans: as `locate` found them."""
        return self._rules.judge(prompt, who, known), self._order_tools(raw, prompt, spans, known)

    def _order_tools(self, raw: bytes, prompt: Prompt, spans: Mapping[Path, Span], known: Memory) -> Ordered:
        if not prompt.tools or TOOLS not in self.settings.rules:
            return Ordered(None, (), ())
        start, end = spans[prompt.tools[0]]
        key = (raw[start:end], known.epoch)
        if (kept := self._tools.peek(key)) is not None:
            return kept
        made = _order(key[0], self.settings, known)
        if not made.rows:
            self._tools.get(key, lambda: made)
        return made


@dataclass(frozen=True, slots=True)
class Ordered:
    """raw: the list of tools in canonical order, None if it is already."""

    raw: bytes | None
    edits: tuple[Edit, ...]
    rows: tuple[Row, ...]


def _order(raw: bytes, settings: Settings, known: Memory) -> Ordered:
    rows: list[Row] = []

    def seen_first(what: tuple[str, ...], order: tools.Order) -> tools.Order:
        key = digests.digest(settings.secret, *(digests.encode(part) for part in what))
        first = known.get("order", key)
        if first is None:
            rows.append(Row("order", key, list(order)))
            return order
        return tuple(first)

    new = tools.canonical(raw, seen_first)
    edits = (Edit(TOOLS, TOOLS, 0, raw.decode("utf-8", "replace"), new.decode()),) if new is not None else ()
    return Ordered(new, edits, tuple(rows))


def _too_long(texts: Sequence[Text], limit: int) -> bool:
    characters = sum(len(text.text) for text in texts)
    return characters > limit or (characters * 4 > limit and sum(len(digests.encode(text.text)) for text in texts) > limit)


def _after(prompt: Prompt, system: System, placed: notes.Placed) -> Prompt:
    return replace(prompt, system=system.applied(prompt.system), messages=_with_notes(prompt.messages, placed.notes))


def _changed(before: Prompt, after: Prompt) -> Iterator[Path]:
    """Paths of the texts that differ, and of the blocks that are gone. Only a message's first text may differ."""
    new = {text.path: text.text for text in after.system}
    for text in before.system:
        if new.get(text.path) != text.text:
            yield text.path
            if text.path not in new:
                yield text.path[:2]
    if after.messages is not before.messages:
        for old, one in zip(before.messages, after.messages, strict=True):
            if one is not old:
                yield old.texts[0].path


def _with_notes(messages: tuple[Message, ...], placed: Mapping[int, notes.Note]) -> tuple[Message, ...]:
    if not placed:
        return messages
    return tuple(_noted(message, placed[at].text) if at in placed else message for at, message in enumerate(messages))


def _noted(message: Message, note: str) -> Message:
    first = message.texts[0]
    return replace(message, texts=(Text(first.path, note + first.text), *message.texts[1:]))


def _all_told(wanted: Iterable[Item], placed: Mapping[int, notes.Note], settings: Settings, now: float) -> bool:
    """The last check: every item is told by a note in this request, as it is, or a clock at most `max_age` old."""
    told: dict[str, tuple[str | None, float]] = {}
    for _, note in sorted(placed.items()):
        told.update((line.key, (line.tells, note.made)) for line in note.lines)
    for item in wanted:
        tells, made = told.get(item.key, (None, 0.0))
        if tells != item.tells and not (tells is not None and item.stale and now - made <= settings.max_age):
            return False
    return True


def _observed(original: Result, result: Result) -> Result:
    """What a rewriting result looks like when nothing may be rewritten: no notes were sent, so none are remembered."""
    found = (*(Finding(edit, _behind(edit, original.prompt)) for edit in result.edits if edit.rule != NOTE), *result.findings)
    rows = tuple(row for row in result.remember if row.kind not in ("note", "noted"))
    return replace(original, findings=found, remember=rows, route=result.route, reason=result.reason)


def _note_edits(placed: Mapping[int, notes.Note]) -> Iterator[Edit]:
    for at, note in sorted(placed.items()):
        yield Edit(NOTE, f"message[{at}]", 0, "", note.text)


def _findings(system: System, prompt: Prompt) -> Iterator[Finding]:
    for one in system.observed:
        yield Finding(one.edit, one.behind + _talk(prompt))


def _behind(edit: Edit, prompt: Prompt) -> int:
    """Characters of the prompt from an edit on; of a prompt whose template puts tools first."""
    lengths = [len(text.text) for text in prompt.system]
    at = next((at for at in range(len(lengths)) if edit.section == f"system[{at}]"), None)
    return (sum(lengths) if at is None else sum(lengths[at:]) - edit.offset) + _talk(prompt)


def _talk(prompt: Prompt) -> int:
    return sum(len(text.text) for message in prompt.messages for text in message.texts)
