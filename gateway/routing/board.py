"""What routing sees of the servers: each model on each backend, its slots, and what they hold. Pure.

The board is kept up to date by events and never built for a request. One writer: `gateway.state.board`; `choose` only reads it.
All times are monotonic seconds, all sizes tokens, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from gateway.prefix.chain import Chain
from gateway.values import Target

Mode = Literal["unknown", "kept", "emptied"]
"""What becomes of an idle slot's KV cache, found by observation. `kept`: it stays, so that requests can be pinned to it;
`emptied`: it is moved to a cache in memory whenever a task starts, where a request with `id_slot` does not look (measured on
llama.cpp b11549 in its default mode: 0 tokens reused, every time)."""


class Prefill(Protocol):
    """How long a place takes to read a prompt."""

    def seconds(self, cached: int, prompt: int) -> float | None:
        """Seconds for the tokens behind `cached` up to `prompt`; None while nothing is known."""
        ...


@dataclass(slots=True)
class Held:
    """A prefix that is held somewhere. tokens: of prompt and answer; hits: times it was reused since it came, came and used:
    when; gap: usual seconds between two uses, None while there was only one; side: a side request left it behind."""

    chain: Chain
    tokens: int
    came: float
    used: float
    hits: int = 0
    gap: float | None = None
    side: bool = False


@dataclass(slots=True)
class Slot:
    """held: what its KV cache holds as far as is believed, None: nothing that is known; flight: number of the flight that has
    its lease; free_at: when that is expected to end; draining: its client has left and the server has not stopped yet;
    foreign: it works on something that did not come through here."""

    number: int
    held: Held | None = None
    flight: int | None = None
    free_at: float = 0.0
    draining: bool = False
    foreign: bool = False

    @property
    def idle(self) -> bool:
        return self.flight is None and not self.draining and not self.foreign


@dataclass(slots=True)
class Running:
    """A request that a backend works on. warm_at: when its prefill is expected to end; free_at: when its answer is; tokens: the
    most that its prompt and answer can take; slot: that it is believed to have; lead: nodes of its beginning that the gateway
    computes first and saves, so that others that begin alike can restore them from `warm_at` on."""

    chain: Chain | None
    side: bool
    stream: bool
    tokens: int
    warm_at: float
    free_at: float
    slot: int | None = None
    lead: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved slot. node: digest of the last node of the prefix that it holds; nodes: how many those are; seconds: that
    restoring it takes."""

    name: str
    node: bytes
    nodes: int
    tokens: int
    size: int  # bytes
    seconds: float
    used: float
    hits: int = 0


@dataclass(slots=True)
class Engine:
    """One model on one backend.

    capacity: requests that it works on at once, None: no limit is known; slots: [] where they cannot be told apart; pins:
    requests may be pinned to slots now (the mode is `kept`, the configuration allows it, it was not given up, nobody else uses
    the server); cache: it has a cache besides its slots, None: unknown; snapshots: by the digest of their last node; saves: a
    slot could be saved now, as far as disk, budget and the server allow; resident: None where the server does not tell; load:
    seconds that loading takes; context: tokens that all its requests share, None where each slot has its own; ratio: tokens for
    each character of a chain; answer: seconds that an answer usually takes behind its first token; exclusive: loading it would
    push out another model of this backend that is in use; waiting: requests that wait for it;
    shares: what one request has computed can be reused while that one still runs (paged caches: vLLM, oMLX), `settle` seconds
    after its prefill; settling: requests that ended less than `settle` ago; recent: what was last computed here, oldest first,
    at most `capacity`, where slots are [] and the capacity is known (Ollama).
    """

    backend: str
    model: str
    rate: Prefill
    up: bool = True
    circuit_open: bool = False
    capacity: int | None = None
    mode: Mode = "unknown"
    slots: list[Slot] = field(default_factory=list)
    pins: bool = False
    cache: bool | None = None
    snapshots: dict[bytes, Snapshot] = field(default_factory=dict)
    saves: bool = False
    running: dict[int, Running] = field(default_factory=dict)
    waiting: int = 0
    resident: bool | None = None
    load: float = 10.0
    context: int | None = None
    ratio: float = 0.25
    answer: float = 5.0
    exclusive: bool = False
    settle: float = 0.0
    shares: bool = False
    settling: list[Running] = field(default_factory=list)
    recent: list[Held] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.capacity is not None and len(self.running) >= self.capacity


@dataclass(slots=True)
class Board:
    """engines: by backend and the backend's own name of the model ("" where it ignores names), in the order in which they were
    met; sessions: the backend that each had last, bounded."""

    engines: dict[tuple[str, str], Engine] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)

    def engine(self, target: Target, label: str) -> Engine | None:
        """The engine of a target; label: the model's name where the target leaves the client's. None: not met yet."""
        return self.engines.get((target.backend, "")) or self.engines.get((target.backend, target.model or label))


@dataclass(slots=True)
class Ask:
    """What routing needs to know of a call.

    targets: where it may go, in the order of preference by name, health apart; chain: of its prompt, None if it has none; warm:
    nodes of it that each backend is believed to hold somewhere, slots and caches together; limit: most tokens of its answer,
    None: not said; pinnable: its API carries `id_slot`; asked_slot: the client's own `id_slot`; session: digest, or "";
    side: it is a side request; label: name of the model where a target has none of its own; held: seconds that it has waited
    already; hold: the longest that it may be made to wait for something better than what is free; whole: the chain is that of
    the whole prompt, not only of most of it.
    """

    targets: tuple[Target, ...]
    chain: Chain | None
    warm: Mapping[str, int]
    side: bool = False
    stream: bool = False
    pinnable: bool = False
    asked_slot: int | None = None
    limit: int | None = None
    session: str = ""
    label: str = ""
    held: float = 0.0
    hold: float = 30.0
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a request goes, or why it waits.

    hold: it is not sent now, because `target` is full or is worth waiting for; until: when to look again at the latest, if
    nothing changes before; slot: that it is believed to get, None where there are none; pin: `id_slot` is sent; restore: the
    snapshot to put into that slot first; replaced: what the slot holds until then; save: that is saved before; lead: nodes of
    the beginning of the chain that the gateway has computed and saved first, for this request and for others that begin alike,
    0: none; reused: tokens that are expected to be reused; costs: milliseconds of the winner, by term; reasons: in words, for
    people.
    """

    target: Target
    decision: str
    hold: bool = False
    until: float | None = None
    slot: int | None = None
    pin: bool = False
    restore: Snapshot | None = None
    save: bool = False
    replaced: Held | None = None
    lead: int = 0
    reused: int = 0
    costs: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
