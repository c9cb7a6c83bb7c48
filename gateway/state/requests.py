"""What runs now and what ran last, for the status page. In memory only, bounded, without prompt text.

One writer: the event loop, through `on_event`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from gateway.clock import Clock, SystemClock
from gateway.events import RequestClosed, RequestLeft, RequestStarted
from gateway.values import Record

LONGEST_NAME = 256  # characters; a client may send a body of any size as its model's name


@dataclass(frozen=True, slots=True)
class InFlight:
    """A request that a backend works on. id: may be the client's own, and then several requests' at once; number: its flight's,
    unlike any other; started: wall clock, when this backend got it."""

    id: str
    number: int
    backend: str
    started: float


class Requests:
    """Subscriber of the bus, to what it `hears`. keep: finished requests that are remembered."""

    hears = (RequestStarted, RequestLeft, RequestClosed)

    def __init__(self, keep: int = 200, clock: Clock | None = None) -> None:
        self._keep = keep
        self._clock = clock or SystemClock()
        self._finished: OrderedDict[str, Record] = OrderedDict()  # oldest first
        self._running: dict[tuple[str, int], InFlight] = {}  # an id may be a client's, and used twice

    def on_event(self, event: Any) -> None:
        if isinstance(event, RequestStarted):
            self._running[event.id, event.number] = InFlight(event.id, event.number, event.backend, self._clock.wall())
        elif isinstance(event, RequestLeft):
            self._left(event)
        elif isinstance(event, RequestClosed):
            self._running.pop((event.record.id, event.number), None)
            self._closed(event.record)

    def recent(self, limit: int | None = None) -> list[Record]:
        """Finished requests, the newest first, at most `limit`."""
        newest_first = list(reversed(self._finished.values()))
        return newest_first if limit is None else newest_first[: max(0, limit)]

    def get(self, id: str) -> Record | None:
        """The finished request of this id; None if it is unknown, still runs or has been forgotten."""
        return self._finished.get(id)

    def in_flight(self) -> list[InFlight]:
        """Running requests, the longest running first."""
        return sorted(self._running.values(), key=lambda request: request.started)

    def _left(self, event: RequestLeft) -> None:
        running = self._running.get((event.id, event.number))
        if running is not None and running.backend == event.backend:  # else it has already moved on to another backend
            del self._running[event.id, event.number]

    def _closed(self, record: Record) -> None:
        if not (_plain(record.path) and _plain(record.client.agent) and _plain(record.model or "")):
            client = replace(record.client, agent=_name(record.client.agent))
            model = None if record.model is None else _name(record.model)
            record = replace(record, model=model, path=_name(record.path), client=client)
        self._finished[record.id] = record
        self._finished.move_to_end(record.id)  # a client may use the same id again
        while len(self._finished) > self._keep:
            self._finished.popitem(last=False)


def _plain(text: str) -> bool:
    """Whether a name can be kept as it is; nearly all are ASCII, which is looked up and not searched for."""
    return text.isascii() and len(text) <= LONGEST_NAME


def _name(text: str) -> str:
    """A name that a client chose, short, and without the lone surrogates that no JSON document can hold."""
    return text[:LONGEST_NAME].encode("utf-8", "replace").decode()
