from __future__ import annotations

from pathlib import Path

from gateway.canonical.ledger import Row
from gateway.state.memory import DAY, EXPIRY, Memory


class Clock:
    def __init__(self) -> None:
        self.time = 1e9

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time


def test_a_row_that_is_read_stays_and_one_that_is_not_goes(tmp_path: Path) -> None:
    clock = Clock()
    memory = Memory(tmp_path, clock)
    memory.remember([Row("order", b"read", [1]), Row("order", b"unread", [2])])
    for _ in range(4):
        clock.time += EXPIRY / 3
        assert memory.ledger.get("order", b"read") == [1]
        memory.keep_used()
    memory.remember([Row("order", b"new", [3])])
    assert memory.ledger.get("order", b"unread") is None
    memory.close()
    again = Memory(tmp_path, clock)
    assert again.ledger.get("order", b"read") == [1]
    assert again.ledger.get("order", b"unread") is None
    again.close()


def test_a_row_is_noted_as_used_once_a_day(tmp_path: Path) -> None:
    clock = Clock()
    memory = Memory(tmp_path, clock)
    memory.remember([Row("order", b"k", [1])])
    memory.ledger.get("order", b"k")
    assert memory.ledger.stale(clock.time - DAY) == []
    clock.time += 2 * DAY
    memory.ledger.get("order", b"k")
    assert memory.ledger.stale(clock.time - DAY) == [("order", b"k")]
    assert memory.ledger.stale(clock.time - DAY) == [], "told once"
    memory.close()
