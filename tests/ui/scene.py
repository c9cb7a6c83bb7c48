"""A gateway with a morning behind it: two backends, finished requests of every kind, and what explains them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway import config as configuration
from gateway.events import RequestClosed, RequestStarted
from gateway.server.app import App
from gateway.server.gateway import Gateway
from gateway.values import Client, Record, Usage
from tests.support.process import free_port

HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
"""A name that a client may choose."""

BEFORE = "You are Pelle.\nWorking directory: /home/mira/lab\nCurrent time: 2026-10-02 09:15:33\nBe brief."
AFTER = "You are Pelle.\nWorking directory: /home/mira/lab\nCurrent time: 2026-10-02 09:16:41\nBe brief."


def record(id: str, ago: float = 0.0, **changes: Any) -> Record:
    """A warm stream that ended well `ago` seconds ago."""
    base = Record(
        id=id, started=time.time() - ago, dialect="openai", path="/v1/chat/completions", backend="desk", model="qwen3:8b",
        label="qwen3:8b", kind="main", client=Client("127.0.0.1", "opencode/1.2"), stream=True, status=200, outcome="ok",
        decision="warm", first="content", ttft=0.31, ttfb=0.02, duration=4.2, overhead={"parse": 0.0004},
        usage=Usage(12_400, 12_210, 96, None, "usage"), session="8f2a91", route="5c01", expected=12_200,
        saved={"server": 2.1, "canonical": 7.4}, edits={"clock": 1},
    )  # fmt: skip
    return replace(base, **changes)


def explanation(id: str, **changes: Any) -> dict[str, Any]:
    """Why a request with a clock in its system text missed, with its text kept."""
    return {
        "id": id,
        "reason": "system_changed",
        "sentence": "The system text changed at byte 62: a time of day that is new with each request.",
        "compared_with": "warm-1",
        "sections": [
            {"name": "tools", "tokens": 4200, "reused": 4200},
            {"name": "identity", "tokens": 2600, "reused": 640},
            {"name": "memory", "tokens": 900, "reused": 0},
            {"name": "history", "tokens": 4500, "reused": 0},
            {"name": "newest message", "tokens": 200, "reused": 0},
        ],
        "difference": {"section": "identity", "offset": 62, "exact": True, "within": 0, "before": BEFORE, "after": AFTER},
        "lost": {"tokens": 7560, "seconds": 8.4},
        "detector": "clock",
        "fix": {"text": "Let the gateway move it out of the way.", "config": "canonical: { mode: rewrite }"},
    } | {"id": id, **changes}


COLD = {
    "ttft": 8.9,
    "usage": Usage(12_400, 4_840, 120, None, "usage"),
    "reason": "system_changed",
    "section": "identity",
    "lost_tokens": 7560,
    "lost_seconds": 8.4,
    "saved": {},
    "edits": {},
}


def add(gateway: Gateway, finished: Record, explained: dict[str, Any] | None = None) -> None:
    """What the gateway does when a request has ended."""
    gateway.log.add(finished, None if explained is None else lambda: explained)
    gateway.bus.publish(RequestClosed(finished))


def start(gateway: Gateway, id: str, number: int) -> None:
    gateway.bus.publish(RequestStarted(id, "desk", number))


def fill(gateway: Gateway) -> None:
    """A morning's worth of requests, the cold one "cold-1" among them, and one with hostile names."""
    for index in range(24):
        usage = Usage(9000 + 200 * index, 8900 + 190 * index, 90, None, "usage")
        add(gateway, record(f"warm-{index}", 3000 - 100 * index, ttft=0.2 + 0.02 * index, usage=usage))
    first = Usage(11_000, 0, 90, None, "usage")
    add(gateway, record("first-1", 3100, ttft=11.2, usage=first, reason="first_seen", saved={}, expected=0, session="77ab03"))
    add(gateway, record("cold-1", 600, **COLD), explanation("cold-1"))
    add(gateway, record("cold-2", 500, **COLD), explanation("cold-2", difference=None, fix=None, detector=None))
    tools = {**COLD, "reason": "tools_changed", "section": "tools", "lost_seconds": 5.1, "lost_tokens": 4700}
    add(gateway, record("cold-3", 420, **tools), explanation("cold-3", reason="tools_changed"))
    side = {"kind": "side", "usage": Usage(410, None, 12, None, "none"), "ttft": 0.12, "expected": None, "saved": {}}
    add(gateway, record("side-1", 300, **side))
    failed = {"outcome": "upstream_error", "status": 502, "error": "connection_lost", "ttft": None, "usage": Usage()}
    add(gateway, record("failed-1", 240, **failed))
    inferred = {"usage": Usage(8_000, 7_200, 40, None, "inferred"), "model": "gemma-3-27b-it-qat", "backend": "attic"}
    add(gateway, record("inferred-1", 200, **inferred))
    hostile = {"model": HOSTILE, "client": Client("127.0.0.1", HOSTILE), "label": "other"}
    add(gateway, record("hostile-1", 100, **hostile), explanation("hostile-1", sentence=HOSTILE))


@asynccontextmanager
async def gateway(
    directory: Path, backends: dict[str, Any], *, admin: str = "", token: str = "", **more: Any
) -> AsyncIterator[App]:
    """A running App on loopback. admin: its address, to come back after a restart; more: of the configuration."""
    text = json.dumps({
        "listen": f"127.0.0.1:{free_port()}", "admin": {"listen": admin or f"127.0.0.1:{free_port()}", "token": token},
        "state_dir": str(directory / "state"), "backends": backends, **more,
    })  # fmt: skip
    config = configuration.loads(text, "test", {})

    async def load() -> configuration.Config:
        return config

    app = App(Gateway(config), load)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


def page_of(app: App) -> str:
    assert app.admin_bound is not None
    host, port = app.admin_bound
    return f"http://{host}:{port}/ui/"
