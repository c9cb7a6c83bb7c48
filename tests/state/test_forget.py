"""What is forgotten is gone from every byte of the directory, and what comes afterwards stays."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gateway.canonical.ledger import Row
from gateway.clock import SystemClock
from gateway.state.memory import Memory
from gateway.state.store import BATCHES, FILE, Store, Stored

WORD = b"geheimnis"
DAY = 86400.0


def note(number: int, length: int = 3000) -> Stored:
    return Stored("note", b"k%d" % number, WORD + b"." * length, 5e9)


def holding(directory: Path) -> list[str]:
    return [file.name for file in sorted(directory.iterdir()) if WORD in file.read_bytes()]


def test_not_a_byte_stays_on_disk(tmp_path: Path) -> None:
    store = Store(tmp_path, DAY)
    store.put([note(number) for number in range(200)])
    store.flush()
    (tmp_path / "warmgate.corrupt-17").write_bytes(WORD)
    assert len(holding(tmp_path)) >= 2
    store.put([note(number) for number in range(200, 300)])
    store.forget()
    store.put([Stored("note", b"new", b"later", 5e9)])
    assert store.flush()
    assert holding(tmp_path) == []
    assert store.problem is None
    store.close()
    assert [(row.key, row.value) for row in Store(tmp_path, DAY).rows()] == [(b"new", b"later")]


def test_a_row_that_is_deleted_is_overwritten(tmp_path: Path) -> None:
    """So that what expires is gone as well, once the log has been taken into the file."""
    store = Store(tmp_path, DAY)
    store.put([note(1)])
    store.flush()
    store.put([Stored("note", b"k1", None, 0.0)])
    store.close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    assert holding(tmp_path) == []


def test_a_full_queue_does_not_keep_it_from_forgetting(tmp_path: Path) -> None:
    store = Store(tmp_path, DAY)
    with sqlite3.connect(tmp_path / FILE) as blocker:  # the writing thread waits for this lock while the queue fills up
        blocker.execute("BEGIN IMMEDIATE")
        for number in range(2 * BATCHES + 10):
            store.put([note(number, 10)])
        assert store.dropped > 0, "the queue is full"
        store.forget()
        blocker.rollback()
    blocker.close()
    assert store.flush(20.0)
    store.close()
    assert (holding(tmp_path), list(Store(tmp_path, DAY).rows())) == ([], [])


def test_a_file_that_is_in_use_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path, DAY)
    store.put([note(1)])
    store.flush()
    with sqlite3.connect(tmp_path / FILE) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM rows").fetchall()
        store.forget()
        assert store.flush(20.0)
        assert "could not be emptied" in (store.problem or "")
    reader.close()
    store.forget()
    assert store.flush(20.0)
    assert (store.problem, holding(tmp_path)) == (None, [])
    store.close()


def test_memory_forgets_both_here_and_on_disk(tmp_path: Path) -> None:
    memory = Memory(tmp_path, SystemClock())
    memory.remember([Row("note", b"a", WORD.decode()), Row("order", b"b", [1, 0])])
    assert memory.flush()
    assert holding(tmp_path)
    assert (memory.durable, memory.forget(), memory.flush()) == (True, 2, True)
    assert (len(memory.ledger), memory.ledger.get("note", b"a"), holding(tmp_path)) == (0, None, [])
    secret = memory.secret
    memory.close()
    again = Memory(tmp_path, SystemClock())
    assert (len(again.ledger), again.secret) == (0, secret), "digests stay comparable"
    again.close()


def test_without_a_file_there_is_only_memory_to_forget() -> None:
    memory = Memory(None, SystemClock())
    memory.remember([Row("note", b"a", "x")])
    assert (memory.durable, memory.forget(), memory.flush(), len(memory.ledger)) == (False, 1, True, 0)
    memory.close()
