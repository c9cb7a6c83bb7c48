from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.state.store import FILE, Store, Stored

DAY = 86400.0


def rows(store: Store) -> list[tuple[str, bytes, bytes | None]]:
    return [(row.kind, row.key, row.value) for row in store.rows()]


def reopened(directory: Path, **more) -> Store:
    return Store(directory, 30 * DAY, **more)


def test_rows_and_the_secret_survive_a_restart(tmp_path: Path) -> None:
    first = reopened(tmp_path)
    first.put([Stored("note", b"k1", b"1", 5e9), Stored("note", b"k2", b"2", 4e9)])
    first.put([Stored("note", b"k1", b"3", 6e9)])
    secret = first.secret
    first.close()
    second = reopened(tmp_path)
    assert rows(second) == [("note", b"k2", b"2"), ("note", b"k1", b"3")], "the longest unused first"
    assert (second.secret, second.durable) == (secret, True)
    second.put([Stored("note", b"k2", None, 7e9)])
    second.close()
    assert rows(reopened(tmp_path)) == [("note", b"k1", b"3")]


def test_old_rows_are_deleted(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    store.put([Stored("note", b"old", b"1", 100.0), Stored("note", b"new", b"1", 40 * DAY)])
    store.close()
    assert rows(reopened(tmp_path, clock=lambda: 41 * DAY)) == [("note", b"new", b"1")]


def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    store = reopened(tmp_path / "sub")
    store.put([Stored("note", b"k", b"v", 5e9)])
    store.flush()
    for file in (tmp_path / "sub").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    store.close()


def test_a_corrupt_file_is_moved_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_bytes(b"this is no database, but it is longer than a header of a hundred bytes" * 20)
    store = reopened(tmp_path)
    assert store.durable
    assert "moved to" in caplog.text
    store.put([Stored("note", b"k", b"v", 5e9)])
    store.close()
    assert rows(reopened(tmp_path)) == [("note", b"k", b"v")]
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1


def test_a_file_of_a_newer_version_is_not_written_to_as_if_it_were_ours(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert reopened(tmp_path).durable
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1


def test_where_nothing_can_be_written_it_stays_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    store = reopened(tmp_path / "file" / "below")
    assert (store.durable, rows(store)) == (False, [])
    assert "stays in memory" in (store.problem or "")
    store.put([Stored("note", b"k", b"v", 5e9)])
    assert store.flush()
    store.close()


def test_memory_only_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(None, 30 * DAY)
    store.put([Stored("note", b"k", b"v", 5e9)])
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_is_told_once_and_costs_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = reopened(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DROP TABLE rows")
    db.close()
    for _ in range(3):
        store.put([Stored("note", b"k", b"v", 5e9)])
        store.flush()
    assert store.dropped == 3
    assert caplog.text.count("cannot be written to") == 1
    store.close()


def test_it_survives_kill_9(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from gateway.state.store import Store, Stored\n"
        "s = Store(Path(sys.argv[1]), 1e9); s.put([Stored('note', b'k', b'v', 5e9)]); s.flush(); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=30, env=dict(os.environ))
    assert ended.returncode == -9
    assert rows(reopened(tmp_path)) == [("note", b"k", b"v")]
