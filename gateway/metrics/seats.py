"""Metrics of the servers' slots: what they do, whether they are used, and what is saved of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway import events
from gateway.labels import OTHER, Names
from gateway.metrics.families import Bounds, Families

STALL_BUCKETS = (.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40)  # fmt: skip

ACTS = ("save", "restore", "lead", "proof")


class Seats:
    def __init__(self, families: Families, bounds: Bounds) -> None:
        self._backends, self._outcomes = bounds.backends, Names(24)
        families.section("Slots and snapshots")
        self._slots = families.gauge(
            "slots",
            "Slots of a llama.cpp server. state: empty, warm (idle, and believed to hold a prefix), busy, draining (its client "
            "has left), foreign (busy with what did not come through here).",
            *("backend", "state"),
        )
        self._waiting = families.gauge(
            "waiting", "Requests that wait in the gateway for a place at the backend, or for a better one.", "backend"
        )
        self._unpinned = families.gauge(
            "pin_disabled",
            "1 while requests are not pinned to slots for the reason. reason: broken (pinned requests did not find their "
            "prefixes), foreign (somebody else uses the slots), unreadable (/slots tells nothing).",
            *("backend", "reason"),
        )
        self._unsaved = families.gauge(
            "snapshots_disabled", "1 after saving and restoring slots was given up, until the server restarts.", "backend"
        )
        self._snapshots = families.counter(
            "snapshots_total",
            "What was done with slot files. op: save, restore, lead (a head was read for several who begin alike) or proof "
            "(that the model is still the same); outcome: ok, or why not.",
            *("op", "outcome"),
        )
        self._stall = families.histogram(
            "snapshot_stall_seconds", "Time for which a server did nothing but save or restore a slot.", STALL_BUCKETS, "op"
        )
        self._size = families.gauge("snapshot_bytes", "All slot files that the gateway has had written.", "backend")
        self._files = families.gauge("snapshot_files", "Saved slots that can be restored.", "backend")
        for act in ACTS:
            self._snapshots.add(act, "ok")
        self.handlers: dict[type, Callable[[Any], None]] = {
            events.SlotsSeen: self._seen,
            events.SnapshotDone: self._done,
            events.SnapshotsChanged: self._changed,
            events.BackendGone: self._gone,
        }

    def _seen(self, event: events.SlotsSeen) -> None:
        backend = self._backends(event.backend)
        if backend == OTHER:
            return
        for state, count in event.states.items():
            self._slots.set(count, (backend, state))
        self._slots.keep(lambda labels: labels[0] != backend or labels[1] in event.states)
        for reason in event.pins:
            self._unpinned.set(reason == event.unpinned, (backend, reason))
        self._unpinned.keep(lambda labels: labels[0] != backend or labels[1] in event.pins)
        self._waiting.set(event.waiting, (backend,))
        self._unsaved.set(event.unsaved, (backend,))

    def _done(self, event: events.SnapshotDone) -> None:
        act = event.act if event.act in ACTS else OTHER
        self._snapshots.inc((act, self._outcomes(event.outcome)))
        if event.seconds > 0:
            self._stall.observe(event.seconds, (act,))

    def _changed(self, event: events.SnapshotsChanged) -> None:
        backend = self._backends(event.backend)
        if backend != OTHER:
            self._size.set(event.size, (backend,))
            self._files.set(event.count, (backend,))

    def _gone(self, event: events.BackendGone) -> None:
        backend = self._backends(event.name)
        for series in (self._slots, self._waiting, self._unpinned, self._unsaved, self._size, self._files):
            series.keep(lambda labels: labels[0] != backend)
