"""Which heads are learned from traffic, which of them are kept, and what a restart leaves of them."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.warmup import Learn
from gateway.state.pins import HALF_LIFE, KIND, LARGEST, Pins
from gateway.state.store import Stored
from tests.support.clock import ManualClock

PATH = "/v1/chat/completions"


class Desk:
    def __init__(self, **learn: int) -> None:
        self.clock, self.rows = ManualClock(), dict[bytes, Stored]()
        self.pins = self.open(**learn)

    def open(self, **learn: int) -> Pins:
        pins = Pins(self.clock, self.put)
        pins.configure(Learn.model_validate(learn))
        return pins

    def put(self, rows: object) -> None:
        for row in rows:  # type: ignore[attr-defined]
            self.rows[row.key] = row

    def use(self, name: str, times: int = 1, tokens: int = 2000, body: bytes | None = None) -> None:
        made = body if body is not None else orjson.dumps({"system": name})
        for _ in range(times):
            self.pins.used(name.encode(), "tiny", "tiny", PATH, tokens, "m1", lambda: made)

    @property
    def names(self) -> list[str]:
        return [pin.key.decode() for pin in self.pins.all()]


def test_a_head_is_learned_at_its_second_use() -> None:
    desk = Desk()
    desk.use("a")
    assert desk.names == []
    desk.use("a")
    assert desk.names == ["a"]


@pytest.mark.parametrize(("learn", "tokens"), [({"keep": 0}, 5000), ({"min_tokens": 3000}, 2999), ({"min_hits": 5}, 5000)])
def test_what_is_not_learned(learn: dict[str, int], tokens: int) -> None:
    desk = Desk(**learn)
    desk.use("a", times=4, tokens=tokens)
    assert desk.names == []


def test_the_most_valuable_are_kept_and_come_first() -> None:
    desk = Desk(keep=2)
    desk.use("small", times=3, tokens=1000)
    desk.use("large", times=3, tokens=9000)
    desk.use("often", times=30, tokens=1500)
    assert desk.names == ["often", "large"]
    assert desk.rows[b"small"].value is None


def test_what_was_used_long_ago_gives_way() -> None:
    desk = Desk(keep=1)
    desk.use("old", times=8, tokens=2000)
    desk.clock.advance(2 * HALF_LIFE)
    desk.use("new", times=3, tokens=2000)
    assert desk.names == ["new"]


def test_pins_are_known_after_a_restart() -> None:
    desk = Desk()
    desk.use("a", times=3, body='{"system":"Grüße \\ud83d"}'.encode())
    again = desk.open()
    for row in desk.rows.values():
        assert row.kind == KIND
        again.load(row)
    [pin] = again.all()
    [old] = desk.pins.all()
    assert (pin.body, pin.path, pin.tokens, pin.label) == (old.body, PATH, 2000, "tiny")


def test_a_row_that_cannot_be_read_is_dropped() -> None:
    desk = Desk()
    desk.pins.load(Stored(KIND, b"x", b"nonsense", 0.0))
    assert desk.names == []
    assert desk.rows[b"x"].value is None


def test_a_head_that_cannot_be_made_or_is_too_large_is_none() -> None:
    desk = Desk()
    for _ in range(3):
        desk.pins.used(b"none", "tiny", "tiny", PATH, 2000, "m1", lambda: None)
    desk.use("huge", times=3, body=b"x" * (LARGEST + 1))
    assert desk.names == []


def test_learned_pins_are_forgotten() -> None:
    desk = Desk()
    desk.use("a", times=2)
    desk.use("b")
    assert desk.pins.forget() == 1
    desk.use("b")
    assert desk.names == []


@given(st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(1000, 90_000), st.floats(0, 10**6)), max_size=60))
def test_there_are_never_more_than_are_wanted_and_disk_follows(uses: list[tuple[str, int, float]]) -> None:
    desk = Desk(keep=3)
    for name, tokens, pause in uses:
        desk.clock.advance(pause)
        desk.use(name, tokens=tokens)
        assert len(desk.names) <= 3
    assert {key.decode() for key, row in desk.rows.items() if row.value is not None} == set(desk.names)
