"""Looking at llama.cpp's `/slots` while requests run, so that it is known what slots hold and when they are free.

Source: measured on llama.cpp b11549. A look wakes a server that sleeps and keeps it awake, so an idle one is left alone; looks
that follow each other within a second keep the server from noticing that a client has left. Users' requests never wait for a
look: where it is refused or slow, it is not tried again before the server restarts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.backends.control import Answer, Control
from gateway.clock import Clock
from gateway.config import Backend
from gateway.control.probe import control_of
from gateway.control.supervise import Supervisor
from gateway.dispatch.upstream import Address
from gateway.errors import Unreachable
from gateway.events import BackendProbed, Bus, RequestLeft, RequestStarted
from gateway.routing.board import Mode
from gateway.state import slot_rows
from gateway.state.slot_rows import Rows
from gateway.values import Probe

log = logging.getLogger("warmgate.slots")

EVERY = 2.0  # seconds between two looks, at least
SOON = 0.3  # seconds from a request's start or end to a look: it reaches the server first
PATIENCE = 2.0  # seconds for a look
SLOW = 1.0  # seconds from which on a look is a slow one
BUSY_LOOKS = 4  # at a server that is met and at work
TRIES = 3  # slow or broken looks in a row that are enough

TRIED = (
    "one two three four five six seven eight",
    "red green blue yellow black white brown gold",
    "one two three four five six seven eight",
)
"""Prompts with nothing in common but what a server puts before every prompt, and the first one again."""

FOUND = 6  # tokens of the first that must be found again

REFUSED = {
    401: "/slots needs an API key; set it under headers",
    403: "/slots is refused",
    404: "/slots is not there",
    501: "/slots is switched off",
}


class Seating(Protocol):
    """What is needed of `gateway.state.board.Seats`."""

    def watches(self, backend: str) -> bool: ...

    def saw_slots(self, backend: str, rows: list[dict[str, Any]], asked: float | None = None) -> None: ...

    def unmet(self, backend: str) -> tuple[int, ...]: ...

    def met(self, backend: str, rows: Rows, mode: Mode, cache: bool | None, used: Sequence[int] = ()) -> None: ...

    def try_slot(self, backend: str) -> int | None: ...

    def end_try(self, backend: str, cache: bool | None) -> None: ...

    def cannot_look(self, backend: str, problem: str) -> None: ...


class SlotPoller:
    """One task for each backend that may have slots. Written by `apply` only."""

    def __init__(self, seats: Seating, bus: Bus, clock: Clock, supervisor: Supervisor):
        self._seats, self._clock, self._supervisor = seats, clock, supervisor
        self._watched: dict[str, tuple[Backend, Watch]] = {}
        bus.subscribe(self._on_event, BackendProbed, RequestStarted, RequestLeft)

    async def apply(self, backends: Mapping[str, Backend], addresses: Mapping[str, Address]) -> None:
        """Look at these backends and no others."""
        for name, (config, _) in list(self._watched.items()):
            if backends.get(name) != config:
                await self._supervisor.stop(f"slots {name}")
                del self._watched[name]
        for name, config in backends.items():
            if name not in self._watched and config.kind in ("auto", "llamacpp"):
                watch = Watch(name, config, addresses[name], self._seats, self._clock)
                self._watched[name] = config, watch
                self._supervisor.start(f"slots {name}", watch.run)
                watch.wake()  # it may have been seen already

    async def first_look(self, seconds: float) -> None:
        """Wait until what can be found out about each server was, or so long."""
        end = self._clock.now() + seconds
        while self._clock.now() < end and any(
            self._seats.unmet(name) and not watch.met for name, (_, watch) in self._watched.items()
        ):
            await asyncio.sleep(0.01)

    def _on_event(self, event: object) -> None:
        name = event.name if isinstance(event, BackendProbed) else getattr(event, "backend", "")
        if name not in self._watched:
            return
        watch = self._watched[name][1]
        if isinstance(event, BackendProbed):
            watch.sees(event.probe)
        watch.wake()


class Watch:
    """Looks at the slots of one backend for as long as that makes sense."""

    def __init__(self, name: str, config: Backend, address: Address, seats: Seating, clock: Clock):
        self._name, self._config, self._address = name, config, address
        self._seats, self._clock = seats, clock
        self._woken = asyncio.Event()
        self._looked = float("-inf")
        self._bad = 0
        self.met = False  # it was tried to find out what becomes of the idle slots of this process
        self._process: tuple[bool, str | None] | None = None

    def sees(self, probe: Probe) -> None:
        """A look at the server itself: another process is met anew."""
        if self._process != (probe.up, probe.mark):
            self._process, self.met = (probe.up, probe.mark), False

    def wake(self) -> None:
        """A request has begun or ended."""
        self._woken.set()

    async def run(self) -> None:
        control = control_of(self._config, self._address)
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                await self.meet(control)
                while self._seats.watches(self._name):
                    await asyncio.sleep(max(SOON, self._looked + EVERY - self._clock.now()))
                    if self._seats.watches(self._name):
                        await self.look(control)
                        await self._try(control)
        finally:
            await control.close()

    async def meet(self, control: Control) -> None:
        """Find out what becomes of the idle slots of a server that was just started, before anybody asks it for anything:
        requests that begin alike all go to one slot, so that traffic alone may never show it."""
        own = self._seats.unmet(self._name)
        if not own or self.met:
            return
        try:
            rows = await self._rows(control)
            for _ in range(BUSY_LOOKS):  # another gateway may be meeting it too
                if rows is None or not any(row.busy for row in rows.values()):
                    break
                await asyncio.sleep(SOON / 3)
                rows = await self._rows(control)
            if rows is None or any(row.busy for row in rows.values()):
                return
            holding = sum(row.tokens > 0 for row in rows.values())
            if not holding and (len(own) > 1 or len(rows) == 1):
                await self._run_words(control, own)
            elif holding > 1 or len(rows) == 1:
                self._seats.met(self._name, rows, "kept", None)
        except Unreachable as error:
            log.debug("backend %s: what becomes of its slots could not be found out: %s", self._name, error)
        finally:
            self.met = True

    async def _run_words(self, control: Control, own: tuple[int, ...]) -> None:
        """All slots are empty: a few words in one, then others in another, show whether the first keeps its own; what comes
        again after something else tells of a cache besides the slots. Raises Unreachable."""
        first, last = own[0], own[-1]
        found, rows = None, None
        for slot, prompt in ((first, TRIED[0]), (last, TRIED[1])):
            if not self._seats.unmet(self._name):  # somebody has come
                return
            found = await self._words(control, prompt, slot)
        rows = await self._rows(control)
        if rows is None:
            return
        kept = first == last or (first in rows and rows[first].tokens > 0)
        for prompt in TRIED[: len({first, last})] if kept else ():
            if not self._seats.unmet(self._name):
                return
            found = await self._words(control, prompt, last)
        cache = (found >= FOUND if found is not None else None) if kept else True
        rows = await self._rows(control)
        if rows is not None and self._seats.unmet(self._name):
            self._seats.met(self._name, rows, "kept" if kept else "emptied", cache, (first, last))

    async def _words(self, control: Control, prompt: str, slot: int) -> int | None:
        """Run them in a slot. Returns how many were found there, or in a cache."""
        body = {"prompt": prompt, "n_predict": 1, "id_slot": slot, "cache_prompt": True}
        found = (await control.post("/completion", body, PATIENCE)).field("timings", "cache_n")
        return found if isinstance(found, int) else None

    async def _rows(self, control: Control) -> Rows | None:
        """What `/slots` shows, None where that is no list of slots. Raises Unreachable."""
        self._looked = self._clock.now()
        answer = await control.get("/slots", PATIENCE)
        if not (answer.ok and isinstance(answer.body, list)):
            return None
        return slot_rows.read([row for row in answer.body if isinstance(row, dict)])

    async def _try(self, control: Control) -> None:
        """Run a few words in an empty slot, if that is needed. The next look shows what became of the other slots; what the
        first prompt finds when it comes again, after another one, tells of a cache besides the slots."""
        slot = self._seats.try_slot(self._name)
        if slot is None:
            return
        found: Any = None
        try:
            for prompt in TRIED:
                found = await self._words(control, prompt, slot)
        except Unreachable as error:
            log.debug("backend %s: a slot could not be tried: %s", self._name, error)
            found = None
        finally:
            self._seats.end_try(self._name, found >= FOUND if isinstance(found, int) else None)

    async def look(self, control: Control) -> None:
        """One look. Never raises for what the backend does."""
        asked = self._looked = self._clock.now()
        try:
            answer = await control.get("/slots", PATIENCE)
        except Unreachable as error:
            self._failed(self._clock.now() - asked, str(error))
            return
        seconds = self._clock.now() - asked
        if answer.status in REFUSED:
            self._seats.cannot_look(self._name, REFUSED[answer.status])
        elif not (answer.ok and isinstance(answer.body, list)):
            self._strange(answer)
        else:
            self._count(slow=seconds >= SLOW, words="it is slow to tell what its slots hold")
            self._seats.saw_slots(self._name, [row for row in answer.body if isinstance(row, dict)], asked)

    def _failed(self, seconds: float, words: str) -> None:
        """A refused connection says nothing of `/slots`: the server is down, which the prober sees."""
        log.debug("backend %s: its slots could not be looked at: %s", self._name, words)
        if seconds >= SLOW:
            self._count(slow=True, words="it is slow to tell what its slots hold")

    def _strange(self, answer: Answer) -> None:
        if answer.status != 503:  # it is loading its model
            self._count(slow=True, words=f"/slots answers {answer.status} and no list of slots")

    def _count(self, *, slow: bool, words: str) -> None:
        self._bad = self._bad + 1 if slow else 0
        if self._bad >= TRIES:
            self._bad = 0
            self._seats.cannot_look(self._name, words)
