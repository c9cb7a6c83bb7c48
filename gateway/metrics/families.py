"""Where metrics are defined: each once, with its prefix, in the section of the documentation that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from gateway.labels import Names, Pairs
from gateway.metrics.series import Counter, Gauge, Histogram

PREFIX = "warmgate_"

NONE = "none"
"""The backend of a request that reached none."""

Series = Counter | Gauge | Histogram
S = TypeVar("S", Counter, Gauge, Histogram)


class Families:
    """sections: heading -> what is defined under it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sections: dict[str, list[Series]] = {}

    def section(self, heading: str) -> None:
        """What is defined next belongs under this heading."""
        self.sections[heading] = []

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        return self._registered(Counter(PREFIX + name, text, labels))

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return self._registered(Gauge(PREFIX + name, text, labels))

    def histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return self._registered(Histogram(PREFIX + name, text, buckets, labels))

    def add(self, collector: Collector) -> None:
        """Metrics that are not of this project's own."""
        self.registry.register(collector)

    def _registered(self, series: S) -> S:
        self.registry.register(series)
        next(reversed(self.sections.values())).append(series)
        return series


class Bounds:
    """The label values that all metrics share. limit: most (backend, model) pairs, and most backends."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.backends = Names(limit, NONE)
        self.pairs = Pairs(limit, self.backends)
        self.pins = Names(64)
