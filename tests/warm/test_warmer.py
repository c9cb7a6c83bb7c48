"""The warmer by itself: what it begins, what it leaves alone, and what it does not do for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Backend, Model
from gateway.control.warmup import QUIET, REST, Done, Known, Warmer
from gateway.events import Bus, ModelLoaded, WarmupRan
from gateway.state.fleet import Fleet
from gateway.state.pins import Pin
from gateway.state.residency import Residency
from tests.support.clock import ManualClock

PATH = "/v1/chat/completions"


def pin(name: str, when: tuple[str, ...] = ("startup", "model_loaded", "backend_restarted", "evicted")) -> Pin:
    return Pin(name.encode(), name, "config", "tiny", "tiny", PATH, b"{}", tokens=2000, when=when)


class Server:
    """A reader of its own: so many places, each prefix worth a number of seconds; what is read last pushes out what is worth
    least."""

    def __init__(self, places: int = 1, **worth: float) -> None:
        self.places, self.worth = places, worth
        self.held: list[str] = []
        self.read_names: list[str] = []
        self.is_wanted = self.is_loaded = True
        self.cause: Any = "startup"
        self.problem = ""
        self.slow = asyncio.Event()
        self.slow.set()
        self.is_wanted = False

    def homes(self, pin: Pin) -> Sequence[str]:
        return ["box"] if self.is_loaded else []

    def known(self, pin: Pin, backend: str) -> Known:
        loses = min(self.worth[name] for name in self.held) if len(self.held) >= self.places else 0.0
        return Known(pin.name in self.held, self.cause, self.worth[pin.name], loses)

    def wanted(self, backend: str) -> bool:
        return self.is_wanted

    async def read(self, pin: Pin, backend: str) -> Done:
        await self.slow.wait()
        self.read_names.append(pin.name)
        if self.problem:
            return Done("failed", problem=self.problem)
        if pin.name not in self.held:
            if len(self.held) >= self.places:
                self.held.remove(min(self.held, key=self.worth.__getitem__))
            self.held.append(pin.name)
        return Done("prefilled", 2000)


class Pins:
    def __init__(self, *pins: Pin) -> None:
        self.pins = list(pins)

    def all(self) -> list[Pin]:
        return self.pins

    def find(self, name: str) -> Pin | None:
        return next((one for one in self.pins if one.name == name), None)


class Desk:
    def __init__(self, server: Server, *pins: Pin, models: dict[str, Any] | None = None) -> None:
        self.clock, self.bus, self.server = ManualClock(), Bus(), server
        fleet = Fleet(self.bus, self.clock)
        fleet.apply({"box": Backend(url="http://127.0.0.1:1")})
        self.residency = Residency(self.bus, self.clock)
        self.residency.configure({name: Model.model_validate(model) for name, model in (models or {}).items()})
        self.warmer = Warmer(Pins(*pins), server, fleet, self.residency, self.bus, self.clock)
        self.ran: list[WarmupRan] = []
        self.bus.subscribe(self.ran.append, WarmupRan)

    async def step(self, seconds: float = 0.0) -> list[str]:
        """Let time pass, and look. Returns what was read."""
        before = len(self.server.read_names)
        self.warmer.step()  # it sees that the backend is quiet
        self.clock.advance(seconds or QUIET)
        self.warmer.step()
        await self.warmer.settled()
        return self.server.read_names[before:]


async def test_what_is_not_warm_is_read_and_once_only() -> None:
    desk = Desk(Server(places=2, a=5, b=3), pin("a"), pin("b"))
    assert [await desk.step(), await desk.step(), await desk.step(600)] == [["a"], ["b"], []]


async def test_nothing_is_read_while_somebody_wants_the_server_or_just_did() -> None:
    server = Server(a=5)
    desk = Desk(server, pin("a"))
    server.is_wanted = True
    assert await desk.step(60) == []
    server.is_wanted = False
    desk.warmer.step()
    desk.clock.advance(QUIET / 2)
    desk.warmer.step()
    await desk.warmer.settled()
    assert server.read_names == []
    assert await desk.step() == ["a"]


async def test_it_is_given_up_when_somebody_comes_and_resumed_later() -> None:
    server = Server(a=5)
    desk = Desk(server, pin("a"))
    server.slow.clear()
    desk.warmer.step()
    desk.clock.advance(QUIET)
    desk.warmer.step()
    await asyncio.sleep(0)
    server.is_wanted = True
    await desk.warmer.settled()
    assert [one.outcome for one in desk.ran] == ["interrupted"]
    server.is_wanted = False
    server.slow.set()
    assert await desk.step() == ["a"]


@pytest.mark.parametrize(("cause", "when", "reads"), [("startup", ("evicted",), []), ("evicted", ("evicted",), ["a"])])
async def test_a_pin_says_what_it_is_read_for(cause: str, when: tuple[str, ...], reads: list[str]) -> None:
    server = Server(a=5)
    server.cause = cause
    assert await Desk(server, pin("a", when)).step() == reads


async def test_one_that_is_only_read_on_demand() -> None:
    server = Server(a=5)
    desk = Desk(server, pin("a", ("demand",)))
    assert await desk.step() == []
    asked = asyncio.create_task(desk.warmer.demand(desk.warmer._pins.all()[0]))
    await asyncio.sleep(0)
    assert await desk.step() == ["a"]
    assert (await asked).outcome == "prefilled"


async def test_nothing_is_read_outside_the_hours_or_after_a_release() -> None:
    closed = {"tiny": {"keep": {"resident": True, "hours": "* 0 1 1 *", "zone": "UTC"}}}
    assert await Desk(Server(a=5), pin("a"), models=closed).step() == []
    desk = Desk(Server(a=5), pin("a"), models={"tiny": {"keep": {"resident": True}}})
    desk.residency.release("tiny", 3600)
    assert await desk.step() == []
    assert await desk.step(3700) == ["a"]


async def test_prefixes_without_room_together_do_not_push_each_other_out_for_ever() -> None:
    desk = Desk(Server(a=5, b=5), pin("a"), pin("b"))
    for _ in range(200):
        await desk.step(10)
    assert desk.server.read_names == ["a"]
    worth_more = Desk(Server(a=5, b=50), pin("a"), pin("b"))
    for _ in range(200):
        await worth_more.step(10)
    assert worth_more.server.read_names == ["a", "b"]


async def test_what_fails_is_tried_less_and_less_often_and_again_after_a_load() -> None:
    server = Server(a=5)
    server.problem = "the context is too small"
    desk = Desk(server, pin("a"))
    for _ in range(360):
        await desk.step(10)
    assert 3 <= len(server.read_names) <= 7
    server.problem = ""
    desk.bus.publish(ModelLoaded("box", "tiny", "user"))
    assert (await desk.step())[:1] == ["a"]


async def test_what_was_lost_at_once_is_not_read_again_at_once() -> None:
    server = Server(a=5)
    desk = Desk(server, pin("a"))
    await desk.step()
    server.held.clear()
    assert await desk.step(REST / 2) == []
    assert await desk.step(REST) == ["a"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**20), places=st.integers(1, 3))
def test_a_warm_up_never_pushes_out_what_is_worth_more(seed: int, places: int) -> None:
    """Random traffic fills the places; each warm-up may only take a free one, or one that was worth less."""

    async def play() -> None:
        chance = random.Random(seed)
        worth = {name: chance.uniform(0.1, 60) for name in "abcdefgh"}
        server = Server(places, **worth)
        desk = Desk(server, *(pin(name) for name in "abcd"))
        for _ in range(60):
            if chance.random() < 0.5:
                name = chance.choice("abcdefgh")
                if name not in server.held:
                    if len(server.held) >= places:
                        server.held.remove(chance.choice(server.held))
                    server.held.append(name)
            before = list(server.held)
            for read in await desk.step(chance.choice([1, 20, 100])):
                gone = [name for name in before if name not in server.held]
                assert all(worth[name] < worth[read] for name in gone)
                before = list(server.held)

    asyncio.run(play())


def test_labels_of_learned_pins_are_one() -> None:
    assert Warmer.label(pin("house")) == "house"
    assert Warmer.label(replace(pin("3fa2"), source="learned")) == "learned"
