"""The only place that reads a clock, so that everything above can be driven by a fake one in tests."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds, for durations and deadlines."""

    def wall(self) -> float:
        """Seconds since the epoch (UTC), for what is shown or stored."""


class SystemClock:
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
