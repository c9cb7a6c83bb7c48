"""Every query of the overview, asked of a real Prometheus that has scraped the real gateway before a real llama.cpp server.

What such a set-up cannot have is named in CANNOT, and asked of metrics that events alone have made.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestServer

from gateway.engine.server import EngineServer
from grafana import pictures
from tests.grafana import invented
from tests.grafana.boards import ALERTS, BOARDS, Asked, filled, queries
from tests.grafana.promserver import Prometheus, prometheus
from tests.grafana.traffic import MODEL, PIN, wave
from tests.slots.scenes import prose
from tests.support.engine import ModelFile, needs_engine
from tests.support.process import GatewayProcess

pytestmark = [
    needs_engine,
    pytest.mark.needs("prometheus"),
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.asyncio(loop_scope="module"),
]

CANNOT = {
    "Prompt tokens reused by model: {{backend}} {{model}} (inferred)": "the server reports it, so that nothing is inferred",
    "Load time: p50": "it loads its model before it answers at all",
    "Load time: p95": "the same",
    "Memory of models: {{backend}} {{model}}": "it does not tell",
    "Time until unloaded: {{backend}} {{model}}": "it never unloads",
    "Saved slots: {{backend}} given up": "they are not given up, which is what this query shows",
}
"""Query -> why one llama.cpp server cannot show it."""

WAVES, PAUSE = 5, 2.0
"""Waves of traffic, and seconds after each, in which what it has changed is scraped twice."""

PICTURES = os.environ.get("WARMGATE_PICTURES")
"""Where the rows of the overview are drawn to; a directory of the test's own if not set."""


@dataclass(frozen=True, slots=True)
class Watched:
    """real, invented: what `instance` is; start, end: of the traffic, in seconds since the epoch."""

    prometheus: Prometheus
    gateway: GatewayProcess
    real: str
    invented: str
    start: float
    end: float

    async def data(self, asked: Asked, instance: str) -> list[dict[str, Any]]:
        """Series with a number in them, over the time of the traffic."""
        span = f"{math.ceil(self.end - self.start)}s"
        expression = filled(asked.expr, instance=instance, __rate_interval=span, __range=span)
        found = await self.prometheus.series(expression, self.start, self.end)
        return [one for one in found if any(math.isfinite(float(value)) for _, value in one["values"])]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    directory = tmp_path_factory.mktemp("watched")
    slots = directory / "slots"
    slots.mkdir()
    flags = ("-t", "1", "-c", "16384", "-np", "2", "--cache-ram", "0", "--metrics", "--slot-save-path", str(slots))
    with EngineServer(model_file(), directory, *flags, "--alias", MODEL) as engine:
        local = {"kind": "llamacpp", "url": engine.url}
        (directory / "house.md").write_text(prose("house", 1500))
        pin = {"name": PIN, "model": MODEL, "system_file": str(directory / "house.md")}
        config = {
            "backends": {"local": local},
            "models": {MODEL: {"keep": {"resident": True}}},
            "warmup": {"pins": [pin]},
        }
        async with GatewayProcess(directory, config) as gateway, TestServer(invented.application(time.time)) as events:
            real, made = gateway.admin.removeprefix("http://"), f"127.0.0.1:{events.port}"
            targets = {"warmgate": [real, made], "llamacpp": [engine.url.removeprefix("http://")]}
            async with prometheus(directory, targets) as server:
                await server.scraped(3)
                start = time.time()
                for number in range(WAVES):
                    await wave(gateway, f"wave{number}")
                    await asyncio.sleep(PAUSE)
                end = time.time()
                yield Watched(server, gateway, real, made, start, end)


async def test_every_query_of_the_overview_has_data(watched: Watched) -> None:
    empty = [one for one in queries("overview") if not await watched.data(one, watched.real)]
    assert [str(one) for one in empty if f"{one.title}: {one.legend}" not in CANNOT] == []


async def test_what_one_server_cannot_have_is_shown_of_events(watched: Watched) -> None:
    assert not [str(one) for one in queries("overview") if not await watched.data(one, watched.invented)]


async def test_queries_of_llama_cpps_own_metrics_have_data(watched: Watched) -> None:
    own = [one for one in queries("backends") if one.row == "llama.cpp"]
    assert [str(one) for one in own if not await watched.data(one, ".*")] == []
    assert own


async def test_no_alert_has_a_fault(watched: Watched) -> None:
    groups = (await watched.prometheus.get("rules"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(ALERTS)
    assert {rule["health"] for rule in rules} == {"ok"}


async def test_rows_can_be_drawn(watched: Watched, tmp_path: Path) -> None:
    span = (watched.start, watched.end)
    ask = pictures.prometheus(watched.prometheus.url, span, "10s", instance=watched.real)
    files = await asyncio.to_thread(pictures.write, Path(PICTURES or tmp_path), ask, span)
    for file in files:
        words = [element.text for element in ElementTree.parse(file).iter() if element.text]
        row = next(panels for title, panels in pictures.rows(BOARDS["overview"]) if pictures.file_name(title) == file.name)
        assert {panel["title"] for panel in row} <= set(words)
    assert len(files) == len(list(pictures.rows(BOARDS["overview"])))
