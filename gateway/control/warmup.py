"""The warmer: has servers read the prefixes that will be asked for, while nobody asks for anything.

It looks at what is believed to be warm, not at what happened: a prefix is read when its model is loaded and its server idle, it
is not there, and what would have to give way is worth less. So a start, a load, a restart and an eviction are one thing, told
apart only to respect what a pin wants to be read for. One warm-up runs at a time on each backend, and it is given up as soon as
somebody else wants that backend.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from gateway.clock import Clock
from gateway.errors import Answerable
from gateway.events import BackendProbed, Bus, ModelLoaded, PrefixWarm, RequestClosed, WarmupRan
from gateway.hours import Cron
from gateway.state.fleet import Fleet
from gateway.state.pins import Pin
from gateway.state.residency import Residency

log = logging.getLogger("warmgate.warmup")

EVERY = 5.0
"""Seconds between two looks when nothing happens."""

QUIET = 1.0
"""Seconds for which a backend must have had nothing to do: an agent's next turn comes sooner than that."""

LOOK = 0.05
"""Seconds between looks at whether somebody wants the backend on which a warm-up runs."""

FIRST_LOOK = 5.0
"""Seconds that somebody who asks for a pin waits for a backend that has its model: the gateway may just have been started."""

RETRY = (60.0, 3600.0)
"""First and longest pause after a warm-up that failed, or that did not make its prefix warm."""

REST = 60.0
"""Seconds after a warm-up for which the same one is not made again, unless the server was restarted or the model loaded anew:
prefixes for which there is no room together would push each other out for ever."""

MARGIN = 1.5
"""How much more a prefix must be worth than what gives way to it."""

SAVE_AGAIN = 5.0
"""First pause after a prefix was warm and could not be saved: what becomes of the server's slots may not be known yet."""

Cause = Literal["startup", "model_loaded", "backend_restarted", "evicted", "demand"]
Outcome = Literal["prefilled", "restored", "already_warm", "interrupted", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a pin on a backend. cause: why it is not warm; worth: seconds that reading it now is expected to save;
    loses: seconds that what would have to give way is worth; unsaved: it could be in a file, for the next restart, and is
    not."""

    warm: bool
    cause: Cause
    worth: float = 0.0
    loses: float = 0.0
    unsaved: bool = False

    @property
    def ready(self) -> bool:
        return self.warm and not self.unsaved


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a warm-up. tokens: that were computed."""

    outcome: Outcome
    tokens: int = 0
    problem: str = ""


class Reader(Protocol):
    """What does the reading: `gateway.server.warm`."""

    def homes(self, pin: Pin) -> Sequence[str]:
        """Backends that have the pin's model loaded, the one that its requests prefer first."""

    def known(self, pin: Pin, backend: str) -> Known: ...

    def wanted(self, backend: str) -> bool:
        """Whether a user's request waits for this backend, or runs there."""

    async def read(self, pin: Pin, backend: str) -> Done:
        """Have the backend read it. Cancelled when somebody else wants the backend. Raises Answerable."""


class Pinning(Protocol):
    def all(self) -> list[Pin]: ...

    def find(self, name: str) -> Pin | None: ...


@dataclass(slots=True)
class _Try:
    failures: int = 0
    again_at: float = 0.0


@dataclass(slots=True)
class Last:
    """For people: what came of the last warm-up of a pin on a backend. at: wall clock."""

    outcome: Outcome
    at: float
    seconds: float
    tokens: int
    problem: str | None


@dataclass(slots=True)
class Moments:
    """The cron moments of a pin. after: up to when they have been seen, wall clock."""

    cron: Cron
    after: float


@dataclass
class _Job:
    pin: Pin
    backend: str
    cause: Cause
    task: asyncio.Task[Done] | None = field(default=None)


class Warmer:
    """One writer: its own task, and `demand` on the event loop."""

    def __init__(self, pins: Pinning, reader: Reader, fleet: Fleet, residency: Residency, bus: Bus, clock: Clock) -> None:
        self._pins, self._reader, self._fleet, self._residency = pins, reader, fleet, residency
        self._bus, self._clock = bus, clock
        self._moments: dict[str, Moments] = {}
        self._asked: dict[tuple[bytes, str], list[asyncio.Future[Done]]] = {}
        self._tries: dict[tuple[bytes, str], _Try] = {}
        self._last: dict[tuple[bytes, str], Last] = {}
        self._quiet_since: dict[str, float] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._said: dict[tuple[str, str], bool] = {}
        self._poked = asyncio.Event()
        bus.subscribe(self._on_event, BackendProbed, ModelLoaded, RequestClosed)

    def configure(self, moments: Iterable[tuple[str, Cron]]) -> None:
        """moments: by name of a pin."""
        now = self._clock.wall()
        self._moments = {name: Moments(cron, now) for name, cron in moments}
        self._poked.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                self.step()
                try:
                    async with asyncio.timeout(QUIET if self._asked or self._resting() else EVERY):
                        await self._poked.wait()
                except TimeoutError:
                    pass
                self._poked.clear()
        finally:
            for task in self._working.values():
                task.cancel()
            await asyncio.gather(*self._working.values(), return_exceptions=True)
            self._working.clear()

    def step(self) -> None:
        """One look: begin what is wanted now."""
        self._ring()
        for pin in self._pins.all():
            for backend in self._reader.homes(pin)[:1]:
                job = self._job(pin, backend)
                if job is not None and backend not in self._working:
                    self._working[backend] = asyncio.create_task(self._do(job), name=f"warm {backend}")

    async def settled(self) -> None:
        """Wait until nothing is being read; for tests."""
        while self._working:
            await asyncio.gather(*self._working.values(), return_exceptions=True)

    async def demand(self, pin: Pin) -> Done:
        """Somebody asks for it: now, or as soon as its backend is idle. The caller bounds the wait."""
        end = self._clock.now() + FIRST_LOOK
        while not (homes := self._reader.homes(pin)):
            if self._clock.now() >= end:
                return Done("skipped", problem="no backend that is up has its model loaded")
            await asyncio.sleep(LOOK)
        told: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        waiting = self._asked.setdefault((pin.key, homes[0]), [])
        waiting.append(told)
        self._poked.set()
        try:
            return await told
        finally:
            if told in waiting:
                waiting.remove(told)
                if not waiting and self._asked.get((pin.key, homes[0])) is waiting:
                    del self._asked[pin.key, homes[0]]

    # what is wanted

    def _job(self, pin: Pin, backend: str) -> _Job | None:
        key, state, now = (pin.key, backend), self._fleet.states.get(backend), self._clock.now()
        if state is None or not self._is_quiet(backend, now):
            return None
        known = self._reader.known(pin, backend)
        self._tell(pin, backend, known.warm)
        if key in self._asked:
            return _Job(pin, backend, "demand")
        tried = self._tries.get(key)
        if known.ready or (tried is not None and now < tried.again_at) or not self._is_kept(pin):
            return None
        if not known.warm and (known.cause not in pin.when or MARGIN * known.loses >= known.worth):
            return None
        return _Job(pin, backend, known.cause)

    def _is_kept(self, pin: Pin) -> bool:
        """Nothing is kept warm outside its model's hours, or after it was released or unloaded by somebody."""
        return self._residency.allows(pin.label)

    def _is_quiet(self, backend: str, now: float) -> bool:
        if self._reader.wanted(backend):
            self._quiet_since.pop(backend, None)
            return False
        return now - self._quiet_since.setdefault(backend, now) >= QUIET

    def _resting(self) -> bool:
        """Whether a backend has become quiet, but not for long enough."""
        now = self._clock.now()
        return any(now - since < QUIET for since in self._quiet_since.values())

    def _ring(self) -> None:
        """Moments that have come: a pin is asked for, by nobody who waits."""
        wall = self._clock.wall()
        for name, moments in self._moments.items():
            due = moments.cron.next(moments.after)
            if due is None or due > wall:
                continue
            moments.after = wall
            pin = self._pins.find(name)
            if pin is None:
                continue
            for backend in self._reader.homes(pin)[:1]:
                self._asked.setdefault((pin.key, backend), []).append(asyncio.get_running_loop().create_future())

    # doing it

    async def _do(self, job: _Job) -> None:
        key, began = (job.pin.key, job.backend), self._clock.now()
        try:
            done = await self._watched(job)
        except Answerable as error:
            done = Done("failed", problem=str(error))
        except Exception:
            log.exception("warm-up of %s on %s failed", job.pin.name, job.backend)
            done = Done("failed", problem="the gateway failed on it; its log says why")
        finally:
            self._working.pop(job.backend, None)
            self._poked.set()
        self._note(job, done, self._clock.now() - began)
        if done.outcome != "interrupted":
            for told in self._asked.pop(key, []):
                if not told.done():
                    told.set_result(done)

    async def _watched(self, job: _Job) -> Done:
        """Read, until it is done or somebody wants the backend."""
        task = asyncio.create_task(self._reader.read(job.pin, job.backend))
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=LOOK)
                if done:
                    return task.result()
                if self._reader.wanted(job.backend):
                    return Done("interrupted")
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _note(self, job: _Job, done: Done, seconds: float) -> None:
        pin, backend = job.pin, job.backend
        key, known = (pin.key, backend), self._reader.known(pin, backend)
        self._last[key] = Last(done.outcome, self._clock.wall(), seconds, done.tokens, done.problem or None)
        while len(self._last) > 256:
            del self._last[next(iter(self._last))]
        if done.outcome == "interrupted":
            self._tries.pop(key, None)
        elif done.outcome != "failed" and known.ready:
            self._tries[key] = _Try(again_at=self._clock.now() + REST)
        else:  # what did not help although nothing failed is at the server's limit
            tried = self._tries.setdefault(key, _Try())
            pause = RETRY[0] if done.outcome == "failed" else SAVE_AGAIN if known.warm else RETRY[1]
            tried.again_at = self._clock.now() + min(pause * 2.0 ** min(tried.failures, 10), RETRY[1])
            tried.failures += 1
        self._tell(pin, backend, known.warm)
        self._bus.publish(WarmupRan(self.label(pin), backend, pin.label, done.outcome, seconds, done.tokens))
        words = done.problem or f"{done.outcome.replace('_', ' ')}, {done.tokens} tokens in {seconds:.1f} s"
        level = logging.WARNING if done.outcome == "failed" else logging.INFO
        log.log(level, "warm-up of %s (%s) on %s: %s", pin.name, job.cause, backend, words)

    def _tell(self, pin: Pin, backend: str, warm: bool) -> None:
        if self._said.get((pin.name, backend)) is not warm:
            self._said[pin.name, backend] = warm
            while len(self._said) > 256:
                del self._said[next(iter(self._said))]
            self._bus.publish(PrefixWarm(self.label(pin), backend, warm))

    @staticmethod
    def label(pin: Pin) -> str:
        """Its name in metrics: learned ones come and go, so they share one."""
        return pin.name if pin.source == "config" else "learned"

    def _on_event(self, event: Any) -> None:
        if isinstance(event, RequestClosed):  # the next turn may come at once: nothing is looked at for its sake
            self._quiet_since.pop(event.record.backend or "", None)
            return
        if isinstance(event, ModelLoaded):
            for key in [key for key in self._tries if key[1] == event.backend]:
                del self._tries[key]
        self._poked.set()

    # for people

    def rows(self) -> list[dict[str, Any]]:
        """For `/status`: each pin, where it belongs, whether it is warm, and what came of its last warm-up."""
        found = []
        for pin in self._pins.all():
            homes = self._reader.homes(pin)
            backend = homes[0] if homes else None
            last = self._last.get((pin.key, backend)) if backend else None
            found.append(
                {
                    "name": pin.name,
                    "source": pin.source,
                    "model": pin.label,
                    "path": pin.path,
                    "tokens": pin.tokens or None,
                    "backend": backend,
                    "warm": self._reader.known(pin, backend).warm if backend else None,
                    "used": pin.used or None,
                    "running": backend in self._working if backend else False,
                    "last": asdict(last) if last else None,
                }
            )
        return found
