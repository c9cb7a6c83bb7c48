"""What the gateway expects to be reused against what a real llama.cpp server reports, over a mixed run of 200 requests.

The server is in its default mode: four slots that share their memory, idle ones moved to a cache in RAM. Six agents talk in
turn, each with tools of its own or all with the same, and with the time in its system text; some requests ask for titles, some
come with another rule in the system text or an edited history, and long talks begin anew.
"""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

import pytest

from tests.explain.stand import TOOLS, Desk, answered, chat, said, system, tool
from tests.support.engine import StartEngine, needs_engine
from tests.support.process import GatewayProcess

pytestmark = [needs_engine, pytest.mark.slow]
log = logging.getLogger(__name__)

REQUESTS = 200
NAMES = ("Pelle", "Mira", "Tovik", "Anselm", "Runa", "Isolde")
THINGS = ("gears", "springs", "screws", "bearings", "washers", "cables")


class Day:
    """Six conversations. Written by the test that plays it."""

    def __init__(self, random: Random, *, shared: bool) -> None:
        self.random, self.shared = random, shared
        self.talks: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
        self.second = 0

    def next(self) -> tuple[str, dict[str, Any]]:
        """Whose turn it is (nobody's for a side request), and the request."""
        name, roll = self.random.choice(NAMES), self.random.random()
        talk, self.second = self.talks[name], self.second + 1
        head = system(name, f"Current time: 2026-03-04T10:{self.second // 60:02}:{self.second % 60:02}+01:00")
        if roll < 0.06 and talk:
            text = "\n".join(message["content"] for message in talk[-8:])
            return "", chat("tiny", "", said(f"### Task:\nGive this talk a title.\n<history>\n{text}\n</history>"))
        if roll > 0.98:
            head = system(name, f"Always be {self.random.choice(('kind', 'brief', 'exact', 'merry'))}.")
        if 0.94 < roll < 0.97 and len(talk) > 4:
            talk[2] = said(f"Never mind, I only meant the {self.random.choice(THINGS)}.")
        if len(talk) > 16:
            talk.clear()
        asked = f"How many {self.random.choice(THINGS)} are in tray {self.random.randint(1, 99)}, and which of them are metric?"
        talk.append(said(asked))
        tools = TOOLS if self.shared else [tool(f"{name.lower()}_{letter}") for letter in "abcdef"]
        return name, chat("tiny", head, *talk, tools=tools)


@pytest.mark.parametrize(("shared", "seed"), [(False, 7), (True, 3)], ids=["tools of their own", "the same tools"])
async def test_expected_reuse_is_what_is_reported(start_engine: StartEngine, tmp_path: Path, shared: bool, seed: int) -> None:
    engine = start_engine("-c", "32768")
    day = Day(Random(seed), shared=shared)
    errors, rows = [], []
    async with GatewayProcess(tmp_path, {"backends": {"llama": {"kind": "llamacpp", "url": engine.url}}}) as gateway:
        desk = Desk(gateway, "day")
        for _ in range(REQUESTS):
            name, body = day.next()
            told = await desk.ask(body)
            if name:
                day.talks[name].append(answered(told.text))
            rows.append(told.row)
            errors.append(abs(told.row["expected"] - told.row["cached"]) / told.row["prompt"])
    reused = sum(row["cached"] for row in rows) / sum(row["prompt"] for row in rows)
    middle, tenth = median(errors), quantiles(errors, n=10)[-1]
    log.info("reused %.1f %% of the tokens; error: median %.2f %%, p90 %.2f %%", 100 * reused, 100 * middle, 100 * tenth)
    assert reused > 0.5, "a run in which little is reused would be easy to predict"
    assert middle <= 0.02
    if not shared:  # of several entries that begin alike, which one the server's cache gives differs by a single token
        assert tenth <= 0.08
