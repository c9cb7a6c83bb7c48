"""Rows on disk: SQLite in `state_dir`, written by one thread so that the event loop never waits for a disk.

The rows are read once at start-up; after that memory is the truth and the file follows it within milliseconds. WAL mode: what
was committed survives kill -9. A file that cannot be used never stops the gateway: a corrupt one is moved aside and started
fresh, and where nothing can be written everything stays in memory. All of that is said in the log.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

log = logging.getLogger("warmgate.state")

FILE = "warmgate.sqlite3"
VERSION = 1
BATCHES = 4096  # batches of rows that may wait for the disk; more are dropped, and counted
BUSY = 5.0  # seconds to wait for another process that writes to the same file
STOP = 5.0  # seconds that the last rows may take

SCHEMA = """
    CREATE TABLE IF NOT EXISTS rows (
        kind TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, used REAL NOT NULL, PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """One row. value: bytes, None deletes it; used: wall clock seconds of its last use."""

    kind: str
    key: bytes
    value: bytes | None
    used: float


class Order(Enum):
    """What the writing thread is asked to do besides writing rows."""

    FORGET = "forget"
    STOP = "stop"


Task = list[Stored] | threading.Event | Order
"""Rows to write; an event to set once all before it is done; an order."""


class Store:
    """One file. Writers of the queue: the event loop; of the file: the thread. `secret` keys digests, and lives in the file."""

    def __init__(self, directory: Path | None, expiry: float, clock: Callable[[], float] = time.time):
        """directory: None keeps everything in memory; expiry: seconds after which an unused row is deleted at start-up."""
        self.problem: str | None = None
        self.dropped = 0
        self.secret = secrets.token_bytes(32)
        self.path = directory / FILE if directory else None
        self._loaded: list[Stored] = []
        self._queue: queue.Queue[Task] = queue.Queue(BATCHES)
        self._thread: threading.Thread | None = None
        if self.path and self._open(self.path, clock() - expiry):
            self._thread = threading.Thread(target=self._work, args=(self.path,), name="warmgate-state", daemon=True)
            self._thread.start()

    @property
    def durable(self) -> bool:
        return self._thread is not None

    def rows(self) -> Iterator[Stored]:
        """What was found on disk, the longest unused first. Given once: memory is the truth from then on."""
        loaded, self._loaded = self._loaded, []
        yield from loaded

    def put(self, rows: Iterable[Stored]) -> None:
        """Write these soon. Never waits."""
        if self._thread is None:
            return
        try:
            self._queue.put_nowait(list(rows))
        except queue.Full:
            self.dropped += 1

    def forget(self) -> None:
        """Delete all rows soon, so that not a byte of them stays in the file. Never waits; `flush` tells when it is done."""
        while self._thread is not None:
            try:
                self._queue.put_nowait(Order.FORGET)
                return
            except queue.Full:  # what waits would be deleted anyway
                with suppress(queue.Empty):
                    task = self._queue.get_nowait()
                    if isinstance(task, threading.Event):
                        task.set()

    def flush(self, seconds: float = STOP) -> bool:
        """Wait until everything put so far is on disk. Blocks; for tests and shut-down."""
        if self._thread is None:
            return True
        done = threading.Event()
        try:
            self._queue.put(done, timeout=seconds)
        except queue.Full:
            return False
        return done.wait(seconds)

    def close(self) -> None:
        if self._thread is not None:
            self.flush()
            try:
                self._queue.put(Order.STOP, timeout=STOP)
            except queue.Full:
                return
            self._thread.join(STOP)
            self._thread = None

    def _open(self, path: Path, oldest: float) -> bool:
        """Read the file, or make it. Returns whether it can be written to."""
        for attempt in (1, 2):
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                if not path.exists():
                    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
                os.chmod(path, 0o600)
                with closing(_connect(path)) as db:
                    self._read(db, oldest)
                return True
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) or attempt == 2 or not self._set_aside(path, error):
                    return self._give_up(path, error)
            except OSError as error:
                return self._give_up(path, error)
        return False

    def _read(self, db: sqlite3.Connection, oldest: float) -> None:
        db.executescript(SCHEMA)
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise sqlite3.DatabaseError(f"written by a newer version ({version})")
        with db:
            db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute("DELETE FROM rows WHERE used < ?", (oldest,))
            db.execute("INSERT OR IGNORE INTO meta VALUES ('secret', ?)", (self.secret,))
        self.secret = bytes(db.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()[0])
        found = db.execute("SELECT kind, key, value, used FROM rows ORDER BY used")
        self._loaded = [Stored(kind, bytes(key), bytes(value), used) for kind, key, value, used in found]

    def _set_aside(self, path: Path, error: Exception) -> bool:
        """Move a file that is no database out of the way. Returns whether that worked."""
        aside = path.with_suffix(f".corrupt-{int(time.time())}")
        try:
            path.rename(aside)
            for tail in ("-wal", "-shm"):
                Path(f"{path}{tail}").unlink(missing_ok=True)
        except OSError:
            return False
        log.warning("%s cannot be read (%s); it was moved to %s and a new one begun", path, error, aside.name)
        return True

    def _give_up(self, path: Path, error: Exception) -> bool:
        self.problem = f"{path} cannot be used ({error}); what is learned stays in memory until the gateway stops"
        log.error("%s", self.problem)
        return False

    def _work(self, path: Path) -> None:
        """The writing thread: one transaction for all that waits."""
        with closing(_connect(path)) as db:
            while True:
                batch = [self._queue.get()]
                while len(batch) < BATCHES and not self._queue.empty():
                    batch.append(self._queue.get_nowait())
                rows: list[Stored] = []
                for task in batch:
                    if isinstance(task, list):
                        rows += task
                    elif task is Order.FORGET:
                        rows.clear()
                        self._erase(db)
                self._write(db, rows)
                for task in batch:
                    if isinstance(task, threading.Event):
                        task.set()
                if Order.STOP in batch:
                    return

    def _erase(self, db: sqlite3.Connection) -> None:
        """Empty the file and its log, and delete what was moved aside. `secure_delete` zeroes free pages, VACUUM drops them."""
        try:
            with db:
                db.execute("DELETE FROM rows")
            db.execute("VACUUM")
            busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise sqlite3.OperationalError("another process reads its log")
            for aside in self._aside():
                aside.unlink(missing_ok=True)
        except (sqlite3.Error, OSError) as error:
            self.problem = f"{self.path} could not be emptied ({error})"
            log.error("%s", self.problem)
        else:
            self.problem = None

    def _aside(self) -> list[Path]:
        """Files that were moved out of the way because they could not be read."""
        return sorted(self.path.parent.glob(f"{self.path.stem}.corrupt-*")) if self.path else []

    def _write(self, db: sqlite3.Connection, rows: list[Stored]) -> None:
        if not rows:
            return
        try:
            with db:
                for row in rows:
                    if row.value is None:
                        db.execute("DELETE FROM rows WHERE kind = ? AND key = ?", (row.kind, row.key))
                    else:
                        db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?)", (row.kind, row.key, row.value, row.used))
        except sqlite3.Error as error:  # a full disk: memory goes on, the file lags behind
            self.dropped += 1
            if self.problem is None:
                log.error(
                    "%s cannot be written to (%s); what is learned from now on may be lost at a restart", self.path, error
                )
            self.problem = f"{self.path} cannot be written to ({error})"
        else:
            self.problem = None


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten, so that forgotten text is gone
    return db
