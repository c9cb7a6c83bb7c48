"""Where a prefix is warm: node of a chain -> the places that hold it, as far as is known. Pure, bounded.

A place is a model on a backend. A node belongs to the prompt that used it last, so the nodes of a prompt cost one update of a
dictionary, and a node is never there without those before it: those were used as late, or later. That makes a look-up a search
by halves, and a loss (a restart, an unload, an eviction) one step: what was not used since the time of the loss is gone.

One writer: `gateway.state.accounting`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gateway.prefix.chain import Chain

MOST = 50_000
"""Nodes in all."""

LEFT = 0.75
"""Share of `MOST` that is left when it was reached and the oldest nodes go, all at once because looking for them costs."""

LOSSES = 32
"""Losses at one place that are remembered, the latest ones."""

EXPIRY = 86_400.0
"""Seconds after which an unused node is dropped, a quarter of that later at most."""

Cause = Literal["evicted", "model_loaded", "backend_restarted"]
"""Why what was resident is so no more."""


class Place(NamedTuple):
    backend: str
    model: str


@dataclass(frozen=True, slots=True, eq=False)
class Stay:
    """A prompt at a place. used: monotonic seconds; nodes: of its chain; ratio: tokens for each character, as the reply's
    counts make it, None while nothing was counted; after: tokens that were generated behind it."""

    used: float
    nodes: int
    ratio: float | None
    after: int


class Home(NamedTuple):
    """The deepest node of a chain at a place. tokens: of the prompt up to here, None while nothing was counted; after: tokens
    that were generated right behind it; used: as in `Stay`."""

    used: float
    tokens: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Warm:
    """What a place holds of a chain. nodes, home: the beginning that is resident, and its deepest node, None if none is;
    ever, last: the longest beginning that ever was; cause: why that is so no more, None if it is."""

    place: Place
    nodes: int
    home: Home | None
    ever: int
    last: Home
    cause: Cause | None


@dataclass(slots=True)
class _Held:
    """What a place holds. stays: by node; own: characters between each node and the one before; losses: when something was
    lost, and why, in the order of time; last: what was used last."""

    stays: dict[bytes, Stay] = field(default_factory=dict)
    own: dict[bytes, int] = field(default_factory=dict)
    losses: list[tuple[float, Cause]] = field(default_factory=list)
    characters: int = 0
    last: Stay | None = None

    def valid(self, stay: Stay) -> bool:
        return not self.losses or stay.used > self.losses[-1][0]

    def cause(self, used: float) -> Cause | None:
        """Why what was used last at this time is gone: the first loss since. None if it is not."""
        at = bisect_left(self.losses, used, key=_time)
        return self.losses[at][1] if at < len(self.losses) else None

    def lose(self, until: float, cause: Cause) -> None:
        """What was not used since is gone."""
        if self.last and self.valid(self.last):
            insort(self.losses, (until, cause), key=_time)
            del self.losses[:-LOSSES]

    def known(self, chain: Chain) -> int:
        return _search(chain, self.stays.__contains__)

    def drop(self, until: float) -> None:
        """Drop what was not used since."""
        self.stays = {node: stay for node, stay in self.stays.items() if stay.used > until}
        self.own = {node: self.own[node] for node in self.stays}
        self.characters = sum(self.own.values())


class Index:
    def __init__(self, most: int = MOST, expiry: float = EXPIRY) -> None:
        self._most, self._expiry = most, expiry
        self._places: dict[Place, _Held] = {}
        self._swept = float("-inf")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def match(self, chain: Chain, model: str) -> dict[str, Warm]:
        """For each backend that holds, or ever held, a beginning of this chain for the model: what it holds."""
        found: dict[str, Warm] = {}
        for place, held in self._places.items():
            if place.model == model and (warm := _look(place, held, chain)):
                found[place.backend] = warm
        return found

    def keep(self, chain: Chain, place: Place, now: float, prompt: int | None, completion: int | None) -> None:
        """The place has computed this prompt. prompt, completion: tokens, None where they were not reported."""
        held = self._places.setdefault(place, _Held())
        known, digests, sizes = held.known(chain), chain.digests, chain.sizes
        ratio = prompt / (chain.size or 1) if prompt is not None else None
        if ratio is None and known:
            ratio = held.stays[digests[known - 1]].ratio
        held.last = Stay(now, len(digests), ratio, completion or 0)
        held.stays.update(dict.fromkeys(digests, held.last))
        starts = (chain.size_at(known), *sizes[known:-1])
        held.own.update(zip(digests[known:], map(int.__sub__, sizes[known:], starts), strict=False))
        held.characters += chain.size - chain.size_at(known)
        self._count += len(digests) - known
        self._trim(now)

    def evicted(self, warm: Warm) -> None:
        """The place no longer had what it was believed to hold. Servers drop what was not used for longest, so what was not
        used since then is believed to be gone as well."""
        held = self._places.get(warm.place)
        if held is not None and held.cause(warm.last.used) is None:
            held.lose(warm.last.used, "evicted")

    def drop(self, backend: str, cause: Cause, until: float, model: str | None = None) -> None:
        """The backend has lost all that it held, or all of one model, but for what was used after that time."""
        for place, held in self._places.items():
            if place.backend == backend and model in (None, place.model):
                held.lose(until, cause)

    def cause(self, warm: Warm) -> Cause | None:
        """Why this is no longer there, as far as is known by now; None if it should be."""
        held = self._places.get(warm.place)
        return held.cause(warm.last.used) if held is not None else None

    def models(self, backend: str) -> list[str]:
        """The models of which the backend holds something."""
        return [place.model for place in self._places if place.backend == backend]

    def gone(self, backend: str) -> None:
        """The backend is no longer in the configuration."""
        for place in [place for place in self._places if place.backend == backend]:
            self._count -= len(self._places.pop(place).stays)

    def forget(self) -> None:
        self._places.clear()
        self._count = 0

    def characters(self) -> dict[Place, int]:
        """The working set of each place: characters of all different prefixes that were used there, resident or not."""
        return {place: held.characters for place, held in self._places.items()}

    def _trim(self, now: float) -> None:
        if self._count > self._most:
            used = sorted(stay.used for held in self._places.values() for stay in held.stays.values())
            self._drop(used[-1 - int(self._most * LEFT)], now)
        elif now - self._swept > self._expiry / 4:
            self._drop(now - self._expiry, now)

    def _drop(self, until: float, now: float) -> None:
        """Drop all that was not used since."""
        for place, held in list(self._places.items()):
            held.drop(until)
            if not held.stays:
                del self._places[place]
        self._count = sum(len(held.stays) for held in self._places.values())
        self._swept = now


def _time(loss: tuple[float, Cause]) -> float:
    return loss[0]


def _look(place: Place, held: _Held, chain: Chain) -> Warm | None:
    ever = held.known(chain)
    if not ever:
        return None
    last = held.stays[chain.digests[ever - 1]]
    cause, home = held.cause(last.used), _home(last, chain, ever)
    if cause is None:
        return Warm(place, ever, home, ever, home, None)
    nodes = _search(chain, lambda digest: digest in held.stays and held.valid(held.stays[digest]))
    valid = _home(held.stays[chain.digests[nodes - 1]], chain, nodes) if nodes else None
    return Warm(place, nodes, valid, ever, home, cause)


def _home(stay: Stay, chain: Chain, nodes: int) -> Home:
    tokens = round(stay.ratio * chain.size_at(nodes)) if stay.ratio is not None else None
    return Home(stay.used, tokens, stay.after if nodes == stay.nodes else 0)


def _search(chain: Chain, holds: Callable[[bytes], bool]) -> int:
    """How many nodes from the start `holds` is true of; a node is never held without those before it."""
    low, high = 0, len(chain.digests)
    while low < high:
        middle = (low + high + 1) // 2
        if holds(chain.digests[middle - 1]):
            low = middle
        else:
            high = middle - 1
    return low
