"""A clock that goes only where a test pushes it."""

from __future__ import annotations


class ManualClock:
    """Both clocks of gateway.clock.Clock: seconds, moved together by `advance`."""

    def __init__(self, wall: float = 1_800_000_000.0):
        self._now = 1000.0
        self._wall = wall

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._wall

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._wall += seconds
