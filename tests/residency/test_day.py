"""A day on a clock that is pushed: a model with office hours, three native clients, `/v1` beside them, and an evening."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from gateway.events import Pinged
from tests.residency.house import MONDAY, house
from tests.support.clock import ManualClock
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.lmstudio_instances import LmModel
from tests.support.ollama_runners import Model

HOUR, STEP = 3600.0, 240.0
OFFICE = {"resident": True, "hours": "* 8-19 * * 1-5", "zone": "UTC", "keep_alive": "30m"}


def test_the_day_is_a_monday() -> None:
    assert datetime.fromtimestamp(MONDAY, UTC).strftime("%A %H:%M") == "Monday 00:00"


async def test_a_day_with_ollama_and_three_native_clients() -> None:
    clock, random_ = ManualClock(MONDAY), random.Random(4)
    ollama = FakeOllama(Model("coder"), Model("other"), clock=clock)
    models = {"coder": {"targets": ["box/coder"], "keep": OFFICE | {"num_ctx": 16384}}}
    clients = ({"num_ctx": 4096}, {}, {"num_ctx": 8192, "top_p": 0.5})
    outside: list[float] = []
    async with house(clock, {"box": ("ollama", ollama)}, models) as found:
        found.gateway.bus.subscribe(lambda event: outside.append(clock.wall()) if isinstance(event, Pinged) else None)
        for step in range(24 * 15):
            await found.step(STEP)
            if 8 <= step // 15 < 20 and random_.random() < 0.15:
                await found.chat("coder", path="/api/chat", keep_alive="1m", options=random_.choice(clients))
            if random_.random() < 0.02:
                await found.chat("other", path="/api/chat")
        hours = [(wall - MONDAY) / HOUR for wall in outside]
        assert [hour for hour in hours if not 8 <= hour < 20] == [], "no ping outside the hours"
        kept = [entry for entry in ollama.runners.loads if entry[0] == "coder"]
        assert kept == [("coder", "load")], "no reload from options, no unload within the hours"
        assert [why for name, why in ollama.runners.unloads if name == "coder"] == ["expired"], "free in the evening"
        assert len(hours) < 12 * 4


async def test_a_day_with_lm_studio() -> None:
    clock, random_ = ManualClock(MONDAY), random.Random(5)
    studio = FakeLmStudio(LmModel("coder"), LmModel("other"), clock=clock)
    async with house(clock, {"box": ("lmstudio", studio)}, {"coder": {"targets": ["box/coder"], "keep": OFFICE}}) as found:
        seen: dict[bool, set[bool]] = {True: set(), False: set()}
        for _ in range(1, 24 * 15):
            await found.step(STEP)
            hour = (clock.wall() - MONDAY) / HOUR
            if 9 <= hour < 19 and random_.random() < 0.08:
                await found.chat("coder")
            if random_.random() < 0.02:
                await found.chat("other")
            there = any(instance.model.key == "coder" for instance in studio.instances.loaded)
            if 8.1 < hour < 20 or hour < 8 or hour > 21:
                seen[8 <= hour < 20].add(there)
        assert seen == {True: {True}, False: {False}}
        assert [entry for entry in studio.instances.loads if entry[0].startswith("coder")] == [("coder", "asked")]
