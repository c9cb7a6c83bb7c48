"""Numbers by their label values: written by the event loop as plain dicts, and made into Prometheus's families when asked.

The library's own numbers take a lock, check what they are given and are looked up at each step, for any number of writers; here
there is one. A copy of a dict or list is one step for the interpreter, so that any thread may `collect`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Labels = tuple[str, ...]
"""Values in the order in which the series names its labels."""


class Numbers(Collector):
    """One number for each combination of label values; a series without labels begins at 0."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str) -> None:
        """Make sure that the number exists: an alert cannot see a 0 that was never exposed."""
        self._values.setdefault(labels, 0.0)

    def inc(self, labels: Labels = (), by: float = 1.0) -> None:
        self._values[labels] = self._values.get(labels, 0.0) + by

    def collect(self) -> Iterator[Metric]:
        family = self.family(self.name, self.text, labels=self.labels)
        for labels, value in self._values.copy().items():
            family.add_metric(labels, value)
        yield family


class Counter(Numbers):
    family = CounterMetricFamily


class Gauge(Numbers):
    family = GaugeMetricFamily

    def set(self, value: float, labels: Labels = ()) -> None:
        self._values[labels] = value

    def keep(self, wanted: Callable[[Labels], bool]) -> None:
        """Remove all other numbers."""
        for labels in [labels for labels in self._values if not wanted(labels)]:
            del self._values[labels]


class Histogram(Collector):
    """buckets: upper bounds, ascending; one more, without a bound, is added."""

    def __init__(self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._bounds = tuple(buckets)
        self._words: list[str] = [floatToGoString(bound) for bound in (*buckets, float("inf"))]  # type: ignore[no-untyped-call]
        self._rows: dict[Labels, list[float]] = {} if labels else {(): self._row()}

    def observe(self, value: float, labels: Labels = ()) -> None:
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = self._row()
        row[bisect_left(self._bounds, value)] += 1
        row[-1] += value

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self.name, self.text, labels=self.labels)
        for labels, row in self._rows.copy().items():
            *counts, total = row.copy()
            family.add_metric(labels, list(zip(self._words, accumulate(counts), strict=True)), total)
        yield family

    def _row(self) -> list[float]:
        """What fell into each bucket, and the sum of all."""
        return [0.0] * (len(self._bounds) + 2)
