"""What the gateway remembers about prompts: rows of (kind, key, value), read by the rules, written by one writer.

The rules see a `Memory`, which they can only read; what is to be stored they give back as `Row`s. `Ledger` is the memory in
a dict, bounded, with an age for every row; a store on disk keeps the same rows (`Row.dump`, `Ledger.load`). Its one writer is
whoever calls `apply`.

| kind | key | value |
|---|---|---|
| note | a conversation up to a user message | the notes that were sent with that message (`notes.Sticky`) |
| noted | a route | true, once a note was sent there |
| order | a set of property names in a tool | the order in which it was seen first |
| route | a route's skeleton | the route's id |
| routes | a scope (path, model, client) | its routes: id and sketch of the skeleton |
| blocks | a route | its memory blocks: first version, whether it moves, order of items |
| lists | a route | its bullet lists: set of items -> first-seen order |
| lines | a route | digests of its lines, and how often a line changed between the same neighbours |
| frozen | a route and a rule of the user's | the text that the rule freezes |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

DAY = 86400.0
NOTES = frozenset({"note", "noted"})
"""Kinds that no rule rests on; they change with every turn."""


class Memory(Protocol):
    """What the rules may read."""

    @property
    def epoch(self) -> int:
        """Another number whenever anything but a note was learned or forgotten: results that rest on it are not reused."""

    def get(self, kind: str, key: bytes) -> Any:
        """The value of a row, or None. Values are shared and must not be changed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to remember. value: anything that JSON can say; None deletes the row."""

    kind: str
    key: bytes
    value: Any

    def dump(self) -> bytes:
        """The value as JSON, for a store."""
        return orjson.dumps(self.value)


class Nothing:
    """A memory that knows nothing: what a lost ledger looks like."""

    epoch = 0

    def get(self, kind: str, key: bytes) -> Any:
        return None


class Ledger:
    """Rows in memory. At most `rows` of them, the longest unused go first; a row unused for `expiry` seconds is gone."""

    _epochs = 0  # numbers are never used twice in a process, so that two ledgers are never taken for one

    def __init__(self, rows: int = 20_000, expiry: float = 30 * DAY) -> None:
        self._limit = rows
        self._expiry = expiry
        self._rows: dict[tuple[str, bytes], tuple[Any, float]] = {}
        self._used: set[tuple[str, bytes]] = set()
        self.epoch = 0
        self._changed()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, kind: str, key: bytes) -> Any:
        found = self._rows.get((kind, key))
        if found is None:
            return None
        self._used.add((kind, key))
        return found[0]

    def stale(self, before: float) -> list[tuple[str, bytes]]:
        """The rows that were read since the last call here, and last noted as used before this time. See `touch`."""
        used, self._used = self._used, set()
        return [at for at in used if at in self._rows and self._rows[at][1] < before]

    def apply(self, rows: Iterable[Row], now: float) -> list[tuple[str, bytes]]:
        """Store what a request gave to remember. now: wall clock, seconds.

        Returns the rows (kind, key) that fell out, so that a store on disk can delete them too.
        """
        for row in rows:
            if row.kind not in NOTES:
                self._changed()
            at = (row.kind, row.key)
            self._rows.pop(at, None)
            if row.value is not None:
                self._rows[at] = (row.value, now)
        return list(self._drop(now))

    def touch(self, rows: Iterable[tuple[str, bytes]], now: float) -> None:
        """Say that rows were used, so that they stay."""
        for at in rows:
            if found := self._rows.pop(at, None):
                self._rows[at] = (found[0], now)

    def load(self, kind: str, key: bytes, value: bytes, at: float) -> None:
        """A row from a store, oldest first. at: when it was last used, wall clock seconds."""
        self._rows[(kind, key)] = (orjson.loads(value), at)

    def forget(self) -> None:
        """Drop everything."""
        self._rows.clear()
        self._used.clear()
        self._changed()

    def rows(self) -> Iterator[tuple[Row, float]]:
        """All rows with the time of their last use, longest unused first."""
        for (kind, key), (value, at) in self._rows.items():
            yield Row(kind, key, value), at

    def _drop(self, now: float) -> Iterator[tuple[str, bytes]]:
        while self._rows:
            oldest = next(iter(self._rows))
            if len(self._rows) <= self._limit and now - self._rows[oldest][1] <= self._expiry:
                return
            del self._rows[oldest]
            self._changed()
            yield oldest

    def _changed(self) -> None:
        Ledger._epochs += 1
        self.epoch = Ledger._epochs
