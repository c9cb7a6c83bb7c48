"""Who goes where, and who waits: one waiting list for all backends.

A request is placed at once; or it waits until something changes at a backend that it could go to, or until its choice said to
look again. What is decided is up to `gateway.routing.place`; who is asked first, too.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gateway.clock import Clock
from gateway.dispatch.plan import Warm
from gateway.errors import Busy
from gateway.events import BoardChanged, Bus
from gateway.routing.board import Ask, Board, Choice, Engine
from gateway.values import Target, Usage

log = logging.getLogger("warmgate.routing")

LOOK_AGAIN = 5.0
"""Seconds after which a request that waits is looked at without a cause: some things end by time alone."""

LEAST_PAUSE = 0.02
"""Seconds between two looks for no other reason than time."""

WAITS_FOR_MODEL = "wait_model"
"""The decision of a request that waits for the answers of a model that its own would push out."""

LEAST_TURN = 5.0
"""Seconds for which a model that is loaded may take new requests while another one is waited for, at the least."""

RETRY_AFTER = (1, 60)
"""Least and most seconds after which a client that was refused is told to come again."""

Tell = Callable[[Choice], None]


class Seating(Protocol):
    """What dispatch needs of `gateway.state.board.Seats`."""

    board: Board

    def engine(self, backend: str, model: str) -> Engine: ...

    def take(self, number: int, ask: Ask, choice: Choice, place: tuple[str, str]) -> None: ...

    def first(self, number: int) -> None: ...

    def leave(self, number: int, usage: Usage | None, *, finished: bool) -> None: ...

    def drop(self, number: int) -> None:
        """The request was placed, and left nothing there: it was never sent, or refused before it was looked at."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A request that waits. hold: for what, by the last look at it; since: when it came; look: when it is looked at again at
    the latest. Times are monotonic seconds."""

    ask: Ask
    number: int
    since: float
    hold: Choice
    warm: Warm | None
    tell: Tell | None
    look: float = 0.0
    turn: asyncio.Future[Choice] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def may_go_to(self, backends: set[str]) -> bool:
        return any(target.backend in backends for target in self.ask.targets)


class Beside(Protocol):
    """What the scheduler needs of `gateway.dispatch.evictions.Evictions`."""

    def mark(self, engine: Engine) -> None: ...

    def taken(self, engine: Engine) -> None: ...


Choose = Callable[[Board, Ask, float], Choice]
Order = Callable[[Board, Sequence[Waiter], float], Sequence[Waiter]]


class Scheduler:
    """One writer of the waiting list, and of the board's `Engine.waiting`: this class, on the event loop."""

    def __init__(self, seats: Seating, evictions: Beside, bus: Bus, clock: Clock, choose: Choose, order: Order):
        self._seats, self._evictions, self._clock = seats, evictions, clock
        self._choose, self._order = choose, order
        self._waiting: dict[int, Waiter] = {}
        self._changed: set[str] = set()  # backends that have not been looked at since they changed
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when the timer rings
        self._failed = False
        bus.subscribe(self._on_event, BoardChanged)

    def waiting(self, backend: str) -> int:
        """Requests that wait for this backend."""
        return sum(waiter.hold.target.backend == backend for waiter in self._waiting.values())

    async def place(self, ask: Ask, number: int, queue: int, warm: Warm | None = None, tell: Tell | None = None) -> Choice:
        """Where the request goes; it has its seat there already. number: its flight's; warm: renews `ask.warm` after a wait;
        tell: hears for what it waits.

        Raises Busy if it had to wait where `queue` others do already. The caller bounds the wait by its deadline.
        """
        if self._changed:
            self._look()  # who waits goes first
        now = self._clock.now()
        choice, ask = self._admit(ask, queue, now)
        if not choice.hold:
            self._take(ask, number, choice)
            return choice
        waiter = self._waiting[number] = Waiter(ask, number, now - ask.held, choice, warm, tell)
        self._count(choice.target, 1)
        self._hold(waiter, choice, now)
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled():
                self._seats.drop(number)
            raise
        finally:
            self._remove(waiter)

    def _admit(self, ask: Ask, queue: int, now: float) -> tuple[Choice, Ask]:
        """The choice for a newcomer. Where too many wait already it waits for nothing better, and if need be goes elsewhere."""
        first: str | None = None
        while True:
            choice = self._decide(ask, now)
            backend = choice.target.backend
            if not choice.hold or self.waiting(backend) < queue:
                return choice, ask
            first = first or backend
            others = tuple(target for target in ask.targets if target.backend != backend)
            if ask.hold > 0:
                ask = replace(ask, hold=0.0)
            elif others:
                ask = replace(ask, targets=others)
            else:
                words = f"{queue} requests already wait for {first}; try again later, or raise routing.queue."
                raise Busy(words, retry_after=self._retry_after(choice.target, now))

    def _retry_after(self, target: Target, now: float) -> int:
        running = self._engine(target).running.values()
        soonest = min((one.free_at for one in running), default=now)
        return min(max(math.ceil(soonest - now), RETRY_AFTER[0]), RETRY_AFTER[1])

    def _on_event(self, event: object) -> None:
        """Subscriber of the bus. Several changes in one turn of the loop are looked at together, when it is over."""
        if not isinstance(event, BoardChanged) or not self._waiting:
            return
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._look)
        self._changed.add(event.backend)

    def _look(self) -> None:
        """Place whom it is possible to place now, of those whom a change or the time concerns. Each sees those who go before
        it as waiting, and nobody else."""
        changed, self._changed = self._changed, set()
        now = self._clock.now()
        for engine in self._seats.board.engines.values():
            engine.waiting = 0
        for waiter in self._sorted(list(self._waiting.values()), now):
            concerned = waiter.look <= now or waiter.may_go_to(changed)
            if waiter.turn.done() or not concerned or not self._placed(waiter, now):
                self._count(waiter.hold.target, 1)
        self._arm(now)

    def _placed(self, waiter: Waiter, now: float) -> bool:
        """Whether it need not wait any longer."""
        if self._all_full(waiter.ask):
            waiter.look = now + LOOK_AGAIN
            return False
        waiter.ask.held = now - waiter.since
        if waiter.warm is not None:
            waiter.ask.warm = waiter.warm()
        choice = self._decide(waiter.ask, now)
        if choice.hold:
            self._hold(waiter, choice, now)
            return False
        self._take(waiter.ask, waiter.number, choice)
        del self._waiting[waiter.number]
        waiter.turn.set_result(choice)
        return True

    def _sorted(self, due: list[Waiter], now: float) -> Sequence[Waiter]:
        if len(due) < 2:
            return due
        try:
            return self._order(self._seats.board, due, now)
        except Exception:
            self._report("the order of those who wait")
            return due

    def _all_full(self, ask: Ask) -> bool:
        """Whether no look at it is needed to see that it waits on."""
        return all((engine := self._engine(target)).full and engine.up for target in ask.targets)

    def _decide(self, ask: Ask, now: float) -> Choice:
        for target in ask.targets:
            self._evictions.mark(self._engine(target))  # which is made on first use
        try:
            return self._yields(self._choose(self._seats.board, ask, now), now - ask.held, now)
        except Exception:
            self._report("the choice of a backend")
            healthy = (one for one in ask.targets if (engine := self._engine(one)).up and not engine.circuit_open)
            return Choice(next(healthy, ask.targets[0]), "order")

    def _yields(self, choice: Choice, since: float, now: float) -> Choice:
        """The choice; a wait, if somebody who came earlier has waited there for long enough until answers of this model end."""
        for waiter in self._waiting.values():
            held = waiter.hold
            in_vain = held.decision == WAITS_FOR_MODEL and now - waiter.since >= max(waiter.ask.hold, LEAST_TURN)
            other_model = held.target.backend == choice.target.backend and held.target != choice.target
            if in_vain and other_model and waiter.since < since and not choice.hold:
                return Choice(
                    choice.target, WAITS_FOR_MODEL, hold=True, reasons=("another model has been waited for too long",)
                )
        return choice

    def _report(self, what: str) -> None:
        """Once: it would be the same for each request."""
        if not self._failed:
            self._failed = True
            log.exception("%s failed; requests go to the first healthy backend where that happens", what)

    def _take(self, ask: Ask, number: int, choice: Choice) -> None:
        try:
            self._evictions.taken(self._engine(choice.target))
            self._seats.take(number, ask, choice, _key(choice.target))
        except Exception:
            self._report("noting who has which place")

    def _engine(self, target: Target) -> Engine:
        return self._seats.engine(*_key(target))

    def _count(self, target: Target, change: int) -> None:
        self._engine(target).waiting += change

    def _remove(self, waiter: Waiter) -> None:
        if self._waiting.pop(waiter.number, None) is not None:
            self._count(waiter.hold.target, -1)
            if not self._waiting and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _hold(self, waiter: Waiter, choice: Choice, now: float) -> None:
        """Let it wait, until it is looked at again even if nothing changes: as its choice says, or when its patience ends."""
        waiter.hold = choice
        if waiter.tell is not None:
            waiter.tell(choice)
        times = [now + LOOK_AGAIN] if choice.until is None else [now + LOOK_AGAIN, choice.until]
        if now < (end := waiter.since + waiter.ask.hold):
            times.append(end)
        waiter.look = max(min(times), now + LEAST_PAUSE)
        if self._timer is None or waiter.look < self._due:
            self._arm(now)

    def _arm(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._due = min(waiter.look for waiter in self._waiting.values())
            self._timer = asyncio.get_running_loop().call_later(max(self._due - now, 0.0), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._look()


def _key(target: Target) -> tuple[str, str]:
    """What the board knows an engine by."""
    return target.backend, target.model or ""
