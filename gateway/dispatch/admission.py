"""Admission: how many requests a backend works on at once for one model, and who waits.

A gate is per (backend, model) and first come, first served; the bound on those who wait is per backend. Counting tokens,
embeddings and other small things never pass a gate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gateway.errors import Busy


@dataclass(slots=True)
class Gate:
    """capacity: requests at once, None = no limit. Written by Admission only."""

    capacity: int | None
    active: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    def has_room(self) -> bool:
        return self.capacity is None or self.active < self.capacity


class Admission:
    """The gates. One writer: this class, on the event loop. A gate that nobody uses is dropped."""

    def __init__(self) -> None:
        self._gates: dict[tuple[str, str], Gate] = {}

    def waiting(self, backend: str) -> int:
        return sum(len(gate.waiting) for (name, _), gate in self._gates.items() if name == backend)

    def resize(self, backend: str, capacity: int | None) -> None:
        """A probe or a reload has found another capacity: who waits may find a place now."""
        for (name, _), gate in self._gates.items():
            if name == backend:
                gate.capacity = capacity
                self._wake(gate)

    async def enter(self, backend: str, model: str, capacity: int | None, queue: int) -> Callable[[], None]:
        """Take a place, or wait for one if there is none. Returns what gives it back, to be called once.

        queue: how many may wait for this backend; one more raises Busy. The caller bounds the wait by its deadline.
        """
        key = (backend, model)
        gate = self._gates.setdefault(key, Gate(capacity))
        gate.capacity = capacity
        try:
            await self._take(gate, backend, queue)
        except BaseException:
            self._drop_unused(key, gate)
            raise
        return partial(self._leave, key, gate)

    def _leave(self, key: tuple[str, str], gate: Gate) -> None:
        gate.active -= 1
        self._wake(gate)
        self._drop_unused(key, gate)

    def _drop_unused(self, key: tuple[str, str], gate: Gate) -> None:
        if not gate.active and not gate.waiting and self._gates.get(key) is gate:
            del self._gates[key]

    async def _take(self, gate: Gate, backend: str, queue: int) -> None:
        if gate.has_room() and not gate.waiting:
            gate.active += 1
            return
        if self.waiting(backend) >= queue:
            raise Busy(
                f"{queue} requests already wait for {backend}; try again later, or raise routing.queue.",
                retry_after=5,
            )
        turn = asyncio.get_running_loop().create_future()
        gate.waiting.append(turn)
        try:
            await turn  # _wake counts us as active before it lets us go
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                gate.active -= 1
                self._wake(gate)
            elif turn in gate.waiting:  # _wake drops one that was cancelled
                gate.waiting.remove(turn)
            raise

    def _wake(self, gate: Gate) -> None:
        while gate.waiting and gate.has_room():
            turn = gate.waiting.popleft()
            if not turn.done():
                gate.active += 1
                turn.set_result(None)
