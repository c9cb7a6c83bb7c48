"""Whose turn it is to start: one lock for each server that must begin its requests one after another.

A llama.cpp server in its default mode empties idle slots whenever a task starts, so between a restore and the request that is
to find it nothing else may start there. (Measured: four restores first and four requests then reused 0/1315/0/0 tokens, in
turn each restore with its request 1,315 of 1,335 each.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LIMIT = 2.0
"""Seconds that a turn may last once it could have started, and that anybody waits for one."""


class Turn:
    """The right to start. Ends by itself `LIMIT` seconds after `begin`."""

    def __init__(self, lock: asyncio.Lock):
        self._lock = lock
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def begin(self, seconds: float = LIMIT) -> None:
        """What had to be done first is done: the request is on its way."""
        if not self._ended and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        """The next may start. May be called again."""
        if self._ended:
            return
        self._ended = True
        if self._timer:
            self._timer.cancel()
        self._lock.release()


class Turns:
    """One writer of `_locks`: this class, on the event loop."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, backend: str, patience: float | None = None) -> AsyncIterator[Turn | None]:
        """The backend's turn, first come, first served. None if it did not come within `patience` seconds: then the request
        starts without it, at the risk of another's prefix and not of its own time."""
        lock = self._locks.setdefault(backend, asyncio.Lock())
        try:
            async with asyncio.timeout(patience):
                await lock.acquire()
        except TimeoutError:
            yield None
            return
        turn = Turn(lock)
        try:
            yield turn
        finally:
            turn.end()

    def forget(self, backend: str) -> None:
        """The backend is gone. Who holds or awaits its turn keeps the lock that there was."""
        self._locks.pop(backend, None)
