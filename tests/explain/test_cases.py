"""Every public case of prompts, tools, history, residency and slots, played with `mode: off`: what is said of its last request.

Cases of residency and slots say little in their two requests alone, so SETUP tells what happens besides. The gateway sends them
to a simulated Ollama that reuses tokens as llama.cpp's slots do; each case is a client of its own and finds empty caches.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.explain.stand import Desk, Told, looked_at
from tests.support.clients import fetch
from tests.support.fake_ollama import FakeOllama
from tests.support.ollama_runners import Model
from tests.support.process import GatewayProcess

HERE = Path(__file__).parent
FILES = (HERE.parent / "canonical" / "cases.json", HERE / "cases.json")
CASES: dict[str, dict[str, Any]] = {case["id"]: case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))}

PLACE, HISTORY = "place and time", "history"

EXPECTED: dict[str, tuple[str | None, str | None, str | None]] = {
    "A01": ("system_changed", PLACE, "attribution"),
    "A02": ("system_changed", PLACE, "attribution"),
    "A04": ("system_changed", PLACE, "place"),
    "A06": ("system_changed", PLACE, "clock"),
    "A07": ("system_changed", PLACE, "clock"),
    "A09": ("system_changed", PLACE, "clock"),
    "A11": ("system_changed", PLACE, "clock"),
    "A13": ("system_changed", PLACE, "ids"),
    "A15": (None, None, None),
    "A17": ("system_changed", PLACE, "clock"),
    "A19": ("system_changed", "memory", "memory"),
    "A23": ("system_changed", "identity", None),
    "A25": ("system_changed", PLACE, "clock"),
    "B01": ("tools_changed", "tools", "tools"),
    "B03": ("tools_changed", "tools", "tools"),
    "B04": ("tools_changed", "tools", "tools"),
    "B06": ("tools_changed", "tools", None),
    "B10": ("tools_changed", "tools", None),
    "C01": (None, None, None),  # this server's template leaves reasoning out, so nothing is lost; see test_fakes.py
    "C03": (None, None, None),
    "C04": ("history_changed", HISTORY, None),
    "C06": ("history_changed", HISTORY, None),
    "C08": ("window_slide", HISTORY, None),
    "C10": ("history_changed", HISTORY, None),
    "C12": ("system_changed", PLACE, "clock"),
    "C14": (None, None, None),
    "D01": (None, None, None),
    "D03": ("model_loaded", None, None),
    "D05": ("model_loaded", None, None),
    "D07": ("model_loaded", None, None),
    "D09": ("first_seen", None, None),
    "D11": (None, None, None),
    "D13": ("backend_restarted", None, None),
    "E01": ("evicted", None, None),
    "E03": ("evicted", None, None),
    "E05": ("evicted", None, None),
    "E07": (None, None, None),
    "E13": (None, None, None),
}

LEFT_OUT = {"E09", "E11"}
"""About llama.cpp's own paths: saving a slot, which is refused on this port, and the field `cache_prompt`."""

SETUP: dict[str, tuple[str, ...]] = {
    "D03": ("req2", "req1", "req2"),
    "D05": ("req1", "req2", "reload", "req1"),
    "D07": ("req1", "req2", "unload", "req1"),
    "D13": ("req1", "restart", "req2"),
    "E01": ("req1", "req2", "req1"),
    "E03": ("req1", "req2", "req1"),
    "E05": ("req1", "req2", "req1"),
}
"""What happens in turn, where it is not `req1`, `req2`. The server has one slot."""


@dataclass(slots=True)
class Stage:
    fake: FakeOllama
    gateway: GatewayProcess

    async def play(self, name: str) -> Told:
        self.fake.forget()
        await fetch(f"{self.gateway.admin}/-/forget", {})
        desk, told = Desk(self.gateway, name), None
        for step in SETUP.get(name, ("req1", "req2")):
            if step in ("req1", "req2"):
                request = CASES[name][step]
                if step == "req2" and "embed" in request["path"]:
                    continue  # the simulated server embeds nothing
                told = await desk.ask(request["body"], request["path"])
            else:
                await self.happen(step)
        assert told is not None
        return told

    async def happen(self, what: str) -> None:
        if what == "restart":
            await self.fake.stop()
            await looked_at(self.gateway, "ollama", time.time(), up=False)
            self.fake.forget()
            await self.fake.start()
            await looked_at(self.gateway, "ollama", time.time())
        elif what == "reload":  # somebody who does not go through the gateway makes the model load with other options
            await fetch(f"{self.fake.url}/api/generate", {"model": "local-a", "options": {"num_ctx": 1024}})
        else:  # ... or unloads it
            await fetch(f"{self.fake.url}/api/generate", {"model": "local-a", "keep_alive": 0})
            await looked_at(self.gateway, "ollama", time.time())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    models = [Model(name, num_ctx=32768) for name in ("local-a", "local-b")]
    async with FakeOllama(*models) as fake:
        config = {"backends": {"ollama": {"kind": "ollama", "url": fake.url}}, "canonical": {"mode": "off"}}
        async with GatewayProcess(tmp_path_factory.mktemp("gateway"), config) as gateway:
            yield Stage(fake, gateway)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", sorted(EXPECTED))
async def test_a_case_is_explained(stage: Stage, name: str) -> None:
    told = await stage.play(name)
    reason, section, detector = EXPECTED[name]
    assert (told.reason, told.row["section"], told.explanation["detector"]) == (reason, section, detector), told.row
    lost = told.explanation["lost"]["tokens"]
    assert lost > 0 if reason else lost == 0
    if detector:
        assert told.explanation["fix"]["config"] == "canonical: { mode: rewrite }"


def test_no_case_is_forgotten() -> None:
    assert EXPECTED.keys() | LEFT_OUT == CASES.keys()
