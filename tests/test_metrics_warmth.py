"""What keeps models loaded and prefixes warm, and what slots do, as events tell it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import events
from gateway.events import ModelLoaded, ModelsKept, ModelUnloaded, Pinged, PrefixWarm, SlotsSeen, SnapshotDone, WarmupRan
from gateway.metrics import Metrics
from gateway.values import Usage
from tests.test_metrics import closed, read, total, value


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def hears(metrics: Metrics, *happened: Any) -> None:
    for event in happened:
        metrics.on_event(event)


def test_loads_unloads_and_how_long_they_took(metrics: Metrics) -> None:
    assert value(metrics, "model_loads_total", cause="keep") == 0
    hears(
        metrics, ModelLoaded("b", "m", "keep"), ModelLoaded("b", "m", "user", seconds=3.0), ModelUnloaded("b", "m", "expired")
    )
    hears(metrics, ModelLoaded("b", "m", "a cause of its own"))
    assert value(metrics, "model_loads_total", cause="keep") == 1
    assert value(metrics, "model_loads_total", cause="user") == 1
    assert value(metrics, "model_loads_total", cause="other") == 1
    assert value(metrics, "model_unloads_total", cause="expired") == 1
    assert value(metrics, "model_load_seconds_sum") == 3.0
    hears(
        metrics,
        Pinged("b", "m", "load", "ok", 5.0),
        Pinged("b", "m", "renew", "ok", 9.0),
        Pinged("b", "m", "load", "failed", 9.0),
    )
    assert value(metrics, "model_load_seconds_sum") == 8.0
    closed(metrics, reason="model_loaded", usage=Usage(prompt=10, cached=0, load_ms=2000.0))
    closed(metrics, reason="evicted", usage=Usage(prompt=10, cached=0, load_ms=2000.0))
    assert value(metrics, "model_load_seconds_sum") == 10.0


def test_pings_by_act_and_outcome(metrics: Metrics) -> None:
    assert value(metrics, "keepalive_pings_total", act="renew", outcome="failed") == 0
    hears(metrics, Pinged("b", "m", "renew", "failed", 1.0), events.KeepAliveOverridden("b", "m"))
    assert value(metrics, "keepalive_pings_total", act="renew", outcome="failed") == 1
    assert value(metrics, "keepalive_overridden_total") == 1


def test_models_that_ought_to_be_loaded_come_and_go(metrics: Metrics) -> None:
    hears(metrics, ModelsKept(frozenset({("b", "m"), ("c", "n")})))
    assert value(metrics, "model_kept", backend="b", model="m") == 1
    hears(metrics, ModelsKept(frozenset({("c", "n")})))
    assert value(metrics, "model_kept", backend="b", model="m") is None
    hears(metrics, events.BackendGone("c"))
    assert total(metrics, "model_kept") == 0


def test_warm_ups(metrics: Metrics) -> None:
    hears(metrics, WarmupRan("home", "b", "m", "prefilled", 4.0, 900), WarmupRan("home", "b", "m", "already_warm", 0.1))
    assert value(metrics, "warmup_runs_total", pin="home", outcome="prefilled") == 1
    assert value(metrics, "warmup_runs_total", pin="home", outcome="failed") == 0
    assert value(metrics, "warmup_seconds_count") == 1
    hears(metrics, PrefixWarm("home", "b", warm=True))
    assert value(metrics, "prefix_warm", pin="home", backend="b") == 1
    hears(metrics, PrefixWarm("learned", "b", warm=True))
    assert value(metrics, "prefix_warm", pin="learned", backend="b") is None
    hears(metrics, PrefixWarm("home", "b", warm=False))
    assert value(metrics, "prefix_warm", pin="home", backend="b") == 0
    hears(metrics, events.BackendGone("b"))
    assert value(metrics, "prefix_warm", pin="home", backend="b") is None


def seen(**fields: Any) -> SlotsSeen:
    pins = ("broken", "foreign", "unreadable")
    return SlotsSeen(**({"backend": "b", "states": {"warm": 2, "busy": 1}, "waiting": 3, "pins": pins} | fields))


def test_slots_and_why_they_are_not_pinned(metrics: Metrics) -> None:
    hears(metrics, seen(unpinned="foreign", unsaved=True))
    assert value(metrics, "slots", backend="b", state="warm") == 2
    assert value(metrics, "waiting", backend="b") == 3
    assert value(metrics, "pin_disabled", backend="b", reason="foreign") == 1
    assert value(metrics, "pin_disabled", backend="b", reason="broken") == 0
    assert value(metrics, "snapshots_disabled", backend="b") == 1
    hears(metrics, seen(states={}, pins=()))
    assert total(metrics, "slots") == 0
    assert value(metrics, "pin_disabled", backend="b", reason="foreign") is None
    assert value(metrics, "snapshots_disabled", backend="b") == 0


def test_snapshots(metrics: Metrics) -> None:
    assert value(metrics, "snapshots_total", op="restore", outcome="ok") == 0
    hears(
        metrics,
        SnapshotDone("b", "restore", "ok", 1000, 0.2),
        SnapshotDone("b", "restore", "gone"),
        SnapshotDone("b", "?", "ok"),
    )
    assert value(metrics, "snapshots_total", op="restore", outcome="ok") == 1
    assert value(metrics, "snapshots_total", op="restore", outcome="gone") == 1
    assert value(metrics, "snapshots_total", op="other", outcome="ok") == 1
    assert value(metrics, "snapshot_stall_seconds_count", op="restore") == 1
    hears(metrics, events.SnapshotsChanged("b", 4, 5000))
    assert value(metrics, "snapshot_bytes", backend="b") == 5000
    assert value(metrics, "snapshot_files", backend="b") == 4


def test_names_without_end_stay_bounded() -> None:
    metrics = Metrics(max_pairs=5)
    for number in range(1000):
        name = f"n{number}"
        hears(metrics, seen(backend=name), WarmupRan(name, name, name, "failed"), PrefixWarm(name, name, warm=True))
        hears(metrics, SnapshotDone(name, name, name), ModelsKept(frozenset((name, f"m{n}") for n in range(100))))
    assert len(read(metrics)) < 1000


def test_the_process_tells_its_memory(metrics: Metrics) -> None:
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 1e6
