"""Notes: what was moved out of the system text, told at the start of a user's message, and told again there ever after. Pure.

A note must come back byte for byte when its message returns as history, or the prefix breaks there. `place` decides which
message carries which note, and keeps the promise that is checked last: every value taken out of the system text is told by a
note inside this very request, as it is now or, inside a tool loop, as it was at most `max_age` ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.canonical.cuts import Item
from gateway.canonical.digests import chain, is_reasoning, said
from gateway.canonical.ledger import Memory, Row
from gateway.canonical.settings import Settings
from gateway.dialects.prompt import Message

MAX_CANDIDATES = 8
"""Notes remembered for one conversation up to one message; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Line:
    """One statement of a note. tells: None says that the item is no longer given."""

    key: str
    name: str
    tells: str | None

    @property
    def text(self) -> str:
        return f"{self.name}: no longer given" if self.tells is None else self.tells


@dataclass(frozen=True, slots=True)
class Note:
    """What one user message tells besides its own text. made: wall clock of its oldest clock value, seconds."""

    lines: tuple[Line, ...]
    made: float

    @property
    def text(self) -> str:
        return "<context>\n" + "\n".join(line.text for line in self.lines) + "\n</context>\n\n"


@dataclass(frozen=True, slots=True)
class Sticky:
    """A note that was sent. reply: digest of the message that followed, as 32 hex digits, or "" while nobody knows it."""

    note: Note
    reply: str
    at: float

    def value(self) -> list[Any]:
        """As JSON."""
        return [self.reply, self.at, self.note.made, [[line.key, line.name, line.tells] for line in self.note.lines]]


@dataclass(frozen=True, slots=True)
class Sent:
    """The note that went out with the newest message, for `heard`."""

    key: bytes
    note: Note


@dataclass(frozen=True, slots=True)
class Placed:
    """notes: index of a message -> its note; rows: what to remember; sent: set if the newest message is a new turn with a note.

    None in place of a `Placed` means that there is no message that could carry what must be told.
    """

    notes: Mapping[int, Note]
    rows: tuple[Row, ...] = ()
    sent: Sent | None = None


Told = dict[str, tuple[str | None, float]]
"""Key of an item -> what the notes of this request say last, and when that note was made."""


def place(
    messages: Sequence[Message], items: Sequence[Item], root: bytes, memory: Memory, settings: Settings, now: float
) -> Placed | None:
    """Which messages carry which notes. root: who is asking, in which route. now: wall clock, seconds."""
    if not items and not memory.get("noted", root):
        return Placed({})
    users = [at for at, message in enumerate(messages) if message.notable]
    if not users:
        return None if items else Placed({})
    target = users[-1]
    spoken = [b"" if is_reasoning(message) else said(settings.secret, message) for message in messages]
    keys = list(chain(settings.secret, root, spoken[: target + 1]))
    notes: dict[int, Note] = {}
    told: Told = {}
    rows: list[Row] = []
    for at in users[:-1]:
        reply = _reply(spoken, at)
        candidates = _matching(_stored(memory, keys[at]), reply, settings, now)
        if len(candidates) == 1:
            notes[at] = candidates[0].note
            rows += _bound(memory, keys[at], candidates[0], reply, now)
            _tell(told, candidates[0].note)
    turn = _Turn(memory, settings, items, told, keys[target], _reply(spoken, target), now)
    note, more, fresh = turn.settle()
    if note is not None:
        notes[target] = note
    if more:
        rows += (*more, *([] if memory.get("noted", root) else [Row("noted", root, True)]))
    return Placed(notes, tuple(rows), Sent(keys[target], note) if fresh and note else None)


def heard(sent: Sent, reply: bytes, memory: Memory) -> list[Row]:
    """What to remember once the reply to a new turn is known. reply: `digests.reply` of it."""
    stored = _stored(memory, sent.key)
    new = [Sticky(one.note, reply.hex(), one.at) if one.note == sent.note and not one.reply else one for one in stored]
    return [_row(sent.key, new)] if new != stored else []


@dataclass(frozen=True, slots=True)
class _Turn:
    """The newest user message: what it must tell, given what the notes before it told."""

    memory: Memory
    settings: Settings
    items: Sequence[Item]
    told: Told
    key: bytes
    reply: str  # "" if nothing follows: a new turn
    now: float

    def settle(self) -> tuple[Note | None, list[Row], bool]:
        """The note, if any, what to remember, and whether it is the note of a new turn."""
        stored = _stored(self.memory, self.key)
        if not self.reply:
            note = self._note(None)
            return note, self._remember(stored, None, note), True
        candidates = _matching(stored, self.reply, self.settings, self.now)
        usable = [one for one in candidates if self._kept(one.note)]
        if len(usable) == 1:
            return usable[0].note, _bound(self.memory, self.key, usable[0], self.reply, self.now), False
        if not candidates and self._kept(None):
            return None, [], False
        old = candidates[0] if len(candidates) == 1 else None
        note = self._note(old.note if old else None)
        return note, self._remember(stored, old, note), False

    def _kept(self, note: Note | None) -> bool:
        """Whether all is told with this note in place."""
        told = dict(self.told)
        if note:
            _tell(told, note)
        current = {item.key for item in self.items}
        return all(self._says(told, item) for item in self.items) and not any(
            tells is not None and key not in current for key, (tells, _) in told.items()
        )

    def _says(self, told: Told, item: Item) -> bool:
        tells, made = told.get(item.key, (None, 0.0))
        return tells == item.tells or (tells is not None and item.stale and self._young(made))

    def _young(self, made: float) -> bool:
        return -1.0 <= self.now - made <= self.settings.max_age

    def _note(self, old: Note | None) -> Note | None:
        """What differs from what was told before. Clock values of the turn's old note are kept while they are young."""
        keep = {line.key: line.tells for line in old.lines} if old and self._young(old.made) else {}
        lines, made = [], self.now
        for item in self.items:
            tells = item.tells
            if old and item.stale and keep.get(item.key):
                tells, made = keep[item.key] or tells, old.made
            if self.told.get(item.key, (None, 0.0))[0] != tells:
                lines.append(Line(item.key, item.name, tells))
        current = {item.key for item in self.items}
        gone = [key for key, (tells, _) in self.told.items() if tells is not None and key not in current]
        lines += [Line(key, _name(key), None) for key in gone]
        return Note(tuple(lines), made) if lines else None

    def _remember(self, stored: list[Sticky], old: Sticky | None, note: Note | None) -> list[Row]:
        kept = [
            one for one in stored if one != old and (note is None or one.note.lines != note.lines or one.reply != self.reply)
        ]
        if note is None:
            return [_row(self.key, kept)] if kept != stored else []
        return [_row(self.key, [*kept, Sticky(note, self.reply, self.now)])]


def _matching(stored: Sequence[Sticky], reply: str, settings: Settings, now: float) -> list[Sticky]:
    """The notes that may have been sent with this message: those with the same reply, else those whose reply nobody saw."""
    same = [one for one in stored if one.reply == reply]
    found = same or [one for one in stored if not one.reply and now - one.at <= settings.unheard]
    return list({one.note.text: one for one in found}.values())


def _bound(memory: Memory, key: bytes, chosen: Sticky, reply: str, now: float) -> list[Row]:
    """Once a note was recognised by its lone presence, it belongs to the reply that follows it."""
    if chosen.reply == reply:
        return []
    return [_row(key, [Sticky(one.note, reply, now) if one == chosen else one for one in _stored(memory, key)])]


def _reply(spoken: Sequence[bytes], at: int) -> str:
    """The digest of what follows a message, without its reasoning; "" if nothing does."""
    return next((spoken[later].hex() for later in range(at + 1, len(spoken)) if spoken[later]), "")


def _tell(told: Told, note: Note) -> None:
    told.update((line.key, (line.tells, note.made)) for line in note.lines)


def _name(key: str) -> str:
    """The words for an item that is known by its key only: `clock:Today: [see context]` -> `Today`."""
    statement = key.partition(":")[2].partition("#")[0]
    return statement.partition("[see context]")[0].strip(" :=") or statement.strip()


def _stored(memory: Memory, key: bytes) -> list[Sticky]:
    return [
        Sticky(Note(tuple(Line(*line) for line in lines), made), reply, at)
        for reply, at, made, lines in memory.get("note", key) or ()
    ]


def _row(key: bytes, stickies: Iterable[Sticky]) -> Row:
    kept = list(stickies)[-MAX_CANDIDATES:]
    return Row("note", key, [one.value() for one in kept] or None)
