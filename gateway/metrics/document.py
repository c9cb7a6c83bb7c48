"""docs/metrics.md, made of the metrics themselves."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.metrics.families import PREFIX, Series
from gateway.metrics.metrics import Metrics
from gateway.metrics.series import Counter, Gauge

INTRODUCTION = """\
# Metrics

`/metrics` of the admin port (`admin.listen`, 127.0.0.1:8485 if nothing else is said) needs no token and tells, in Prometheus's
text format, what follows. [Dashboards](dashboards.md) and alerts made of it are in `grafana/`.

- No label comes from a client without a bound: a model is one of the configuration or of a backend's own list, else `other`.
  Past `metrics.max_pairs` pairs of backend and model, later ones are `other` too. Prompts, sessions, clients and paths are in
  no label.
- What is not known is not 0: what a backend does not tell has no sample, or a label that says so (`cache="unknown"`,
  `report="unknown"`).
- Counters that alerts look at begin at 0, so that the first increase is seen.
- A histogram has the series `_bucket`, `_sum` and `_count`.

This page is written by `python -m gateway.metrics > docs/metrics.md`.
"""

PROCESS = """
## The process

Those of every program that the Prometheus client library measures, on Linux: `{0}process_cpu_seconds_total`,
`{0}process_resident_memory_bytes`, `{0}process_virtual_memory_bytes`, `{0}process_start_time_seconds`,
`{0}process_open_fds`, `{0}process_max_fds`.

## What is not here

How many tokens the servers' caches can hold. llama.cpp bounds its cache in memory by bytes and does not tell it, Ollama and
LM Studio tell nothing of theirs. Whether the working set is too large shows by
`warmgate_prefill_seconds_lost_total{{reason="evicted"}}`.
"""


def document() -> str:
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for heading, defined in Metrics().families.sections.items():
        yield f"\n## {heading}\n\n| Metric | Type | Labels | |\n|---|---|---|---|\n"
        yield from (f"| `{one.name}` | {_kind(one)} | {_labels(one)} | {one.text} |\n" for one in defined)
    yield PROCESS.format(PREFIX)


def _kind(series: Series) -> str:
    return "counter" if isinstance(series, Counter) else "gauge" if isinstance(series, Gauge) else "histogram"


def _labels(series: Series) -> str:
    return ", ".join(f"`{label}`" for label in series.labels) or "-"
