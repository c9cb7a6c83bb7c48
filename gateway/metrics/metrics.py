"""What is measured, and by which events.

One writer: the event loop, through `on_event`. Any thread may `render`.

Labels are closed or bounded, so that no client can grow the process or the time series database: a model is a name that the
router has bounded already, (backend, model) pairs are capped, and past its limit every label says `other`. Never a path,
session, client or prefix. An unknown number is not a 0: what a backend does not report has no sample, or a label that says so.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, get_args

from prometheus_client import ProcessCollector, generate_latest

from gateway import __version__, events
from gateway.clock import Clock, SystemClock
from gateway.labels import OTHER, Names
from gateway.metrics.families import NONE, PREFIX, Bounds, Families
from gateway.metrics.seats import Seats
from gateway.metrics.warmth import Residency, Warmups
from gateway.values import REASONS, SAVERS, CacheReport, Probe, Record, Usage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

TTFT_BUCKETS = (.02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640)  # fmt: skip
TOKEN_BUCKETS = (.001, .0025, .005, .01, .015, .02, .03, .04, .05, .075, .1, .15, .2, .3, .5, 1, 2.5)  # fmt: skip
DURATION_BUCKETS = (.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280)  # fmt: skip
QUEUE_BUCKETS = (.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)  # fmt: skip
ERROR_BUCKETS = (.005, .01, .02, .04, .08, .16, .32, .64, 1)  # fmt: skip
OVERHEAD_BUCKETS = (.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1)  # fmt: skip

NEWEST_MESSAGE = 64
"""A prompt that missed no more tokens than this counts as a hit: its newest message was never there before."""

NOTE = "note"
"""The edit that adds what was moved; it is no find of a detector."""

MOST_TOKENS = 10**9  # in one request
NO_USAGE = Usage()

REPORTS: dict[CacheReport, str] = {"usage": "reported", "timings": "reported", "inferred": "inferred", "none": "unknown"}


def cache_class(usage: Usage) -> str:
    """hit: 90 % of the prompt or all but NEWEST_MESSAGE tokens were reused; miss: reported 0; unknown: not reported."""
    if usage.cached is None:
        return "unknown"
    if usage.cached <= 0:
        return "miss"
    if usage.prompt is None:
        return "partial"
    missed = usage.prompt - usage.cached
    return "hit" if 10 * missed <= usage.prompt or missed <= NEWEST_MESSAGE else "partial"


def bounded(tokens: int) -> int:
    """A count that a counter may take: backends may report anything, and one absurd number would spoil the counter for good."""
    return max(0, min(tokens, MOST_TOKENS))


class Metrics:
    """max_pairs: most (backend, model) pairs with series of their own (TTFT alone is 88 series a pair), and most backends."""

    def __init__(self, max_pairs: int = 25, *, version: str = __version__, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.families = families = Families()
        bounds = Bounds(max_pairs)
        self._backends, self._pairs = bounds.backends, bounds.pairs
        self._dialects, self._kinds, self._decisions, self._stages = Names(16), Names(8), Names(32), Names(16)
        self._rules, self._reasons = Names(48), Names(16)
        self._define_request_metrics(families)
        self._define_token_metrics(families)
        self._define_prefix_metrics(families)
        self._define_canonical_metrics(families)
        groups = (Residency(families, bounds), Warmups(families, bounds), Seats(families, bounds))
        self._define_state_metrics(families, version)
        families.add(ProcessCollector(namespace=PREFIX.rstrip("_"), registry=None))
        own: dict[type, Callable[[Any], None]] = {
            events.RequestStarted: lambda event: self._inflight.inc((self._backends(event.backend),)),
            events.RequestLeft: lambda event: self._inflight.inc((self._backends(event.backend),), -1),
            events.RequestClosed: lambda event: self._closed(event.record),
            events.BackendProbed: lambda event: self._probed(event.name, event.probe),
            events.BackendGone: lambda event: self._gone(event.name),
            events.CircuitChanged: lambda event: self._circuit(event.backend, event.open),
            events.Canonicalized: self._canonicalized,
            events.RewriteRejected: lambda _: self._rejected.inc(),
            events.IndexChanged: self._indexed,
            events.ConfigReloaded: self._reloaded,
        }
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}
        for handlers in (own, *(group.handlers for group in groups)):
            for kind, handler in handlers.items():
                self._handlers.setdefault(kind, []).append(handler)
        self._reloaded(events.ConfigReloaded(ok=True))

    @property
    def hears(self) -> tuple[type, ...]:
        """The types of event that mean something here."""
        return tuple(self._handlers)

    def on_event(self, event: Any) -> None:
        """Subscriber of gateway.events.Bus; what it does not know it ignores."""
        for handler in self._handlers.get(type(event), ()):
            handler(event)

    def render(self) -> bytes:
        """The exposition, of CONTENT_TYPE. Thread-safe; takes milliseconds, so that a worker thread should do it."""
        return generate_latest(self.families.registry)

    def _closed(self, record: Record) -> None:
        backend, model = self._pairs(record.backend or NONE, record.label)
        self._requests.inc((backend, model, self._dialects(record.dialect), self._kinds(record.kind), record.outcome))
        for stage, seconds in record.overhead.items():
            self._overhead.observe(seconds, (self._stages(stage),))
        if record.outcome == "cancelled":
            self._disconnects.inc()
        if record.backend is None:
            return
        if record.decision is not None:
            self._routes.inc((backend, self._decisions(record.decision)))
        self._queue.observe(record.queue, (backend,))
        if record.waited_for is not None:
            self._holds.observe(record.queue, (self._decisions(record.waited_for),))
        self._duration.observe(record.duration, (backend, model))
        if record.stream and record.ttft is not None:
            self._ttft.observe(record.ttft, (backend, model, cache_class(record.usage)))
        if record.first is not None or record.usage != NO_USAGE:
            self._answered(backend, model, record)
            self._explained(backend, model, record)

    def _answered(self, backend: str, model: str, record: Record) -> None:
        usage = record.usage
        source: CacheReport = "none" if usage.cached is None else usage.source
        self._cache_reports.inc((source,))
        if usage.prompt is not None:
            prompt = bounded(usage.prompt)
            self._prompt_tokens.inc((backend, model, REPORTS[source]), prompt)
            if usage.cached is not None:
                self._cached_tokens.inc((backend, model, REPORTS[source]), min(bounded(usage.cached), prompt))
        if usage.completion is None:
            return
        completion = bounded(usage.completion)
        self._completion_tokens.inc((backend, model), completion)
        if record.stream and record.ttft is not None and record.outcome == "ok" and completion > 1:
            self._token_time.observe((record.duration - record.ttft) / (completion - 1), (backend, model))

    def _explained(self, backend: str, model: str, record: Record) -> None:
        """What the prompt's reuse cost or saved, and how well it was predicted."""
        if record.reason is not None:
            self._misses.inc((backend, model, record.reason))
            self._lost.inc((record.reason,), max(0.0, record.lost_seconds or 0.0))
        for by, seconds in record.saved.items():
            if by in SAVERS and seconds > 0:
                self._saved.inc((by,), seconds)
        usage = record.usage
        if record.expected is not None and usage.cached is not None and usage.source != "inferred" and usage.prompt:
            self._prediction.observe(min(1.0, abs(record.expected - usage.cached) / usage.prompt))

    def _indexed(self, event: events.IndexChanged) -> None:
        self._nodes.set(event.nodes)
        self._working_set.set(event.tokens)

    def _probed(self, name: str, probe: Probe) -> None:
        backend = self._backends(name)
        if backend == OTHER:  # a state of several backends mixed would mean nothing
            return
        self._up.set(probe.up, (backend,))
        for series in (self._circuit_open, self._inflight):
            series.add(backend)

    def _circuit(self, name: str, is_open: bool) -> None:
        backend = self._backends(name)
        if backend != OTHER:
            self._circuit_open.set(is_open, (backend,))

    def _gone(self, name: str) -> None:
        backend = self._backends(name)
        for series in (self._up, self._circuit_open):
            series.keep(lambda labels: labels[0] != backend)

    def _canonicalized(self, event: events.Canonicalized) -> None:
        for rule, count in event.edits.items():
            self._edits.inc((self._rules(rule), "rewrite"), count)
        for rule in event.found:
            self._edits.inc((self._rules(rule), "observe"))
        for rule in {*event.edits, *event.found} - {NOTE}:
            self._volatile.inc((self._rules(rule),))
        if event.reason:
            self._untouched.inc((self._reasons(event.reason.partition(":")[0].replace(" ", "_")),))

    def _reloaded(self, event: events.ConfigReloaded) -> None:
        self._reload_ok.set(event.ok)
        if event.ok:
            self._reload_time.set(self._clock.wall())

    def _define_request_metrics(self, families: Families) -> None:
        families.section("Requests")
        self._requests = families.counter(
            "requests_total",
            f"Finished requests; backend={NONE} means that none was reached, outcome=cancelled that the client left.",
            *("backend", "model", "dialect", "kind", "outcome"),
        )
        self._inflight = families.gauge("inflight", "Requests that the backend works on now.", "backend")
        self._queue = families.histogram(
            "queue_seconds", "Wait in the gateway for a place at the backend.", QUEUE_BUCKETS, "backend"
        )
        self._holds = families.histogram(
            "hold_seconds", "Requests that had to wait, by what they waited for at last.", QUEUE_BUCKETS, "decision"
        )
        self._ttft = families.histogram(
            "time_to_first_token_seconds",
            "Client streams: from the request read completely to the first content, reasoning or tool call. cache: hit (at "
            f"least 90 % of the prompt, or all but {NEWEST_MESSAGE} tokens, were reused), partial, miss (the backend reported "
            "0), unknown (not reported).",
            TTFT_BUCKETS,
            *("backend", "model", "cache"),
        )
        self._token_time = families.histogram(
            "time_per_output_token_seconds",
            "Client streams that ended well: mean time between output tokens after the first.",
            TOKEN_BUCKETS,
            *("backend", "model"),
        )
        self._duration = families.histogram(
            "request_duration_seconds",
            "From the request read completely to the last byte for the client, however it ended.",
            DURATION_BUCKETS,
            *("backend", "model"),
        )
        self._overhead = families.histogram(
            "overhead_seconds", "The gateway's own time before it asks the backend, by stage.", OVERHEAD_BUCKETS, "stage"
        )
        self._routes = families.counter("routes_total", "Routed requests by why the backend was chosen.", "backend", "decision")
        self._disconnects = families.counter("client_disconnects_total", "Requests whose client left before the end.")

    def _define_token_metrics(self, families: Families) -> None:
        families.section("Tokens")
        self._prompt_tokens = families.counter(
            "prompt_tokens_total",
            "Prompt tokens, reused ones included. report: whether the backend said how many were reused (reported), they were "
            "inferred from times (inferred), or nobody knows (unknown). Reuse ratio: "
            'prompt_tokens_cached_total{report="reported"} / prompt_tokens_total{report="reported"}.',
            *("backend", "model", "report"),
        )
        self._cached_tokens = families.counter(
            "prompt_tokens_cached_total",
            "Prompt tokens that were reused from a cache; divide by prompt_tokens_total of the same report, never by all.",
            *("backend", "model", "report"),
        )
        self._completion_tokens = families.counter("completion_tokens_total", "Tokens generated.", "backend", "model")
        self._cache_reports = families.counter(
            "cache_reports_total", "Answers by where their cached-token count came from; none: not reported.", "source"
        )

    def _define_canonical_metrics(self, families: Families) -> None:
        families.section("Canonical form")
        self._edits = families.counter(
            "canonical_edits_total",
            "Places in prompts that a rule of the canonical form changed (rewrite) or would have changed (observe).",
            *("rule", "action"),
        )
        self._volatile = families.counter(
            "volatile_found_total", "Prompts in which a detector found text that changes between requests.", "detector"
        )
        self._untouched = families.counter(
            "canonical_untouched_total",
            "Prompts that went out as the client sent them although something was found, by the reason for it.",
            "reason",
        )
        self._rejected = families.counter(
            "rewrite_rejected_total", "Edited prompts that a backend refused and took as the client had sent them."
        )

    def _define_prefix_metrics(self, families: Families) -> None:
        families.section("Prefixes")
        self._misses = families.counter(
            "cache_misses_total",
            "Answers for which prompt tokens were computed that could have been reused, by why; first_seen and side_request "
            f"are prompts of which nothing could be. reason: one of {', '.join(REASONS)}.",
            *("backend", "model", "reason"),
        )
        self._lost = families.counter(
            "prefill_seconds_lost_total",
            "Time that servers spent on those tokens, by the learned prefill rate; a reason is one of cache_misses_total.",
            "reason",
        )
        self._saved = families.counter(
            "prefill_seconds_saved_total",
            "Time that servers did not spend because tokens were reused, by the learned prefill rate. by: server (the client's "
            "own bytes would have hit as well), canonical, placement, snapshot, warmup (the gateway made them hit).",
            "by",
        )
        self._prediction = families.histogram(
            "prediction_error_ratio",
            "Tokens between the expected and the reported reuse of a prompt, as a share of the prompt.",
            ERROR_BUCKETS,
        )
        self._nodes = families.gauge("index_nodes", "Digests in the index of prefixes; at most 50,000.")
        self._working_set = families.gauge(
            "working_set_tokens",
            "Tokens of all different prefixes that were used in the last day, once for each model on a backend; an estimate "
            "from their characters. Above what the servers can hold, prefixes are evicted.",
        )
        for source in get_args(CacheReport):
            self._cache_reports.add(source)
        for reason in REASONS:
            self._lost.add(reason)
        for by in SAVERS:
            self._saved.add(by)

    def _define_state_metrics(self, families: Families, version: str) -> None:
        families.section("Backends and the gateway itself")
        self._up = families.gauge("backend_up", "1 if the backend answered its last probe and is not loading.", "backend")
        self._circuit_open = families.gauge("circuit_open", "1 while failures keep requests away from the backend.", "backend")
        self._reload_ok = families.gauge(
            "config_last_reload_successful", "1 if the configuration was last loaded without error."
        )
        self._reload_time = families.gauge(
            "config_last_reload_success_timestamp_seconds", "When a configuration was last loaded successfully."
        )
        families.gauge("build_info", "Always 1; what runs.", "version", "python").set(1, (version, platform.python_version()))
