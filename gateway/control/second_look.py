"""A prompt that a backend should have held, and did not: was it evicted, or is this another process?

Looks at backends are seconds apart, so a restart between two of them is known only when it has cost somebody a prefill. Such a
request is recorded after one more look, which is asked for at once. Its client has had all of its reply by then.

Written by the event loop: `hold` and `on_event`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway.clock import Clock
from gateway.events import BackendProbed
from gateway.state.accounting import Accounting
from gateway.state.fleet import Fleet
from gateway.state.settled import Settled

PATIENCE = 2.0
"""Seconds after which a request is recorded as it was judged first."""

Close = Callable[[Settled, int], None]


@dataclass(slots=True, eq=False)
class _Held:
    """number: the flight's; ended: monotonic seconds, a look that began before says nothing."""

    settled: Settled
    number: int
    backend: str
    ended: float
    timer: asyncio.TimerHandle | None = None


class SecondLook:
    """Subscriber of the bus. close: records what has been judged; number: of the flight."""

    hears = (BackendProbed,)

    def __init__(self, accounting: Accounting, fleet: Fleet, clock: Clock, close: Close) -> None:
        self._accounting, self._fleet, self._clock, self._close = accounting, fleet, clock, close
        self._held: list[_Held] = []

    def hold(self, settled: Settled, number: int) -> None:
        """Record this when its backend has been looked at again, at once if there is no doubt."""
        backend = settled.record.backend
        if settled.doubt is None or backend is None:
            self._close(settled, number)
            return
        held = _Held(settled, number, backend, self._clock.now())
        held.timer = asyncio.get_running_loop().call_later(PATIENCE, self._release, held)
        self._held.append(held)
        self._fleet.want_look(backend)

    def on_event(self, event: BackendProbed) -> None:
        """Heard after `accounting` has."""
        if event.probe.up:
            began = self._clock.now() - event.seconds
            for held in [one for one in self._held if one.backend == event.name and one.ended <= began]:
                self._release(held)

    def flush(self) -> None:
        """The end: nothing waits any longer."""
        for held in list(self._held):
            self._release(held)

    def _release(self, held: _Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
        self._held.remove(held)
        self._close(self._accounting.review(held.settled), held.number)
