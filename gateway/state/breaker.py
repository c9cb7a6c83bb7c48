"""Circuit breaker of one backend. An open circuit means *not first choice*: it is still tried when nothing else is left,
so the last backend of a model is never shut out."""

from __future__ import annotations

from dataclasses import dataclass

THRESHOLD = 3  # connection failures in a row
FIRST_PAUSE = 5.0  # seconds; doubles with each failed trial
LONGEST_PAUSE = 120.0


@dataclass(slots=True)
class Breaker:
    """Written by Fleet only. open_until: monotonic seconds, 0 while closed."""

    failures: int = 0
    pause: float = FIRST_PAUSE
    open_until: float = 0.0

    def is_open(self, now: float) -> bool:
        return now < self.open_until

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.failures >= THRESHOLD and not self.is_open(now):
            self.open_until = now + self.pause
            self.pause = min(self.pause * 2, LONGEST_PAUSE)

    def succeeded(self) -> None:
        self.failures, self.pause, self.open_until = 0, FIRST_PAUSE, 0.0
