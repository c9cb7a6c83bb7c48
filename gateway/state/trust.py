"""Whether requests may be pinned to the slots of a server, and if not, why: what was observed of it since its process started.

One writer: `gateway.state.board`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

FOREIGN = 600.0
"""Seconds for which somebody else's use of the server counts, since it was last seen."""

JUDGED = 8
"""Pinned requests that are looked back at."""

BROKEN = 3
"""So many of those that did not find what their slot was believed to hold are enough."""

FOUND = 0.5
"""Share of what a slot was believed to hold that must be found. Models that cannot go back to any token find less than all."""

LEAST = 64
"""Tokens below which nothing is judged: a head of a template is found in every slot."""


@dataclass(slots=True)
class Trust:
    """problem: why `/slots` tells nothing that can be used, "" where it does; looked: it has been looked at; has_cache: there
    is a cache besides the slots, as was tried; pinned, cached: whether pinned requests, and those that only such a cache could
    help, found what they should."""

    problem: str = ""
    looked: bool = False
    foreign_until: float = float("-inf")
    has_cache: bool | None = None
    pinned: deque[bool] = field(default_factory=lambda: deque(maxlen=JUDGED))
    cached: deque[bool] = field(default_factory=lambda: deque(maxlen=JUDGED))

    def judge_pin(self, promised: int, found: int) -> bool:
        """Take what a pinned request found of what it should. Returns whether this was the one that was too many."""
        if promised < LEAST or self.broken:
            return False
        self.pinned.append(found >= FOUND * promised)
        return self.broken

    def judge_cache(self, in_slots: int, promised: int, found: int) -> None:
        """Take what a request found for which the cache in RAM was believed to hold more than the slots do."""
        if promised - in_slots >= LEAST:
            self.cached.append(found - in_slots >= FOUND * (promised - in_slots))

    @property
    def broken(self) -> bool:
        return self.pinned.count(False) >= BROKEN

    @property
    def cache(self) -> bool | None:
        """Whether there is a cache besides the slots that is of use; None while that is not known."""
        if not self.cached:
            return self.has_cache
        if 2 * self.cached.count(True) >= len(self.cached):
            return True
        return False if len(self.cached) > 1 else None

    def foreign(self, now: float) -> bool:
        return now < self.foreign_until

    def saw_foreign(self, now: float) -> bool:
        """Somebody else uses the server. Returns whether that is news."""
        news = not self.foreign(now)
        self.foreign_until = now + FOREIGN
        return news
