"""Events travel outward: state and dispatch publish, metrics, log and pages subscribe; nobody calls upward.

The bus is synchronous and runs on the event loop. A subscriber must be quick and may not raise; one that does is logged and
the others still hear the event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.values import Probe, Record

log = logging.getLogger("warmgate.events")


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A request has been given to a backend (published again for the new backend after a retry).

    id: may be the client's own, and then several requests' at once; number: the flight's, unlike any other.
    """

    id: str
    backend: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class RequestLeft:
    """The backend no longer works on the request (the counterpart of RequestStarted)."""

    id: str
    backend: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class RequestClosed:
    record: Record
    number: int = 0


@dataclass(frozen=True, slots=True)
class BackendProbed:
    name: str
    probe: Probe
    seconds: float


@dataclass(frozen=True, slots=True)
class BackendGone:
    """The backend is no longer in the configuration."""

    name: str


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    backend: str
    open: bool


@dataclass(frozen=True, slots=True)
class BackendRefused:
    """Nobody listens at the backend's address: there is no server, so that what it held is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class BoardChanged:
    """Something has changed at a backend by which a request that waits might now be placed."""

    backend: str


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """Something was done with a slot's file. act: `save`, `restore`, `lead` (a head was computed for all who begin alike) or
    `proof` (that the model is the one it was); outcome: `ok`, or why not, in a word of a closed set; size: bytes; seconds: for
    which the server did nothing else."""

    backend: str
    act: str
    outcome: str
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SnapshotsChanged:
    """The saved slots of a backend are others now. size: bytes of all its files, those of no use included."""

    backend: str
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Canonicalized:
    """A prompt was looked at. edits: applied, by rule; found: rules that only observed and found something, once for each find;
    reason: why the client's bytes went out although something was found, in a few words whose first is a closed set; or "".
    """

    edits: Mapping[str, int]
    found: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RewriteRejected:
    """A server refused an edited body and took the client's own."""


@dataclass(frozen=True, slots=True)
class IndexChanged:
    """The index of prefixes was written to. nodes: in all; tokens: of all different prefixes in it, an estimate."""

    nodes: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """A model is loaded that was not at the last look. cause: `keep`: the configuration wants it; `user`: a request did."""

    backend: str
    model: str
    cause: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """cause: `expired`, `client` (somebody unloaded it), `release`, `evicted` (another took its place) or `unknown`."""

    backend: str
    model: str
    cause: str


@dataclass(frozen=True, slots=True)
class Pinged:
    """A model was told to load or to stay. act: `load`, `renew` or `unload`; outcome: `ok` or `failed`."""

    backend: str
    model: str
    act: str
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KeepAliveOverridden:
    """A client's `keep_alive` was raised to the policy's."""

    backend: str
    model: str


@dataclass(frozen=True, slots=True)
class ModelsKept:
    """The models that the configuration wants loaded now, looked at when somebody asks: backend, and its own name of it."""

    models: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SlotsSeen:
    """What is believed of a backend's slots, looked at when somebody asks. states: how many slots by what they do; waiting:
    requests that wait for the backend; pins: for what reasons they may be given up there, none if it has no slots; unpinned:
    the one that holds now, or ""; unsaved: snapshots were given up."""

    backend: str
    states: Mapping[str, int]
    waiting: int = 0
    pins: tuple[str, ...] = ()
    unpinned: str = ""
    unsaved: bool = False


@dataclass(frozen=True, slots=True)
class HeadUsed:
    """A conversation's turn was answered. key: digest of its tools and system text; model: its label."""

    key: bytes
    model: str
    backend: str


@dataclass(frozen=True, slots=True)
class WarmupRan:
    """A prefix was read ahead, or was to be. outcome: `prefilled`, `restored`, `already_warm`, `interrupted` (a user's request
    wanted the backend), `failed` or `skipped`; tokens: that were computed or restored."""

    pin: str
    backend: str
    model: str
    outcome: str
    seconds: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class PrefixWarm:
    """Whether a pinned prefix is believed to be in a cache of the backend, told when that changes."""

    pin: str
    backend: str
    warm: bool


@dataclass(frozen=True, slots=True)
class ConfigReloaded:
    ok: bool
    message: str = ""


Event = (
    RequestStarted
    | RequestLeft
    | RequestClosed
    | BackendProbed
    | BackendGone
    | CircuitChanged
    | BackendRefused
    | SnapshotDone
    | SnapshotsChanged
    | BoardChanged
    | Canonicalized
    | RewriteRejected
    | IndexChanged
    | ModelLoaded
    | ModelUnloaded
    | Pinged
    | KeepAliveOverridden
    | ModelsKept
    | SlotsSeen
    | HeadUsed
    | WarmupRan
    | PrefixWarm
    | ConfigReloaded
)


Subscriber = Callable[[Any], None]


class Bus:
    """One writer of `_subscribers`: the process at start-up."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[Subscriber, tuple[type, ...]]] = []
        self._hearers: dict[type, list[Subscriber]] = {}  # by the type of an event, once there was one

    def subscribe(self, subscriber: Subscriber, *kinds: type) -> None:
        """kinds: types of the events to hear; none: all."""
        self._subscribers.append((subscriber, kinds))
        self._hearers.clear()

    def publish(self, event: Any) -> None:
        kind = type(event)
        if kind not in self._hearers:
            self._hearers[kind] = [subscriber for subscriber, kinds in self._subscribers if not kinds or kind in kinds]
        for subscriber in self._hearers[kind]:
            try:
                subscriber(event)
            except Exception:
                log.exception("a subscriber failed on %s", type(event).__name__)
