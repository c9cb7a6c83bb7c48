"""Frozen values that travel between the floors. No behaviour beyond derived properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

First = Literal["content", "reasoning", "tool_call"]
"""What the first content-bearing event of a reply carried."""

Outcome = Literal["ok", "client_error", "refused", "upstream_error", "timeout", "cancelled", "internal_error"]
"""How a request ended. `client_error`: the backend answered 4xx; `refused`: the gateway did; `cancelled`: the client left."""

OUTCOMES: tuple[Outcome, ...] = ("ok", "client_error", "refused", "upstream_error", "timeout", "cancelled", "internal_error")

Reason = Literal[
    "first_seen", "system_changed", "tools_changed", "history_changed", "params_changed", "window_slide", "evicted",
    "slot_moved", "backend_moved", "model_loaded", "backend_restarted", "engine_limit", "side_request", "unknown",
]  # fmt: skip
"""Why a prompt was computed again that could have been reused."""

REASONS: tuple[Reason, ...] = get_args(Reason)

SAVERS = ("server", "canonical", "placement", "snapshot", "warmup")
"""What prefill may be saved by: the server's own cache with the client's own bytes, or something that the gateway did."""

CacheReport = Literal["usage", "timings", "inferred", "none"]
"""Where a cached-token count came from. `none` is *not reported*, which is neither 0 nor a miss."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who is asking. `key` is a short digest of the API key that was sent (never the key itself), or ''."""

    address: str
    agent: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one reply. None means *not reported*, which is different from 0 everywhere.

    prompt: all prompt tokens, cached ones included; cached: prompt tokens that were reused; completion: tokens generated;
    prefill_ms: time the server says that it spent on the uncached part; load_ms: on loading the model, and waiting for that.
    """

    prompt: int | None = None
    cached: int | None = None
    completion: int | None = None
    prefill_ms: float | None = None
    source: CacheReport = "none"
    load_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request for an answer, as the client sent it.

    dialect: name of the API; path: without query; raw: the client's own bytes; body: those bytes parsed, or None when only
    a lenient parser reads them (then nothing may be rewritten); model: as the client wrote it, None if it named none;
    decoded: the client had compressed the body, raw is the plain form.
    """

    id: str
    dialect: str
    path: str
    query: str
    raw: bytes
    body: Mapping[str, Any] | None
    model: str | None
    stream: bool
    client: Client
    kind: Literal["main", "side"] = "main"
    headers: Mapping[str, str] = field(default_factory=dict)
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model as a backend lists it. context: tokens or None; resident: None where the server does not tell.

    resident_bytes and expires (seconds since the epoch, inf = never) are None where unknown. rows: the backend's own list
    entries, by the path of the list that they came from (`/v1/models`, `/api/tags`...), so that merged lists lose nothing.
    """

    name: str
    context: int | None = None
    resident: bool | None = None
    resident_bytes: int | None = None
    expires: float | None = None
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probe:
    """What one look at a backend found. It never runs, loads or wakes a model.

    up: it answers and is not loading; loading: it answers 503 "loading"; problem: a sentence when something is wrong;
    single_model: it ignores the model name of a request; slots: requests that it works on at once, None if it does not tell;
    mark: changes whenever the server process is a new one; sleeping: weights and KV cache are dropped until the next request.
    """

    kind: str
    up: bool
    loading: bool = False
    problem: str | None = None
    version: str | None = None
    models: tuple[ModelInfo, ...] = ()
    single_model: bool = False
    slots: int | None = None
    mark: str | None = None
    sleeping: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A model on a backend. `model` is the backend's own name for it; None leaves the client's bytes as they are."""

    backend: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """Where a call goes: candidates in the order of preference, and why the first one was preferred."""

    targets: tuple[Target, ...]
    decision: str
    label: str  # the model's name in metrics: from the config or a backend's list, else "other"


@dataclass(frozen=True, slots=True)
class Record:
    """One finished request, as metrics, log and status page see it. No prompt text.

    Times are seconds. From the moment when the request had been read completely: ttft (to the first content-bearing event;
    None unless the client asked for a stream and content came), ttfb (to the upstream headers), duration (to the last byte for
    the client). Besides: queue (waiting for a place), overhead (the gateway's own time before it sent the request, by stage).

    session, route: short digests, "" where there was no prompt to look at; expected: prompt tokens that were expected to be
    reused when it was sent, None where that is unknown; reason: why more was computed than had to be, None if nothing was lost,
    with the section of the prompt that it concerns and its cost; saved: seconds of prefill saved, by SAVERS; edits: by rule.

    slot: that it was expected to get, None where that is not known; waited_for: what it was held for at last, None if it was
    not; costs: of the place that was chosen, in milliseconds by term; reasons: why it was chosen, in words.
    """

    id: str
    started: float  # wall clock
    dialect: str
    path: str
    backend: str | None
    model: str | None  # as the client wrote it
    label: str  # bounded name for metrics
    kind: str
    client: Client
    stream: bool
    status: int
    outcome: Outcome
    decision: str | None = None
    first: First | None = None
    ttft: float | None = None
    ttfb: float | None = None
    queue: float = 0.0
    duration: float = 0.0
    overhead: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    retries: int = 0
    error: str | None = None  # code of the error, if any
    session: str = ""
    route: str = ""
    expected: int | None = None
    reason: Reason | None = None
    section: str | None = None
    lost_tokens: int | None = None
    lost_seconds: float | None = None
    saved: Mapping[str, float] = field(default_factory=dict)
    edits: Mapping[str, int] = field(default_factory=dict)
    slot: int | None = None
    waited_for: str | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
