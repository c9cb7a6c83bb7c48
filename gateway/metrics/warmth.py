"""Metrics of what is kept loaded and warm: models, pings, warm-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway import events
from gateway.labels import LONGEST, OTHER
from gateway.logs import printable
from gateway.metrics.families import Bounds, Families
from gateway.metrics.series import Gauge
from gateway.values import Probe

LOAD_BUCKETS = (.25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)  # fmt: skip
WARMUP_BUCKETS = (.05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)  # fmt: skip

LOAD_CAUSES = ("user", "keep", "warmup", "unknown")
UNLOAD_CAUSES = ("expired", "client", "release", "evicted", "unknown")
PINGS = tuple((act, outcome) for act in ("load", "renew", "unload") for outcome in ("ok", "failed"))
LEARNED = "learned"
"""The name that all prefixes share that were learned from traffic; what is true of one of them is not of the others."""

WARMED = ("prefilled", "restored", "already_warm", "interrupted", "failed", "skipped")


class Residency:
    """What is loaded where, by the probes; what loads and unloads it."""

    def __init__(self, families: Families, bounds: Bounds) -> None:
        self._bounds = bounds
        families.section("Residency")
        self._resident = families.gauge(
            "model_resident", "1 if the model is loaded, 0 if not; absent if the backend does not tell.", "backend", "model"
        )
        self._resident_bytes = families.gauge("model_resident_bytes", "Memory that the model takes.", "backend", "model")
        self._expires = families.gauge(
            "model_expires_timestamp_seconds", "When the backend will unload the model; +Inf: never.", "backend", "model"
        )
        self._kept = families.gauge(
            "model_kept",
            "1 for each model that the configuration wants loaded now: in its hours, and not released.",
            *("backend", "model"),
        )
        self._loads = families.counter(
            "model_loads_total",
            "Models that came to be loaded. cause: user (a request wanted it), keep (the configuration does), warmup, unknown.",
            "cause",
        )
        self._unloads = families.counter(
            "model_unloads_total",
            f"Models that are not loaded any more. cause: one of {', '.join(UNLOAD_CAUSES)}.",
            "cause",
        )
        self._load_time = families.histogram(
            "model_load_seconds",
            "Time that loading a model took: as the server tells it where a request waited for that, else until the server "
            "answered the gateway that it is loaded.",
            LOAD_BUCKETS,
        )
        self._pings = families.counter(
            "keepalive_pings_total",
            "Times that a server was told to load a model, or for how long to keep it (renew), or to unload it.",
            *("act", "outcome"),
        )
        self._overridden = families.counter(
            "keepalive_overridden_total", "Requests whose own keep_alive or ttl was shorter than the policy's and was raised."
        )
        for cause in LOAD_CAUSES:
            self._loads.add(cause)
        for cause in UNLOAD_CAUSES:
            self._unloads.add(cause)
        for act, outcome in PINGS:
            self._pings.add(act, outcome)
        self.handlers: dict[type, Callable[[Any], None]] = {
            events.BackendProbed: lambda event: self._probed(event.name, event.probe),
            events.BackendGone: lambda event: self._gone(event.name),
            events.RequestClosed: self._closed,
            events.ModelLoaded: self._loaded,
            events.ModelUnloaded: lambda event: self._unloads.inc((_known(event.cause, UNLOAD_CAUSES),)),
            events.ModelsKept: self._keeps,
            events.Pinged: self._pinged,
            events.KeepAliveOverridden: lambda _: self._overridden.inc(),
        }

    def _probed(self, name: str, probe: Probe) -> None:
        backend = self._bounds.backends(name)
        if backend == OTHER:  # a state of several backends mixed would mean nothing
            return
        known = [model for model in probe.models if model.resident is not None]
        shown = sorted(known, key=lambda model: not model.resident)[: self._bounds.limit]
        self._show(self._resident, backend, {model.name: float(bool(model.resident)) for model in shown})
        self._show(self._resident_bytes, backend, {model.name: model.resident_bytes for model in shown})
        self._show(self._expires, backend, {model.name: model.expires for model in shown})

    def _show(self, series: Gauge, backend: str, values: Mapping[str, float | None]) -> None:
        """Set the gauges of this backend's models and remove those of models that have gone or no longer tell."""
        current = {(backend, printable(name, LONGEST)): value for name, value in values.items() if value is not None}
        for labels, value in current.items():
            series.set(value, labels)
        series.keep(lambda labels: labels[0] != backend or labels in current)

    def _gone(self, name: str) -> None:
        backend = self._bounds.backends(name)
        for series in (self._resident, self._resident_bytes, self._expires, self._kept):
            series.keep(lambda labels: labels[0] != backend)

    def _keeps(self, event: events.ModelsKept) -> None:
        current = {(self._bounds.backends(backend), printable(model, LONGEST)) for backend, model in event.models}
        current = set(sorted(pair for pair in current if pair[0] != OTHER)[: self._bounds.limit])
        for pair in current:
            self._kept.set(1, pair)
        self._kept.keep(lambda labels: labels in current)

    def _loaded(self, event: events.ModelLoaded) -> None:
        self._loads.inc((_known(event.cause, LOAD_CAUSES),))
        if event.seconds is not None:
            self._load_time.observe(event.seconds)

    def _closed(self, event: events.RequestClosed) -> None:
        load = event.record.usage.load_ms
        if event.record.reason == "model_loaded" and load is not None:
            self._load_time.observe(load / 1000)

    def _pinged(self, event: events.Pinged) -> None:
        if (event.act, event.outcome) in PINGS:
            self._pings.inc((event.act, event.outcome))
        if (event.act, event.outcome) == ("load", "ok"):
            self._load_time.observe(event.seconds)


class Warmups:
    """Prefixes that the gateway has read ahead."""

    def __init__(self, families: Families, bounds: Bounds) -> None:
        self._bounds = bounds
        families.section("Warm-ups")
        self._runs = families.counter(
            "warmup_runs_total",
            f"Warm-ups of a prefix. pin: one of the configuration, or {LEARNED} for all that were learned from traffic; "
            f"outcome: one of {', '.join(WARMED)}; interrupted: a user's request wanted the server.",
            *("pin", "outcome"),
        )
        self._time = families.histogram(
            "warmup_seconds", "Time that a warm-up took, if it prefilled or restored anything.", WARMUP_BUCKETS
        )
        self._warm = families.gauge(
            "prefix_warm", "1 while a pin of the configuration is believed to be in a cache of the backend.", "pin", "backend"
        )
        self.handlers: dict[type, Callable[[Any], None]] = {
            events.WarmupRan: self._ran,
            events.PrefixWarm: self._is_warm,
            events.BackendGone: self._gone,
        }

    def _ran(self, event: events.WarmupRan) -> None:
        pin = self._bounds.pins(event.pin)
        self._runs.add(pin, "failed")
        self._runs.inc((pin, _known(event.outcome, WARMED)))
        if event.outcome in ("prefilled", "restored"):
            self._time.observe(event.seconds)

    def _is_warm(self, event: events.PrefixWarm) -> None:
        pin, backend = self._bounds.pins(event.pin), self._bounds.backends(event.backend)
        if OTHER not in (pin, backend) and pin != LEARNED:
            self._warm.set(event.warm, (pin, backend))

    def _gone(self, event: events.BackendGone) -> None:
        backend = self._bounds.backends(event.name)
        self._warm.keep(lambda labels: labels[1] != backend)


def _known(word: str, words: tuple[str, ...]) -> str:
    """The word, if it is one of a closed set."""
    return word if word in words else OTHER
