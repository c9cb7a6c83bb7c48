"""Where a prefix is warm: node of a chain -> the places that hold it, as far as is known. Pure, bounded.

A place is a model on a backend. Nodes are kept in the order of their last use, those of one prompt the deepest first, so that
what is dropped first is old and deep, and a node is never there without those before it. That makes a look-up a search by
halves, and losing everything at a place (a restart, an unload) one step: what was written in an older epoch is gone.

One writer: `gateway.state.accounting`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gateway.prefix.chain import Chain

MOST = 50_000
"""Nodes in all."""

EXPIRY = 86_400.0
"""Seconds after which an unused node is dropped."""

Cause = Literal["evicted", "model_loaded", "backend_restarted"]
"""Why what was resident is so no more."""


class Place(NamedTuple):
    backend: str
    model: str


class Home(NamedTuple):
    """A node at a place. epoch: when it was written; used: monotonic seconds; own: characters between it and the node before;
    tokens: of the prompt up to here, as the replies' counts make it, None while nothing was counted; after: tokens that were
    generated behind it; told: the server's own count said so, it is not only believed."""

    epoch: int
    used: float
    own: int
    tokens: int | None
    after: int
    told: bool


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
    """What a place holds. floor: nodes that were not used since are believed to be evicted."""

    homes: OrderedDict[bytes, Home] = field(default_factory=OrderedDict)
    epoch: int = 0
    causes: list[Cause] = field(default_factory=list)
    floor: float = float("-inf")
    characters: int = 0

    def valid(self, home: Home) -> bool:
        return home.epoch == self.epoch and home.used > self.floor

    @property
    def any_valid(self) -> bool:
        return bool(self.homes) and self.valid(self.homes[next(reversed(self.homes))])

    def cause(self, home: Home) -> Cause | None:
        if home.epoch != self.epoch:
            return self.causes[home.epoch]
        return None if home.used > self.floor else "evicted"


class Index:
    def __init__(self, most: int = MOST, expiry: float = EXPIRY) -> None:
        self._most, self._expiry = most, expiry
        self._places: dict[Place, _Held] = {}
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

    def keep(self, chain: Chain, place: Place, now: float, prompt: int | None, completion: int | None, *, told: bool) -> None:
        """The place has computed this prompt. prompt, completion: tokens, None where they were not reported."""
        held = self._places.setdefault(place, _Held())
        homes, size, last = held.homes, chain.size or 1, len(chain.digests) - 1
        before = len(homes)
        for at in range(last, -1, -1):
            digest = chain.digests[at]
            old = homes.get(digest)
            after = (completion or 0) if at == last else old.after if old else 0
            tokens = round(prompt * chain.sizes[at] / size) if prompt is not None else old.tokens if old else None
            own = chain.sizes[at] - (chain.sizes[at - 1] if at else 0)
            held.characters += 0 if old else own
            homes[digest] = Home(held.epoch, now, own, tokens, after, told)
            homes.move_to_end(digest)
        self._count += len(homes) - before
        self._trim(now)

    def evicted(self, warm: Warm) -> None:
        """The place no longer had what it was believed to hold. Servers drop what was not used for longest, so what was not
        used since then is believed to be gone as well."""
        held = self._places.get(warm.place)
        if held is not None and held.epoch == warm.last.epoch:
            held.floor = max(held.floor, warm.last.used)

    def drop(self, backend: str, cause: Cause, model: str | None = None) -> None:
        """The backend has lost all that it held, or all of one model."""
        for place, held in self._places.items():
            if place.backend == backend and model in (None, place.model) and held.any_valid:
                held.causes.append(cause)
                held.epoch += 1

    def models(self, backend: str) -> list[str]:
        """The models of which the backend holds something."""
        return [place.model for place in self._places if place.backend == backend]

    def gone(self, backend: str) -> None:
        """The backend is no longer in the configuration."""
        for place in [place for place in self._places if place.backend == backend]:
            self._count -= len(self._places.pop(place).homes)

    def forget(self) -> None:
        self._places.clear()
        self._count = 0

    def characters(self) -> dict[Place, int]:
        """The working set of each place: characters of all different prefixes that were used there, resident or not."""
        return {place: held.characters for place, held in self._places.items()}

    def _trim(self, now: float) -> None:
        while self._count:
            place, held = min(self._filled(), key=lambda one: next(iter(one[1].homes.values())).used)
            oldest = next(iter(held.homes))
            if self._count <= self._most and now - held.homes[oldest].used <= self._expiry:
                return
            held.characters -= held.homes.pop(oldest).own
            self._count -= 1
            if not held.homes:
                del self._places[place]

    def _filled(self) -> list[tuple[Place, _Held]]:
        return [(place, held) for place, held in self._places.items() if held.homes]


def _look(place: Place, held: _Held, chain: Chain) -> Warm | None:
    homes = held.homes
    ever = _search(chain, lambda digest: digest in homes)
    if not ever:
        return None
    last = homes[chain.digests[ever - 1]]
    cause = held.cause(last)
    if cause is None:
        return Warm(place, ever, last, ever, last, None)
    nodes = _search(chain, lambda digest: digest in homes and held.valid(homes[digest]))
    return Warm(place, nodes, homes[chain.digests[nodes - 1]] if nodes else None, ever, last, cause)


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
