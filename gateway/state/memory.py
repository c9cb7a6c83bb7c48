"""What the gateway remembers about prompts: the ledger, the ring of saved slots and the pins in memory, their rows on disk.

One writer: this class, on the event loop. The disk is written by the store's own thread.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path

from gateway.canonical.digests import digest
from gateway.canonical.ledger import Ledger, Row
from gateway.clock import Clock
from gateway.state import pins
from gateway.state.pins import Pins
from gateway.state.snapshots import KINDS, Ring
from gateway.state.store import Store, Stored

DAY = 86400.0  # seconds
EXPIRY = 30 * DAY


class Memory:
    def __init__(self, directory: Path | None, clock: Clock):
        """directory: None keeps everything in memory. Reads the file, so it is made before the loop runs."""
        self.directory = directory
        self.ledger = Ledger(expiry=EXPIRY)
        self._clock = clock
        self._store = Store(directory, EXPIRY, clock.wall)
        self.snapshots = Ring(self._instance(), clock, self._store.put)
        self.pins = Pins(clock, self._store.put)
        for row in self._store.rows():
            if row.kind == pins.KIND:
                self.pins.load(row)
            elif row.kind in KINDS:
                self.snapshots.load(row)
            elif row.value is not None:
                self.ledger.load(row.kind, row.key, row.value, row.used)

    @property
    def secret(self) -> bytes:
        return self._store.secret

    def _instance(self) -> str:
        """What the names of this gateway's files on servers begin with: the same after a restart, so that they stay as few."""
        secret = self.secret if self._store.durable else platform.node().encode() or b"-"
        return digest(secret, b"instance").hex()[:8]

    @property
    def problem(self) -> str | None:
        """What is wrong with the file, in a sentence; None while all is well."""
        return self._store.problem

    def remember(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        if not rows:
            return
        now = self._clock.wall()
        gone = self.ledger.apply(rows, now)
        self._store.put([Stored(row.kind, row.key, row.dump() if row.value is not None else None, now) for row in rows])
        if gone:
            self._store.put([Stored(kind, key, None, now) for kind, key in gone])

    def keep_used(self) -> None:
        """Rows that are read stay: once a day, what was read is noted as used, in memory and on disk."""
        now = self._clock.wall()
        stale = self.ledger.stale(now - DAY)
        self.ledger.touch(stale, now)
        if stale:
            self._store.put([Stored(kind, key, Row(kind, key, self.ledger.get(kind, key)).dump(), now) for kind, key in stale])

    @property
    def durable(self) -> bool:
        """Whether what is learned survives a restart."""
        return self._store.durable

    def forget(self) -> int:
        """Drop everything that was learned. Returns how many rows that were; `flush` tells when they have left the disk."""
        count = len(self.ledger)
        self.ledger.forget()
        self._store.forget()  # the names of files are noted again behind it
        count += self.snapshots.forget() + self.pins.forget()
        return count

    def flush(self, seconds: float = 20.0) -> bool:
        """Wait until the file has all that was remembered or forgotten so far. Blocks: not for the event loop."""
        return self._store.flush(seconds)

    def close(self) -> None:
        self._store.close()
