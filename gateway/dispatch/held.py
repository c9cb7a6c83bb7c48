"""What a request holds while it is served, given back in reverse order. contextlib's stacks cost more than what they guard."""

from __future__ import annotations

from collections.abc import Callable


class Held:
    """`keep` what gives a thing back; `release` calls all of it, also when one of the calls raises."""

    __slots__ = ("_releases",)

    def __init__(self) -> None:
        self._releases: list[Callable[[], None]] = []

    def keep(self, release: Callable[[], None]) -> None:
        self._releases.append(release)

    def release(self) -> None:
        """Give everything back, once."""
        while self._releases:
            try:
                self._releases.pop()()
            finally:
                self.release()
