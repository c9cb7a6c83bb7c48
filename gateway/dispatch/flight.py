"""One request on its way. Becomes a Record when it ends.

One writer: the handler that serves the request (relay or warm-up, and dispatch on its behalf).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

from gateway.clock import Clock
from gateway.routing.board import Choice
from gateway.state.trace import Trace
from gateway.values import Client, First, Outcome, Record, Usage

_NUMBERS = count(1)

NO_REASON = ("only", "order")
"""Decisions that say no more than the name of the model."""


@dataclass(slots=True)
class Flight:
    """Times are monotonic seconds. read: the request had been read completely (TTFT counts from here); edits: what was changed
    in the prompt, as the reply's header tells it; trace: what is known of its prompt, None if it has none; number: unlike any
    other flight's, which an id that the client brings need not be; choice: where it goes, None while it waits or where routing
    was not asked; slot: that it is believed to have; waited_for: the decision by which it was held last; tell_first: hears of
    the first content.
    """

    id: str
    client: Client
    clock: Clock
    path: str
    dialect: str = "other"
    model: str | None = None
    label: str = "other"
    kind: str = "main"
    stream: bool = False
    begun: float = 0.0
    wall: float = 0.0
    read: float | None = None
    headers_at: float | None = None
    first_at: float | None = None
    first: First | None = None
    backend: str | None = None
    decision: str | None = None
    queue: float = 0.0
    retries: int = 0
    usage: Usage = field(default_factory=Usage)
    overhead: dict[str, float] = field(default_factory=dict)
    edits: str = ""
    trace: Trace | None = None
    mark: float = 0.0
    status: int = 0
    outcome: Outcome = "internal_error"
    error: str | None = None
    number: int = field(default_factory=_NUMBERS.__next__)
    choice: Choice | None = None
    slot: int | None = None
    waited_for: str | None = None
    tell_first: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.begun, self.wall = self.clock.now(), self.clock.wall()

    def lap(self, stage: str) -> None:
        """The time since the request was read, or since the last lap, was spent on this stage."""
        now = self.clock.now()
        self.overhead[stage] = now - max(self.mark, self.read or self.begun)
        self.mark = now

    def knows(self, key: str) -> None:
        """Who the client is, as told by the digest of its key."""
        if key:
            self.client = replace(self.client, key=key)

    def saw_first(self, first: First) -> None:
        """The first content-bearing event has passed."""
        if self.first is None:
            self.first, self.first_at = first, self.clock.now()
            if self.tell_first is not None:
                self.tell_first()

    def waits(self, choice: Choice) -> None:
        """It is held, for now."""
        self.waited_for = choice.decision

    def goes(self, choice: Choice) -> None:
        """It has a place. What was known from the name alone says more than that there was no other reason."""
        self.choice, self.slot = choice, choice.slot
        if self.decision is None or choice.decision not in NO_REASON:
            self.decision = choice.decision

    def ends(self, status: int, outcome: Outcome, error: str | None = None) -> None:
        self.status, self.outcome, self.error = status, outcome, error

    def record(self) -> Record:
        since = self.read if self.read is not None else self.begun
        choice = self.choice
        return Record(
            id=self.id,
            started=self.wall,
            dialect=self.dialect,
            path=self.path,
            backend=self.backend,
            model=self.model,
            label=self.label,
            kind=self.kind,
            client=self.client,
            stream=self.stream,
            status=self.status,
            outcome=self.outcome,
            decision=self.decision,
            first=self.first,
            ttft=self.first_at - since if self.stream and self.first_at is not None else None,
            ttfb=self.headers_at - since if self.headers_at is not None else None,
            queue=self.queue,
            duration=self.clock.now() - since,
            overhead=self.overhead,
            usage=self.usage,
            retries=self.retries,
            error=self.error,
            slot=self.slot,
            waited_for=self.waited_for,
            costs=choice.costs if choice is not None else {},
            reasons=choice.reasons if choice is not None else (),
        )
