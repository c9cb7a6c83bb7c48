"""The ring of names: what is written over, how much there is, what survives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backends.slot_files import Proof
from gateway.canonical.ledger import Row
from gateway.state.memory import Memory
from gateway.state.snapshots import DAY, FILE, NAMES, File, Ring
from gateway.state.store import Stored
from tests.support.clock import ManualClock

MIB = 1 << 20
MODEL, OTHER = "model one", "model two"


class Shelf:
    """A ring with what it has put on disk."""

    def __init__(self, disk: int = 100 * MIB, daily: int = 1000 * MIB) -> None:
        self.clock, self.rows = ManualClock(), dict[tuple[str, bytes], Stored]()
        self.ring = Ring("abcd0123", self.clock, self.put)
        self.ring.configure(disk, daily)

    def put(self, rows: object) -> None:
        for row in rows:  # type: ignore[attr-defined]
            self.rows[row.kind, row.key] = row

    def save(self, node: bytes, *, tokens: int = 1000, size: int = MIB, backend: str = "b", model: str = MODEL) -> str | None:
        name = self.ring.reserve(backend, size)
        if name is not None:
            self.ring.fill(File(backend, name, size, model, node.hex(), 5, tokens, 0.1, self.clock.wall()))
        return name

    def use(self, name: str | None, node: bytes, backend: str = "b") -> None:
        assert name is not None
        assert self.ring.hold(backend, name, MODEL, node)
        self.ring.free(backend, name, used=True)

    def nodes(self, backend: str = "b", model: str = MODEL) -> set[bytes]:
        return set(self.ring.snapshots(backend, model))

    def again(self) -> Ring:
        """As a new process reads it."""
        ring = Ring("abcd0123", self.clock, self.put)
        ring.configure(100 * MIB, 1000 * MIB)
        for row in list(self.rows.values()):
            ring.load(row)
        return ring


def test_a_name_has_no_path_and_tells_the_gateway() -> None:
    assert Shelf().save(b"n") == "wg-abcd0123-0.bin"


def test_what_was_saved_is_found_by_its_last_node_and_by_its_model() -> None:
    shelf = Shelf()
    name = shelf.save(b"n", tokens=1234, size=5 * MIB)
    assert shelf.nodes() == {b"n"}
    found = shelf.ring.snapshots("b", MODEL)[b"n"]
    assert (found.name, found.nodes, found.tokens, found.size, found.seconds) == (name, 5, 1234, 5 * MIB, 0.1)
    assert shelf.nodes(model=OTHER) == shelf.nodes("another") == set()


def test_of_two_that_hold_the_same_the_newer_stays() -> None:
    shelf = Shelf()
    names = [shelf.save(b"n"), shelf.save(b"n")]
    assert shelf.ring.snapshots("b", MODEL)[b"n"].name == names[1]
    assert shelf.again().snapshots("b", MODEL)[b"n"].name == names[1]
    assert shelf.save(b"m") == names[0]


def test_what_is_about_to_be_written_counts() -> None:
    shelf = Shelf(disk=10 * MIB, daily=5 * MIB)
    assert shelf.ring.reserve("b", 4 * MIB) is not None
    assert not shelf.ring.has_room("b", 2 * MIB), "of the day"
    shelf.ring.configure(5 * MIB, 100 * MIB)
    assert not shelf.ring.has_room("b", 2 * MIB), "of the disk"
    assert shelf.ring.has_room("b", MIB)


def test_times_for_routing_are_monotonic() -> None:
    shelf = Shelf()
    shelf.save(b"n")
    shelf.clock.advance(7)
    assert shelf.ring.snapshots("b", MODEL)[b"n"].used == shelf.clock.now() - 7


def test_the_ring_is_as_long_as_it_is_and_the_least_worth_goes() -> None:
    shelf = Shelf()
    names = [shelf.save(bytes([n]), tokens=2000) for n in range(NAMES)]
    shelf.use(names[0], bytes([0]))
    assert len(set(names)) == NAMES
    shelf.save(b"small", tokens=1000)
    assert shelf.nodes() == {*(bytes([n]) for n in range(NAMES) if n != 1), b"small"}
    shelf.save(b"new", tokens=2000)
    assert b"small" not in shelf.nodes()
    assert bytes([0]) in shelf.nodes()


def test_what_was_long_unused_is_worth_less_than_it_was() -> None:
    shelf = Shelf(disk=2 * MIB)
    shelf.save(b"big", tokens=3000)
    shelf.clock.advance(DAY)
    shelf.save(b"new", tokens=1000)
    shelf.save(b"newer", tokens=1000)
    assert shelf.nodes() == {b"new", b"newer"}


def test_the_disk_is_never_more_than_full() -> None:
    shelf = Shelf(disk=10 * MIB)
    shelf.save(b"a", size=4 * MIB)
    shelf.save(b"b", size=5 * MIB)
    assert not shelf.ring.has_room("b", 7 * MIB), "neither of both makes enough room"
    assert shelf.save(b"c", size=7 * MIB) is None
    assert shelf.nodes() == {b"a", b"b"}
    assert shelf.save(b"d", size=6 * MIB) is not None
    assert shelf.nodes() == {b"a", b"d"}
    assert shelf.ring.size() == 10 * MIB


def test_files_of_no_use_take_disk_until_they_are_written_again_and_are_so_first() -> None:
    shelf = Shelf(disk=10 * MIB)
    shelf.save(b"a", size=MIB)
    dead = shelf.save(b"b", size=8 * MIB)
    assert shelf.ring.drop("b", MODEL, keep=["wg-abcd0123-0.bin"]) == 1
    assert (shelf.nodes(), shelf.ring.size()) == ({b"a"}, 9 * MIB)
    assert shelf.save(b"c", size=MIB) == dead
    assert shelf.ring.size() == 2 * MIB


def test_a_day_has_its_limit_and_the_next_another() -> None:
    shelf = Shelf(daily=3 * MIB)
    assert [shelf.save(node, size=2 * MIB) is None for node in (b"a", b"b")] == [False, True]
    assert shelf.ring.written_today == 2 * MIB
    shelf.clock.advance(DAY)
    assert shelf.ring.written_today == 0
    assert shelf.save(b"b", size=2 * MIB) is not None


def test_nothing_is_saved_where_there_is_no_disk() -> None:
    assert Shelf(disk=0).save(b"a") is None


def test_what_is_being_read_or_written_is_not_written_over() -> None:
    shelf = Shelf(disk=2 * MIB)
    name = shelf.save(b"a")
    assert name is not None
    assert shelf.ring.hold("b", name, MODEL, b"a")
    assert shelf.ring.hold("b", name, MODEL, b"a"), "several may read at once"
    writing = shelf.ring.reserve("b", MIB)
    assert writing not in (None, name)
    assert shelf.save(b"c") is None
    shelf.ring.free("b", name, used=True)
    assert shelf.save(b"c") is None
    shelf.ring.free("b", name, used=False)
    assert shelf.save(b"c") == name
    assert not shelf.ring.hold("b", name, MODEL, b"a"), "it holds something else"
    assert not shelf.ring.hold("b", name, OTHER, b"c"), "of another model"


def test_a_name_is_empty_on_disk_before_its_file_is_written() -> None:
    shelf = Shelf(disk=MIB)
    shelf.save(b"a")
    assert shelf.ring.reserve("b", MIB) is not None
    assert shelf.again().snapshots("b", MODEL) == {}


def test_a_save_that_failed_leaves_nothing_and_takes_what_it_wrote() -> None:
    shelf = Shelf()
    shelf.save(b"a", size=4 * MIB)
    name = shelf.ring.reserve("b", MIB)
    assert name is not None
    shelf.ring.spoil("b", name, 3 * MIB)
    assert (shelf.nodes(), shelf.ring.size(), shelf.ring.written_today) == ({b"a"}, 7 * MIB, 7 * MIB)
    assert shelf.ring.reserve("b", MIB) == name


def test_everything_survives_a_restart() -> None:
    shelf = Shelf()
    name = shelf.save(b"a", tokens=700)
    shelf.use(name, b"a")
    shelf.ring.prove("b", MODEL, Proof(7, -0.25), "mark")
    again = shelf.again()
    assert again.snapshots("b", MODEL) == shelf.ring.snapshots("b", MODEL)
    assert again.snapshots("b", MODEL)[b"a"].hits == 1
    assert again.written_today == MIB
    proved = again.proved("b", MODEL)
    assert proved is not None
    assert (proved.proof, proved.mark) == (Proof(7, -0.25), "mark")
    assert again.proved("b", OTHER) is None


def test_a_row_that_cannot_be_read_is_dropped() -> None:
    shelf = Shelf()
    for value in (b"{", b"[]", b'{"backend": "b"}', b"7"):
        shelf.ring.load(Stored(FILE, b"k", value, 0.0))
        assert shelf.rows[FILE, b"k"].value is None
    assert shelf.nodes() == set()


def test_forgetting_leaves_the_files_and_nothing_that_says_what_they_hold(tmp_path: Path) -> None:
    clock = ManualClock()
    memory = Memory(tmp_path, clock)
    memory.snapshots.configure(100 * MIB, 100 * MIB)
    name = memory.snapshots.reserve("b", MIB)
    assert name is not None
    memory.snapshots.fill(File("b", name, MIB, "secret/path", b"node".hex(), 5, 900, 0.1, clock.wall()))
    memory.remember([Row("order", b"k", [1])])
    assert memory.forget() == 2
    assert memory.snapshots.snapshots("b", "secret/path") == {}
    memory.close()
    again = Memory(tmp_path, clock)
    assert again.snapshots.size("b") == MIB
    assert again.snapshots.instance == memory.snapshots.instance
    again.close()
    assert b"secret/path" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_gateways_do_not_share_names(tmp_path: Path) -> None:
    names = set()
    for directory in (tmp_path / "one", tmp_path / "two"):
        memory = Memory(directory, ManualClock())
        names.add(memory.snapshots.instance)
        memory.close()
    assert len(names) == 2


STEP = st.tuples(st.sampled_from(["save", "fail", "use", "drop", "wait"]), st.integers(0, 9), st.integers(1, 30))


@settings(max_examples=60)
@given(st.lists(STEP, max_size=40))
def test_whatever_happens_disk_and_names_keep_their_limits(steps: list[tuple[str, int, int]]) -> None:
    shelf, disk = Shelf(disk=40 * MIB, daily=10**12), 40 * MIB
    for step, node, size in steps:
        if step == "save":
            shelf.save(bytes([node]), size=size * MIB)
        elif step == "fail" and (name := shelf.ring.reserve("b", size * MIB)):
            shelf.ring.spoil("b", name, size * MIB)
        elif step == "use" and (found := shelf.ring.snapshots("b", MODEL).get(bytes([node]))):
            shelf.use(found.name, found.node)
        elif step == "drop":
            shelf.ring.drop("b", MODEL)
        elif step == "wait":
            shelf.clock.advance(size * 3600)
        assert shelf.ring.size() <= disk
        assert len({row.key for row in shelf.rows.values() if row.kind == FILE}) <= NAMES
        assert shelf.again().snapshots("b", MODEL).keys() == shelf.nodes()


@pytest.mark.parametrize("size", [1, 10 * MIB])
def test_a_file_may_turn_out_larger_than_expected(size: int) -> None:
    """Then there is no room until it is written again by something smaller."""
    shelf = Shelf(disk=2 * MIB)
    name = shelf.ring.reserve("b", 1)
    assert name is not None
    shelf.ring.fill(File("b", name, size, MODEL, b"n".hex(), 5, 900, 0.1, shelf.clock.wall()))
    assert shelf.ring.has_room("b", MIB)
    assert shelf.save(b"m", size=MIB) is not None
    assert shelf.ring.size() <= 2 * MIB
