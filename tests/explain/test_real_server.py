"""Each reason that a real llama.cpp server can give, through the gateway: one slot and no cache behind it, so that a prompt
of somebody else's is all it takes to lose a prefix. The gateway edits nothing here.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from tests.explain.stand import TOOLS, Desk, Told, answered, chat, looked_at, said, system
from tests.support.engine import ModelFile, needs_engine
from tests.support.process import GatewayProcess

pytestmark = [needs_engine, pytest.mark.asyncio(loop_scope="module")]

FIRST, SECOND = said("List the parts in tray four."), said("And what is in tray five?")


@dataclass(slots=True)
class Lab:
    gateway: GatewayProcess
    engines: dict[str, EngineServer]

    def desk(self, name: str) -> Desk:
        return Desk(self.gateway, name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        engines = {}
        for name, model in {"solo": Model("tiny"), "hybrid": Model("hybrid-swa")}.items():
            flags = ("-t", "1", "-c", "8192", "-np", "1", "--cache-ram", "0", "--alias", name)
            engine = EngineServer(model_file(model), tmp_path_factory.mktemp(name), *flags)
            engines[name] = stack.enter_context(engine)
        config = {
            "backends": {name: {"kind": "llamacpp", "url": engine.url} for name, engine in engines.items()},
            "canonical": {"mode": "off"},
        }
        gateway = GatewayProcess(tmp_path_factory.mktemp("gateway"), config)
        lab = Lab(await stack.enter_async_context(gateway), engines)
        for mood in ("calm", "brisk"):  # shows that the template has the tools before the system text
            await begin(lab.desk("teacher"), system("Zoe", f"Be {mood}."))
        yield lab


async def begin(desk: Desk, head: str, model: str = "solo") -> Told:
    return await desk.ask(chat(model, head, FIRST, tools=TOOLS))


def is_consistent(told: Told) -> None:
    """The explanation says what the row says, and its sections add up to the prompt and to what was reused."""
    row, explanation = told.row, told.explanation
    assert (explanation["id"], explanation["reason"]) == (row["id"], row["reason"])
    assert explanation["sentence"].endswith(".")
    assert explanation["fix"]["text"]
    sections = explanation["sections"]
    assert abs(sum(one["tokens"] for one in sections) - row["prompt"]) <= len(sections)
    assert abs(sum(one["reused"] for one in sections) - row["cached"]) <= len(sections)


async def test_first_seen_and_then_nothing_lost(lab: Lab) -> None:
    desk = lab.desk("first")
    told = await begin(desk, system("Aino"))
    assert (told.reason, told.row["expected"]) == ("first_seen", 0)
    assert told.row["lost_tokens"] == told.row["prompt"] - told.cached
    again = await desk.ask(chat("solo", system("Aino"), FIRST, answered(told.text), SECOND, tools=TOOLS))
    assert (again.reason, again.row["lost_tokens"]) == (None, None)
    assert again.explanation["compared_with"] == told.row["id"]
    assert again.row["saved"]["server"] > 0 == again.row["saved"]["canonical"]
    is_consistent(told)
    is_consistent(again)


async def test_system_changed_with_its_detector_and_the_fix(lab: Lab) -> None:
    desk = lab.desk("system")
    first = await begin(desk, system("Bela", "Current time: 2026-03-04T10:15:01+01:00"))
    told = await desk.ask(
        chat(
            "solo", system("Bela", "Current time: 2026-03-04T10:15:31+01:00"), FIRST, answered(first.text), SECOND, tools=TOOLS
        )
    )
    assert (told.reason, told.row["section"]) == ("system_changed", "place and time")
    assert told.explanation["detector"] == "clock"
    assert told.explanation["fix"]["config"] == "canonical: { mode: rewrite }"
    assert told.row["lost_tokens"] > 0.3 * told.row["prompt"]
    assert told.row["lost_seconds"] > 0
    is_consistent(told)


async def test_tools_changed(lab: Lab) -> None:
    desk = lab.desk("tools")
    first = await begin(desk, system("Cora"))
    talk = (FIRST, answered(first.text), SECOND)
    fewer = await desk.ask(chat("solo", system("Cora"), *talk, tools=TOOLS[:-1]))
    assert (fewer.reason, fewer.explanation["detector"], fewer.row["section"]) == ("tools_changed", None, "tools")
    turned = await desk.ask(chat("solo", system("Cora"), *talk, tools=TOOLS[-2::-1]))
    assert (turned.reason, turned.explanation["detector"], turned.row["section"]) == ("tools_changed", "tools", "tools")
    is_consistent(turned)


async def test_history_changed(lab: Lab) -> None:
    desk, head = lab.desk("history"), system("Dana")
    result = said("Tray four holds: " + ", ".join(f"part {number}" for number in range(120)))
    await desk.ask(chat("solo", head, FIRST, answered("Which one?"), result, answered("I see."), SECOND))
    cut = said(result["content"][:300] + " [... cut ...]")
    told = await desk.ask(
        chat("solo", head, FIRST, answered("Which one?"), cut, answered("I see."), SECOND, answered("3."), said("Ok?"))
    )
    assert (told.reason, told.row["section"]) == ("history_changed", "history")
    is_consistent(told)


async def test_window_slide(lab: Lab) -> None:
    desk, head = lab.desk("slide"), system("Ella")
    talk = [
        said(f"Tell me about gear number {n}, and where it is kept.") if n % 2 == 0 else answered(f"Gear {n}.")
        for n in range(9)
    ]
    await desk.ask(chat("solo", head, *talk))
    told = await desk.ask(chat("solo", head, *talk[2:], answered("In tray two."), SECOND))
    assert (told.reason, told.row["section"]) == ("window_slide", "history")


async def test_evicted_by_another_client(lab: Lab) -> None:
    desk, other = lab.desk("evicted"), lab.desk("another")
    first = await begin(desk, system("Frida"))
    await other.ask(chat("solo", "", said("Nothing in common with the others: " + "words, " * 300)))
    told = await desk.ask(chat("solo", system("Frida"), FIRST, answered(first.text), SECOND, tools=TOOLS))
    assert told.reason == "evicted"
    assert told.row["expected"] < 64, "what the slot holds now is known"
    assert told.row["lost_tokens"] > 0.9 * first.row["prompt"] > told.cached
    assert told.row["section"] is None
    is_consistent(told)


async def test_a_side_request_and_what_it_costs_the_talk(lab: Lab) -> None:
    desk, head = lab.desk("side"), system("Greta")
    first = await begin(desk, head)
    quoted = f"{FIRST['content']}\n{first.text}\n" * 6
    side = await desk.ask(chat("solo", "", said(f"### Task:\nGive this talk a title.\n<history>\n{quoted}</history>")))
    assert (side.row["kind"], side.reason) == ("side", "side_request")
    told = await desk.ask(chat("solo", head, FIRST, answered(first.text), SECOND, tools=TOOLS))
    assert (told.row["kind"], told.reason) == ("main", "evicted")


async def test_backend_restarted(lab: Lab) -> None:
    desk, head = lab.desk("restart"), system("Hanna")
    first = await begin(desk, head)
    lab.engines["solo"].restart()
    await looked_at(lab.gateway, "solo", since=time.time())
    told = await desk.ask(chat("solo", head, FIRST, answered(first.text), SECOND, tools=TOOLS))
    assert (told.reason, told.cached) == ("backend_restarted", 0)
    assert told.row["expected"] <= 1
    assert told.row["lost_tokens"] > 0.9 * first.row["prompt"]


async def test_a_restart_that_nobody_has_seen_yet_is_no_eviction(lab: Lab) -> None:
    """Asked right behind the restart: the looks at a server are ten seconds apart."""
    desk, other, head = lab.desk("unseen"), lab.desk("unseen-other"), system("Hedda")
    first = await begin(desk, head)
    await begin(other, system("Hilma"))
    lab.engines["solo"].restart()
    told = await desk.ask(chat("solo", head, FIRST, answered(first.text), SECOND, tools=TOOLS))
    assert (told.reason, told.cached, told.explanation["reason"]) == ("backend_restarted", 0, "backend_restarted")
    again = await desk.ask(chat("solo", head, FIRST, answered(first.text), SECOND, answered(told.text), FIRST, tools=TOOLS))
    assert again.reason is None
    assert again.cached > 0.9 * told.row["prompt"]


async def test_engine_limit_of_a_model_that_cannot_go_back(lab: Lab) -> None:
    """The newest question is asked in another way again and again. Nothing else is computed in between: no eviction."""
    desk, head = lab.desk("limit"), system("Ida", "Note: " + "every gear is kept in its own tray, " * 60)
    reasons = []
    for number in range(4):
        asked = said(f"Version {number}: " + "and then, " * 80)
        told = await desk.ask(chat("hybrid", head, FIRST, answered("Twelve gears."), asked))
        reasons.append(told.reason)
        assert told.cached < 0.5 * told.row["prompt"]
    assert reasons == ["first_seen", "unknown", "engine_limit", "engine_limit"]
