"""Metrics of a gateway whose servers do all that a single llama.cpp server cannot do in a short test: told by events alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway import events
from gateway.metrics import CONTENT_TYPE, Metrics
from gateway.values import CacheReport, Client, ModelInfo, Probe, Record, Usage

PINS = ("broken", "foreign", "unreadable")

RECORD = Record(
    id="r1", started=1e9, dialect="openai", path="/v1/chat/completions", backend="ollama", model="big", label="big",
    kind="main", client=Client("127.0.0.1", "agent/1"), stream=True, status=200, outcome="ok", decision="warm",
    first="content", ttft=0.3, ttfb=0.1, queue=0.2, duration=2.3, overhead={"parse": 0.0002}, expected=900,
    usage=Usage(prompt=1000, cached=800, completion=101, source="usage"),
)  # fmt: skip


def everything(wall: float) -> list[Any]:
    """One of each event, as if a second had passed. wall: seconds since the epoch."""
    inferred: CacheReport = "inferred"
    records = (
        RECORD,
        replace(RECORD, usage=Usage(prompt=1000, cached=0, completion=50, source="usage"), reason="evicted", lost_seconds=1.0),
        replace(
            RECORD,
            usage=Usage(prompt=1000, cached=990, completion=50, source="timings"),
            saved={"canonical": 1.0, "server": 2.0},
        ),
        replace(RECORD, usage=Usage(prompt=1000, cached=500, completion=50, source=inferred)),
        replace(RECORD, usage=Usage(prompt=1000, cached=0, load_ms=4000.0, source="usage"), reason="model_loaded"),
        replace(RECORD, usage=Usage(prompt=1000)),
        replace(RECORD, outcome="cancelled", waited_for="wait_warm"),
    )
    model = ModelInfo("big", resident=True, resident_bytes=8 << 30, expires=wall + 300)
    return [
        *map(events.RequestClosed, records),
        events.RequestStarted("r", "ollama"),
        events.RequestLeft("r", "ollama"),
        events.BackendProbed("ollama", Probe("ollama", up=True, models=(model,)), 0.01),
        events.CircuitChanged("ollama", open=False),
        events.ModelsKept(frozenset({("ollama", "big")})),
        events.ModelLoaded("ollama", "big", "user"),
        events.ModelUnloaded("ollama", "big", "expired"),
        events.Pinged("ollama", "big", "load", "ok", 3.0),
        events.KeepAliveOverridden("ollama", "big"),
        events.WarmupRan("home", "ollama", "big", "prefilled", 2.0, 900),
        events.PrefixWarm("home", "ollama", warm=True),
        events.SlotsSeen("ollama", {"warm": 1, "busy": 1}, 2, PINS, "foreign", unsaved=True),
        events.SnapshotDone("ollama", "save", "ok", 1 << 20, 0.2),
        events.SnapshotsChanged("ollama", 3, 3 << 20),
        events.Canonicalized({"clock": 1}, ("ids",), "unsure: of a place"),
        events.RewriteRejected(),
        events.IndexChanged(100, 50_000),
        events.ConfigReloaded(ok=True),
    ]


def application(clock: Any) -> web.Application:
    """Serves /metrics; each time that it is asked for, everything has happened once more."""
    metrics = Metrics()

    async def scrape(_: web.Request) -> web.Response:
        for event in everything(clock()):
            metrics.on_event(event)
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return app
