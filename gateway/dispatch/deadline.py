"""One timer for a request, moved by a plain store.

Arming and cancelling a loop timer for each streamed event would cost more than relaying it, so the timer fires at the earliest
time it was ever asked for, looks whether the deadline has moved, and goes back to sleep.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Literal

Waiting = Literal["client", "queue", "upstream"]
"""On whom a request waits: a client that sends or reads too slowly, a free place, or a silent backend."""


class Expired(Exception):
    """The deadline passed; `waiting` says on whom."""

    def __init__(self, waiting: Waiting, seconds: float):
        super().__init__(f"waited {seconds:g} s on the {waiting}")
        self.waiting, self.seconds = waiting, seconds


class Deadline:
    """`async with Deadline() as deadline: deadline.move(30, "upstream")` turns into Expired when 30 s pass without a move.

    Must be entered and left in the same task. Cancellation from outside (a client that left) passes through untouched.
    """

    __slots__ = ("_at", "_expired", "_loop", "_rings", "_seconds", "_task", "_timer", "_waiting")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._at, self._rings, self._seconds = float("inf"), float("inf"), 0.0  # _rings: when the timer does
        self._waiting: Waiting = "upstream"
        self._expired = False

    def move(self, seconds: float, waiting: Waiting) -> float:
        """Expire in so many seconds from now, unless moved again. Returns the loop's time."""
        self._seconds, self._waiting = seconds, waiting
        now = self._loop.time()
        self._at = at = now + seconds
        if at < self._rings:
            self._arm(at)
        return now

    def stop(self) -> None:
        """No limit until the next move."""
        self._at = float("inf")

    @property
    def waiting(self) -> Waiting:
        """On whom the request waits."""
        return self._waiting

    def now(self) -> float:
        """The loop's time, in seconds."""
        return self._loop.time()

    async def __aenter__(self) -> Deadline:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._at = float("inf")
        if self._timer:
            self._timer.cancel()
        if self._expired and self._task and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise Expired(self._waiting, self._seconds) from error

    def _arm(self, at: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer, self._rings = self._loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        self._rings = float("inf")
        if self._loop.time() >= self._at:
            self._expired = True
            if self._task:
                self._task.cancel()
        elif self._at != float("inf"):
            self._arm(self._at)
