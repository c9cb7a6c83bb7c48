"""The log of finished requests: what each reused, and why not more. In memory only, bounded, as JSON-ready rows.

One writer: the gateway, when a request has ended, on the event loop. Without prompt text, unless `explain.store: text`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gateway.values import SAVERS, Record

LONGEST_NAME = 256  # characters of what a client may call things

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """explanation: what makes it when somebody asks."""

    record: Record
    explanation: Callable[[], Row] | None


class Log:
    """keep: finished requests that are remembered."""

    def __init__(self, keep: int = 500) -> None:
        self._keep = keep
        self._entries: OrderedDict[str, Entry] = OrderedDict()  # oldest first

    def resize(self, keep: int) -> None:
        self._keep = keep
        self._trim()

    def add(self, record: Record, explanation: Callable[[], Row] | None) -> None:
        """explanation: makes what `explain` gives; None for what had no prompt that could be compared."""
        self._entries[record.id] = Entry(record, explanation)
        self._entries.move_to_end(record.id)  # a client may use the same id again
        self._trim()

    def rows(
        self,
        limit: int | None = None,
        *,
        model: str | None = None,
        backend: str | None = None,
        reason: str | None = None,
        outcome: str | None = None,
        kind: str | None = None,
        since: float | None = None,
    ) -> list[Row]:
        """Finished requests, the newest first, at most `limit` of those that all filters let through.

        model: as the client wrote it, or its label; since: seconds since the epoch, when the request began.
        """
        found = (
            record
            for record in self._newest_first()
            if (model is None or model in (record.model, record.label))
            and (since is None or record.started >= since)
            and all(
                wanted is None or wanted == is_
                for wanted, is_ in (
                    (backend, record.backend),
                    (reason, record.reason),
                    (outcome, record.outcome),
                    (kind, record.kind),
                )
            )
        )
        return [row_of(record) for record in islice(found, None if limit is None else max(0, limit))]

    def row(self, id: str) -> Row | None:
        """The finished request of this id, with the gateway's own times and why it went where it did; None if it is unknown,
        still runs or was forgotten."""
        entry = self._entries.get(id)
        if entry is None:
            return None
        record = entry.record
        return {
            **row_of(record),
            "overhead": dict(record.overhead),
            "retries": record.retries,
            "slot": record.slot,
            "waited_for": record.waited_for,
            "costs": dict(record.costs),
            "reasons": list(record.reasons),
        }

    def explain(self, id: str) -> Row | None:
        """Why this request reused what it did; None if it is not in the log or had no prompt that could be compared."""
        entry = self._entries.get(id)
        return entry.explanation() if entry and entry.explanation else None

    def forget(self) -> None:
        """Drop all explanations: they may hold texts. The rows stay."""
        for id, entry in self._entries.items():
            self._entries[id] = Entry(entry.record, None)

    def _newest_first(self) -> Iterator[Record]:
        return (entry.record for entry in reversed(self._entries.values()))

    def _trim(self) -> None:
        while len(self._entries) > self._keep:
            self._entries.popitem(last=False)


def row_of(record: Record) -> Row:
    """A record as the admin API, the page and the command line show it. Times are seconds, `time` since the epoch."""
    usage, answered = record.usage, record.first is not None or record.usage.prompt is not None
    return {
        "id": record.id,
        "time": record.started,
        "dialect": record.dialect,
        "path": _name(record.path),
        "model": None if record.model is None else _name(record.model),
        "label": record.label,
        "backend": record.backend,
        "kind": record.kind,
        "client": {"agent": _name(record.client.agent), "address": record.client.address},
        "session": record.session,
        "route": record.route,
        "stream": record.stream,
        "status": record.status,
        "outcome": record.outcome,
        "error": record.error,
        "decision": record.decision,
        "first": record.first,
        "ttft": record.ttft,
        "ttfb": record.ttfb,
        "queue": record.queue,
        "duration": record.duration,
        "prompt": usage.prompt,
        "cached": usage.cached,
        "cached_source": usage.source if usage.cached is not None else "none",
        "completion": usage.completion,
        "expected": record.expected if answered else None,
        "reason": record.reason,
        "section": record.section,
        "lost_tokens": record.lost_tokens,
        "lost_seconds": record.lost_seconds,
        "saved": {by: record.saved.get(by, 0.0) for by in SAVERS},
        "edits": dict(record.edits),
    }


def _name(text: str) -> str:
    """A name that a client chose, short, and without the lone surrogates that no JSON document can hold."""
    return text[:LONGEST_NAME].encode("utf-8", "replace").decode()
