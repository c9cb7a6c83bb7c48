"""Watching backends: each on its own, with a kind whose probe does what the test says."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.clock import SystemClock
from gateway.config import Backend
from gateway.control import probe as module
from gateway.control import supervise
from gateway.control.probe import Prober
from gateway.control.supervise import Supervisor
from gateway.dispatch.plan import address_of
from gateway.errors import Unreachable
from gateway.events import Bus
from gateway.state.fleet import Fleet
from gateway.values import Probe

UP = Probe("openai", up=True)
DOWN = Unreachable("http://127.0.0.1:9: refused")


class Watching:
    """says: what the next looks find, the last one again and again; looks: how often it was looked at, by base URL."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *says: Any):
        self.says, self.looks = list(says), dict[str, int]()
        monkeypatch.setitem(KINDS, "openai", replace(KINDS["openai"], probe=self._probe))
        self.fleet = Fleet(Bus(), SystemClock())
        self.supervisor = Supervisor()
        self.prober = Prober(self.fleet, SystemClock(), self.supervisor)

    async def _probe(self, control: Control) -> Probe:
        self.looks[control.base_url] = self.looks.get(control.base_url, 0) + 1
        said = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, Probe)
        return said

    async def apply(self, **backends: Backend) -> None:
        self.fleet.apply(backends)
        await self.prober.apply(backends, {name: address_of(backend) for name, backend in backends.items()})

    async def looked(self, number: int, url: str = "http://127.0.0.1:9") -> None:
        async with asyncio.timeout(5):
            while self.looks.get(url, 0) < number:
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVERY_UP", "EVERY_DOWN"):
        monkeypatch.setattr(module, name, 0.01)
    monkeypatch.setattr(supervise, "PAUSE", (0.01, 0.02))


ONE = Backend(url="http://127.0.0.1:9", kind="openai")


async def test_first_look_waits_until_each_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(monkeypatch, UP)
    await watching.apply(one=ONE, two=Backend(url="http://127.0.0.1:10", kind="openai"))
    await watching.prober.first_look(5)
    assert [backend.up for backend in watching.fleet.view.backends] == [True, True]
    await watching.supervisor.aclose()


async def test_first_look_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(monkeypatch, UP)
    watching.fleet.apply({"one": ONE})  # nobody watches it
    async with asyncio.timeout(2):
        await watching.prober.first_look(0.05)


async def test_down_and_up_again_is_told_once_each(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="warmgate.probe")
    watching = Watching(monkeypatch, UP, UP, DOWN, DOWN, DOWN, UP)
    await watching.apply(one=ONE)
    await watching.looked(4)
    assert watching.fleet.states["one"].probe == Probe("openai", up=False, problem=str(DOWN))
    await watching.looked(8)
    assert watching.fleet.view.backends[0].up
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]
    await watching.supervisor.aclose()


async def test_a_busy_server_that_does_not_answer_is_not_down(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(monkeypatch, UP)
    await watching.apply(one=ONE)
    await watching.looked(1)
    state = watching.fleet.states["one"]
    state.in_flight, watching.says = 1, [DOWN]
    await watching.looked(watching.looks["http://127.0.0.1:9"] + 3)
    assert state.probe == UP
    state.in_flight = 0
    await watching.looked(watching.looks["http://127.0.0.1:9"] + 3)
    assert state.probe is not None
    assert not state.probe.up
    await watching.supervisor.aclose()


async def test_a_look_that_fails_in_an_unforeseen_way_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(monkeypatch, RuntimeError("unforeseen"), UP)
    await watching.apply(one=ONE)
    await watching.looked(2)
    assert watching.fleet.view.backends[0].up
    await watching.supervisor.aclose()


async def test_only_what_is_configured_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(monkeypatch, UP)
    await watching.apply(one=ONE)
    await watching.looked(1)
    moved = Backend(url="http://127.0.0.1:11", kind="openai")
    await watching.apply(one=moved, two=ONE)
    await watching.looked(1, "http://127.0.0.1:11")
    await watching.apply(one=moved)
    before = watching.looks["http://127.0.0.1:9"]
    await watching.looked(watching.looks["http://127.0.0.1:11"] + 3, "http://127.0.0.1:11")
    assert watching.looks["http://127.0.0.1:9"] == before
    await watching.supervisor.aclose()
    before = watching.looks["http://127.0.0.1:11"]
    await asyncio.sleep(0.05)
    assert watching.looks["http://127.0.0.1:11"] == before


async def test_a_look_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(control: Control) -> Probe:
        await asyncio.sleep(60)
        raise AssertionError

    watching = Watching(monkeypatch, UP)
    monkeypatch.setitem(KINDS, "openai", replace(KINDS["openai"], probe=hangs))
    monkeypatch.setattr(module, "LONGEST", 0.05)
    await watching.apply(one=ONE)
    await watching.prober.first_look(5)
    probe = watching.fleet.states["one"].probe
    assert probe is not None
    assert (probe.up, probe.problem) == (False, "http://127.0.0.1:9: no answer in time")
    await watching.supervisor.aclose()


async def test_another_server_on_the_port_of_an_auto_backend_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(monkeypatch, UP, DOWN, DOWN)
    answers = [Probe("openai", up=True), Probe("ollama", up=True)]

    async def auto(control: Control) -> Probe:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def gone(control: Control) -> Probe:
        return Probe("openai", up=False, problem="not an OpenAI-shaped server")

    monkeypatch.setitem(KINDS, "auto", replace(KINDS["auto"], probe=auto))
    monkeypatch.setitem(KINDS, "openai", replace(KINDS["openai"], probe=gone))
    await watching.apply(one=Backend(url="http://127.0.0.1:9"))
    async with asyncio.timeout(5):
        while watching.fleet.states["one"].kind.name != "ollama":
            await asyncio.sleep(0.005)
    await watching.supervisor.aclose()


async def test_after_a_pause_an_auto_backend_is_recognised_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server may have started where one has ended; the old kind's questions may be answered by the new one too."""
    watching = Watching(monkeypatch, UP, DOWN, UP)
    answers = [Probe("openai", up=True), Probe("ollama", up=True)]

    async def auto(control: Control) -> Probe:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setitem(KINDS, "auto", replace(KINDS["auto"], probe=auto))
    await watching.apply(one=Backend(url="http://127.0.0.1:9"))
    async with asyncio.timeout(5):
        while watching.fleet.states["one"].kind.name != "ollama":
            await asyncio.sleep(0.005)
    await watching.supervisor.aclose()


async def test_a_problem_of_a_server_that_is_up_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="warmgate.probe")
    watching = Watching(monkeypatch, replace(UP, problem="it is another kind"))
    await watching.apply(one=ONE)
    await watching.looked(3)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "backend one: it is another kind")
    ]
    await watching.supervisor.aclose()
