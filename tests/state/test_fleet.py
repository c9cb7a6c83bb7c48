from __future__ import annotations

from typing import Any

from gateway.config import Backend
from gateway.events import BackendGone, BackendProbed, Bus, CircuitChanged
from gateway.state.breaker import FIRST_PAUSE
from gateway.state.fleet import Fleet
from gateway.values import ModelInfo, Probe
from tests.support.clock import ManualClock

ONE, TWO = Backend(url="http://127.0.0.1:1"), Backend(url="http://127.0.0.1:2", kind="ollama")
LLAMA = Probe("llamacpp", up=True, models=(ModelInfo("tiny"),), single_model=True, slots=2)


class Watched:
    def __init__(self, **backends: Backend):
        bus, self.clock, self.events = Bus(), ManualClock(), list[Any]()
        bus.subscribe(self.events.append)
        self.fleet = Fleet(bus, self.clock)
        self.fleet.apply(backends)

    def saw(self, probe: Probe, name: str = "one", config: Backend = ONE) -> None:
        self.fleet.saw(name, config, probe, 0.1)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def test_what_is_seen_becomes_the_view() -> None:
    watched = Watched(one=ONE, two=TWO)
    before = watched.fleet.view
    assert [(b.name, b.kind, b.up, b.known) for b in before.backends] == [
        ("one", "auto", False, False), ("two", "ollama", False, False),
    ]  # fmt: skip
    watched.saw(LLAMA)
    one = watched.fleet.view.get("one")
    assert one is not None
    assert (one.kind, one.up, one.known, one.single_model, list(one.models)) == ("llamacpp", True, True, True, ["tiny"])
    assert before.backends[0].up is False, "a view that somebody holds does not change"
    assert watched.of(BackendProbed) == [BackendProbed("one", LLAMA, 0.1)]
    assert watched.fleet.states["one"].probed == watched.clock.wall()


def test_a_server_that_is_down_keeps_its_kind_and_its_models() -> None:
    watched = Watched(one=ONE)
    watched.saw(LLAMA)
    watched.saw(Probe("auto", up=False, problem="refused"))
    one, state = watched.fleet.view.backends[0], watched.fleet.states["one"]
    assert (one.kind, one.up, one.known, list(one.models)) == ("llamacpp", False, True, ["tiny"])
    assert (state.kind.name, state.good) == ("llamacpp", LLAMA)
    watched.saw(Probe("ollama", up=True))  # another server took its port
    assert watched.fleet.view.backends[0].kind == "ollama"


def test_loading_is_neither_up_nor_forgotten() -> None:
    watched = Watched(one=ONE)
    watched.saw(Probe("llamacpp", up=False, loading=True))
    one = watched.fleet.view.backends[0]
    assert (one.kind, one.up, one.known) == ("llamacpp", False, False)


def test_a_result_for_an_entry_that_was_replaced_or_removed_is_dropped() -> None:
    watched = Watched(one=ONE)
    watched.saw(LLAMA, config=TWO)
    watched.saw(LLAMA, name="other")
    assert not watched.fleet.view.backends[0].up
    assert not watched.of(BackendProbed)


def test_a_reload_keeps_what_is_known_about_entries_that_stay() -> None:
    watched = Watched(one=ONE, two=TWO)
    watched.saw(LLAMA)
    kept = watched.fleet.states["one"]
    kept.in_flight = 3
    watched.fleet.apply({"three": TWO, "one": Backend(url="http://127.0.0.1:1")})
    assert watched.fleet.states["one"] is kept
    assert [b.name for b in watched.fleet.view.backends] == ["three", "one"], "the order of the configuration"
    assert watched.of(BackendGone) == [BackendGone("two")]
    watched.fleet.apply({"one": Backend(url="http://127.0.0.1:1", parallel=2)})
    assert watched.fleet.states["one"] is not kept
    assert (watched.fleet.load("one"), watched.fleet.load("nothing")) == (0, 0)


def test_the_circuit_opens_is_told_once_and_closes_after_its_pause() -> None:
    watched = Watched(one=ONE)
    for _ in range(5):
        watched.fleet.failed("one")
    watched.fleet.failed("nothing")
    assert watched.fleet.view.backends[0].circuit_open
    assert watched.of(CircuitChanged) == [CircuitChanged("one", open=True)]
    watched.clock.advance(FIRST_PAUSE - 0.1)
    watched.fleet.refresh()
    assert watched.fleet.view.backends[0].circuit_open
    watched.clock.advance(0.2)
    watched.fleet.refresh()
    watched.fleet.refresh()
    assert not watched.fleet.view.backends[0].circuit_open
    assert watched.of(CircuitChanged)[1:] == [CircuitChanged("one", open=False)]
    watched.fleet.failed("one")
    assert watched.fleet.view.backends[0].circuit_open, "a failed trial opens it again at once"


def test_an_answer_or_a_good_probe_closes_the_circuit() -> None:
    for close in (lambda w: w.fleet.succeeded("one"), lambda w: w.saw(LLAMA)):
        watched = Watched(one=ONE)
        for _ in range(3):
            watched.fleet.failed("one")
        close(watched)
        assert not watched.fleet.view.backends[0].circuit_open
        assert [event.open for event in watched.of(CircuitChanged)] == [True, False]
