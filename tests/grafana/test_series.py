"""How many series there can be, and what a scrape of them costs."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gateway import events
from gateway.metrics import Metrics
from gateway.routing.decisions import DECISIONS
from gateway.values import OUTCOMES, REASONS, SAVERS, CacheReport, ModelInfo, Probe, Usage
from tests.grafana.invented import PINS, RECORD, everything
from tests.support.clients import Response
from tests.support.front import front

MOST_SERIES = 5000
MOST_SECONDS = 0.120  # of a processor, for a scrape
MOST_DELAY = 0.015  # seconds that the event loop may stand still meanwhile
TRIES = 7

REPORTS: tuple[tuple[CacheReport, int | None], ...] = (
    ("usage", 0), ("usage", 500), ("timings", 990), ("inferred", 500), ("none", None),
)  # fmt: skip
DIALECTS = ("openai", "anthropic", "ollama", "responses")


def busy() -> Metrics:
    """After a run with 20 models on 5 backends, 4 each, and 10,000 names that clients made up."""
    metrics = Metrics()
    for event in everything(1e9):
        metrics.on_event(event)
    metrics.on_event(events.BackendGone("ollama"))
    for backend in range(5):
        models = [f"model-{backend}-{number}" for number in range(4)]
        infos = tuple(ModelInfo(model, resident=True, resident_bytes=1 << 30, expires=2e9) for model in models)
        metrics.on_event(events.BackendProbed(f"backend-{backend}", Probe("ollama", up=True, models=infos), 0.01))
        metrics.on_event(
            events.SlotsSeen(f"backend-{backend}", dict.fromkeys(("empty", "warm", "busy", "draining", "foreign"), 1), 1, PINS)
        )
        metrics.on_event(events.SnapshotsChanged(f"backend-{backend}", 1, 1))
        for model in models:
            _works(metrics, f"backend-{backend}", model)
    draw = random.Random(1)
    for number in range(10_000):
        name = f"made-up-{draw.getrandbits(48):x}"
        metrics.on_event(events.RequestClosed(replace(RECORD, label=name, backend=f"backend-{number % 5}")))
        metrics.on_event(events.RequestClosed(replace(RECORD, label="other", backend=None, outcome="refused")))
    return metrics


def _works(metrics: Metrics, backend: str, model: str) -> None:
    """Everything that a pair of backend and model is likely to see: two APIs, each way to end, each reason to miss."""
    for number, outcome in enumerate(OUTCOMES):
        metrics.on_event(events.RequestClosed(replace(RECORD, backend=backend, label=model, outcome=outcome)))
        dialect = DIALECTS[number % 4]
        metrics.on_event(events.RequestClosed(replace(RECORD, backend=backend, label=model, outcome="ok", dialect=dialect)))
    for source, cached in REPORTS:
        usage = Usage(prompt=1000, cached=cached, completion=20, source=source)
        metrics.on_event(events.RequestClosed(replace(RECORD, backend=backend, label=model, usage=usage, kind="side")))
    for reason in REASONS:
        metrics.on_event(events.RequestClosed(replace(RECORD, backend=backend, label=model, reason=reason, lost_seconds=1.0)))
    for number, decision in enumerate(DECISIONS):
        saved = {SAVERS[number % len(SAVERS)]: 1.0}
        metrics.on_event(events.RequestClosed(replace(RECORD, backend=backend, label=model, decision=decision, saved=saved)))


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return busy()


def lines(metrics: Metrics) -> list[str]:
    return [line for line in metrics.render().decode().splitlines() if not line.startswith("#")]


def test_series_are_bounded(metrics: Metrics) -> None:
    shown = lines(metrics)
    assert 3000 < len(shown) <= MOST_SERIES  # fewer would mean that the run has not been what it claims to be
    assert sum('model="made-up-' in line for line in shown) < MOST_SERIES / 10
    assert 'model="other"' in "\n".join(shown)
    assert {f'model="model-{backend}-{number}"' in "\n".join(shown) for backend in range(5) for number in range(4)} == {True}


@pytest.mark.alone
async def test_what_a_scrape_costs(metrics: Metrics) -> None:
    """The time of the thread's own processor, because other processes share the machine."""

    def scrape() -> float:
        began = time.thread_time()
        metrics.render()
        return time.thread_time() - began

    taken = [await asyncio.to_thread(scrape) for _ in range(TRIES)]
    assert statistics.median(taken) <= MOST_SECONDS, taken


@pytest.mark.alone
async def test_no_stream_waits_for_a_scrape(metrics: Metrics, tmp_path: Path) -> None:
    """How late the gateway's event loop wakes while somebody asks for /metrics: so long an event of a stream would wait.

    What else runs on the machine only adds to that, so the quietest of some tries counts.
    """
    async with front(tmp_path) as gateway:
        gateway.app.gateway.metrics = metrics
        worst = [await latest(asyncio.create_task(gateway.ask("/metrics"))) for _ in range(3 * TRIES)]
    assert min(worst) <= MOST_DELAY, worst


async def latest(until: asyncio.Task[Response]) -> float:
    """The most seconds by which the loop wakes late until the task is done."""
    worst = 0.0
    while not until.done():
        due = time.perf_counter() + 0.001
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - due)
    assert len(until.result().body) > 100_000
    return worst
