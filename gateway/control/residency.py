"""The keeper: does what `gateway.state.residency` wants done, one thing at a time on each backend.

It looks every few seconds, and at once when a request has ended, because that is when a server starts to count down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from gateway.backends.control import Control
from gateway.backends.loads import Loads, Tell
from gateway.clock import Clock
from gateway.errors import Unreachable
from gateway.events import BackendProbed, Bus, Pinged, RequestClosed
from gateway.state.fleet import Fleet
from gateway.state.residency import Residency, Todo

log = logging.getLogger("warmgate.residency")

EVERY = 2.0
"""Seconds between two looks when nothing happens."""

LONGEST = 600.0
"""Seconds that a server may take to load a model before that counts as failed."""

OpenControl = Callable[[str], Control]
"""A control path to a backend with the patience that loading takes; raises KeyError for one that a reload has removed."""


class Keeper:
    def __init__(self, residency: Residency, fleet: Fleet, bus: Bus, clock: Clock, control: OpenControl) -> None:
        self._residency, self._fleet, self._bus, self._clock, self._control = residency, fleet, bus, clock, control
        self._poked = asyncio.Event()
        bus.subscribe(self._on_event, RequestClosed, BackendProbed)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.step()
            try:
                async with asyncio.timeout(EVERY):
                    await self._poked.wait()
            except TimeoutError:
                pass
            self._poked.clear()

    async def step(self) -> list[Todo]:
        """One look: do what is wanted now. Returns what was done, or tried."""
        busy = {name: state.in_flight for name, state in self._fleet.states.items()}
        todo = self._residency.wanted(self._fleet.view, busy)
        await self.do(todo)
        return todo

    async def do(self, todo: list[Todo]) -> list[str]:
        """Do these, backends side by side. Returns what went wrong, in sentences."""
        by_backend: Mapping[str, list[Todo]] = {
            name: [one for one in todo if one.backend == name] for name in dict.fromkeys(one.backend for one in todo)
        }
        found = await asyncio.gather(*(self._one_by_one(name, some) for name, some in by_backend.items()))
        return [problem for problems in found for problem in problems]

    async def _one_by_one(self, backend: str, todo: list[Todo]) -> list[str]:
        state = self._fleet.states.get(backend)
        if state is None or state.kind.loads is None:
            return []
        problems, control = [], self._control(backend)
        try:
            for one in todo:
                tell = _recipe(state.kind.loads, one)
                if tell is not None and (problem := await self._tell(control, tell, one)) is not None:
                    problems.append(f"{backend}: {one.wish.model}: {problem}")
        finally:
            await control.close()
        return problems

    async def _tell(self, control: Control, tell: Tell, todo: Todo) -> str | None:
        began = self._clock.now()
        try:
            async with asyncio.timeout(LONGEST):
                problem = await tell(control, todo.wish)
        except Unreachable as error:
            problem = str(error)
        except TimeoutError:
            problem = f"it did not {todo.act} within {LONGEST:g} s"
        self._residency.did(todo, problem)
        if problem is None and todo.act != "renew":
            self._fleet.want_look(todo.backend)  # what was done is verified, not believed
        seconds = self._clock.now() - began
        self._bus.publish(Pinged(todo.backend, todo.label, todo.act, "failed" if problem else "ok", seconds))
        level = logging.WARNING if problem else logging.INFO if todo.act != "renew" else logging.DEBUG
        log.log(level, "%s %s on %s: %s", todo.act, todo.wish.model, todo.backend, problem or f"done in {seconds:.1f} s")
        return problem

    def _on_event(self, _: RequestClosed | BackendProbed) -> None:
        self._poked.set()


def _recipe(loads: Loads, todo: Todo) -> Tell | None:
    return {"load": loads.load, "renew": loads.renew, "unload": loads.unload}[todo.act]
