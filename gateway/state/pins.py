"""Prefixes that are worth being read ahead: those that the configuration names, and those that traffic has shown.

A learned pin is the head of a request (tools and system text in canonical form, with the flags that reach the template), as
`gateway.dialects.prefill` makes it. It holds what users and clients wrote, and lives in the store until it is forgotten.

One writer: `gateway.control.warmup` and the data path through `used`, on the event loop. Times are wall clock seconds.
"""

from __future__ import annotations

import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from gateway.clock import Clock
from gateway.config.warmup import Learn
from gateway.state.store import Stored

KIND = "pin"
"""Kind of the rows in the store."""

HALF_LIFE = 3 * 86_400.0
"""Seconds after which a use counts half."""

CANDIDATES = 512
"""Heads that are counted before they are worth to be kept."""

LARGEST = 4 << 20
"""Bytes of a head; a larger one is not kept."""

WRITE_EVERY = 600.0
"""Seconds between two rows about the use of a pin that is on disk already."""

STORED = ("label", "model", "path", "tokens", "weight", "used", "mark")
"""Fields of a pin that are in its row as they are."""

Source = Literal["config", "learned"]


@dataclass(slots=True)
class Pin:
    """name: of a learned one, the beginning of its key; label: the model in metrics; model: as its clients name it; body: what
    has a server read it; tokens: 0 while not known; weight: uses, each of which fades; used: the last one; mark: of the process
    of the server that was last seen to hold it."""

    key: bytes
    name: str
    source: Source
    label: str
    model: str
    path: str
    body: bytes
    tokens: int = 0
    weight: float = 0.0
    used: float = 0.0
    when: tuple[str, ...] = ("startup", "model_loaded", "backend_restarted", "evicted")
    written: float = 0.0
    mark: str | None = None

    def score(self, now: float) -> float:
        """Tokens that it is likely to save."""
        return self.tokens * _faded(self.weight, self.used, now)


@dataclass(slots=True)
class _Candidate:
    weight: float = 0.0
    used: float = 0.0
    hits: int = 0


Put = Callable[[Iterable[Stored]], None]


class Pins:
    def __init__(self, clock: Clock, put: Put) -> None:
        self._clock, self._put = clock, put
        self._learn = Learn()
        self._learned: dict[bytes, Pin] = {}
        self._given: dict[bytes, Pin] = {}
        self._candidates: OrderedDict[bytes, _Candidate] = OrderedDict()

    def configure(self, learn: Learn) -> None:
        self._learn = learn
        self._trim(self._clock.wall())

    def give(self, pins: Iterable[Pin]) -> None:
        """The pins of the configuration, in the place of those that were given before."""
        self._given = {pin.key: pin for pin in pins}

    def load(self, row: Stored) -> None:
        """A row of the store, at start-up. One that cannot be read is dropped."""
        try:
            data = orjson.loads(zlib.decompress(row.value or b""))
            body = data.pop("body").encode()
            self._learned[row.key] = Pin(row.key, row.key.hex()[:8], "learned", body=body, written=row.used, **data)
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error):
            self._put([Stored(KIND, row.key, None, row.used)])

    # what there is

    def all(self) -> list[Pin]:
        """Those of the configuration, then the learned ones, the most valuable first."""
        now = self._clock.wall()
        return [*self._given.values(), *sorted(self._learned.values(), key=lambda pin: -pin.score(now))]

    def find(self, name: str) -> Pin | None:
        return next((pin for pin in self.all() if pin.name == name), None)

    # traffic

    def used(
        self, key: bytes, label: str, model: str, path: str, tokens: int, mark: str | None, body: Callable[[], bytes | None]
    ) -> None:
        """A request began with this head and was answered. mark: of the server's process; body: makes what has a server read
        it, None where that cannot be."""
        now = self._clock.wall()
        if (pin := self._learned.get(key)) is not None:
            another, pin.mark = mark != pin.mark, mark
            pin.weight, pin.used, pin.tokens = _faded(pin.weight, pin.used, now) + 1, now, tokens or pin.tokens
            if another or now - pin.written > WRITE_EVERY:
                self._write(pin, now)
            return
        if not self._learn.keep or tokens < self._learn.min_tokens or key in self._given:
            return
        candidate = self._candidates.pop(key, _Candidate())
        candidate.weight, candidate.used = _faded(candidate.weight, candidate.used, now) + 1, now
        candidate.hits += 1
        if candidate.hits < self._learn.min_hits:
            self._candidates[key] = candidate
            while len(self._candidates) > CANDIDATES:
                self._candidates.popitem(last=False)
            return
        made = body()
        if made is not None and len(made) <= LARGEST:
            name = key.hex()[:8]
            self._learned[key] = Pin(key, name, "learned", label, model, path, made, tokens, candidate.weight, now, mark=mark)
            self._write(self._learned[key], now)
            self._trim(now)

    def forget(self) -> int:
        """Drop what was learned. Returns how many that were; the store is emptied by who calls."""
        count = len(self._learned)
        self._learned.clear()
        self._candidates.clear()
        return count

    def _trim(self, now: float) -> None:
        by_score = sorted(self._learned.values(), key=lambda pin: pin.score(now))
        for pin in by_score[: max(0, len(by_score) - self._learn.keep)]:
            del self._learned[pin.key]
            self._put([Stored(KIND, pin.key, None, now)])

    def _write(self, pin: Pin, now: float) -> None:
        pin.written = now
        data: dict[str, Any] = {
            name: getattr(pin, name) for name in ("label", "model", "path", "tokens", "weight", "used", "mark")
        }
        text = pin.body.decode("utf-8", "surrogatepass")
        try:
            value = zlib.compress(orjson.dumps({**data, "body": text}))
        except TypeError:  # a lone surrogate: it lives in memory only
            return
        self._put([Stored(KIND, pin.key, value, now)])


def _faded(weight: float, used: float, now: float) -> float:
    return weight * math.exp2(-max(0.0, now - used) / HALF_LIFE)
