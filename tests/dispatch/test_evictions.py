"""Models that push each other out: known from the kind of the server, or from what was seen."""

from __future__ import annotations

import pytest

from gateway.backends import KINDS
from gateway.clock import SystemClock
from gateway.dispatch.evictions import Evictions
from gateway.events import BackendGone, BackendProbed, Bus
from gateway.routing.board import Running
from gateway.values import ModelInfo, Probe
from tests.dispatch.standin import Seats


class Server:
    """A backend of some kind, and the board's picture of its models a, b and c."""

    def __init__(self, kind: str) -> None:
        self.seats = Seats(Bus(), {})
        self.evictions = Evictions(self.seats.board, lambda _: KINDS[kind], SystemClock())
        self.engines = {name: self.seats.engine("s", name) for name in "abc"}

    def look(self, *resident: str, expired: bool = False, seconds: float = 0.0) -> None:
        """A look finds these models loaded; the seats hear of it first."""
        for name, engine in self.engines.items():
            engine.resident = name in resident
        models = tuple(ModelInfo(name, resident=name in resident, expires=1.0 if expired else None) for name in self.engines)
        self.evictions.on_event(BackendProbed("s", Probe("x", up=True, models=models), seconds))

    def works_on(self, name: str) -> None:
        self.engines[name].running[len(self.engines[name].running)] = Running(None, False, True, 0, 0.0, 0.0)

    def exclusive(self, name: str) -> bool:
        self.evictions.mark(self.engines[name])
        return self.engines[name].exclusive

    @property
    def resident(self) -> str:
        return "".join(name for name, engine in self.engines.items() if engine.resident)


def test_a_server_that_evicts_does_so_to_what_is_at_work() -> None:
    server = Server("lmstudio")
    server.look("a")
    assert not server.exclusive("b"), "a is idle"
    server.works_on("a")
    assert server.exclusive("b")
    assert not Server("ollama").exclusive("b")


def test_what_was_seen_together_stays_together() -> None:
    """One of the two was loaded by hand."""
    server = Server("lmstudio")
    server.look("a", "b")
    server.look("a")
    server.works_on("a")
    assert not server.exclusive("b")
    assert server.exclusive("c")


def test_a_load_that_cost_another_its_place_is_remembered_until_both_are_seen() -> None:
    server = Server("ollama")
    server.look("a", "c")
    server.look("b", "c")
    server.works_on("a")
    assert server.exclusive("b")
    assert not server.exclusive("c")
    server.look("a", "b", "c")
    assert not server.exclusive("b")


def test_what_had_expired_was_not_pushed_out() -> None:
    server = Server("ollama")
    server.look("a", expired=True)
    server.look("b")
    server.works_on("a")
    assert not server.exclusive("b")


def test_what_a_request_loads_is_there_before_anybody_looks() -> None:
    server = Server("lmstudio")
    server.look("a")
    server.evictions.taken(server.engines["b"])
    assert server.resident == "b"
    server.look("a", seconds=5.0)
    assert server.resident == "b", "that look began before the load"
    server.look("a")
    assert server.resident == "a", "the load has failed"


def test_a_model_that_is_there_is_not_loaded_again() -> None:
    server = Server("lmstudio")
    server.look("a", "b")
    server.evictions.taken(server.engines["b"])
    assert server.resident == "ab"


@pytest.mark.parametrize("event", [BackendGone("s"), BackendProbed("s", Probe("x", up=False), 0.0)])
def test_what_was_known_of_a_backend_ends_with_its_entry_only(event: object) -> None:
    server = Server("ollama")
    server.look("a")
    server.look("b")
    server.works_on("a")
    server.evictions.on_event(event)
    assert server.exclusive("b") is (not isinstance(event, BackendGone))
