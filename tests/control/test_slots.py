"""Looking at `/slots`: on real servers in each of their modes, and on one that refuses, lies or is slow."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from gateway.backends import KINDS
from gateway.clock import SystemClock
from gateway.config import Backend
from gateway.control import slots as module
from gateway.control.probe import control_of
from gateway.control.slots import SlotPoller
from gateway.control.supervise import Supervisor
from gateway.dispatch.plan import address_of
from gateway.engine.server import EngineServer
from gateway.events import BackendProbed, Bus, RequestLeft, RequestStarted
from gateway.routing.board import Ask, Choice, Engine
from gateway.state.board import Seats
from gateway.values import ModelInfo, Probe, Target, Usage
from tests.state.llama import Prompt, Rate, talk
from tests.support.engine import StartEngine, needs_engine

CHAT = "/v1/chat/completions"


class Desk:
    """Seats and their poller in front of one server. Requests go to it directly; the seats are told as dispatch does."""

    def __init__(self, url: str, **config: Any) -> None:
        self.config = Backend(url=url, kind="llamacpp", **config)
        self.bus, self.clock, self.supervisor = Bus(), SystemClock(), Supervisor()
        self.seats = Seats(self.bus, self.clock, lambda backend, model: Rate())
        self.bus.subscribe(self.seats.on_event, *self.seats.hears)
        self.seats.configure({"llama": self.config})
        self.poller = SlotPoller(self.seats, self.bus, self.clock, self.supervisor)
        self.numbers = itertools.count(1)

    @property
    def engine(self) -> Engine:
        return self.seats.engine("llama", "m")

    async def probed(self, probe: Probe | None = None) -> None:
        if probe is None:
            control = control_of(self.config, address_of(self.config))
            probe = await KINDS["llamacpp"].probe(control)
            await control.close()
        self.bus.publish(BackendProbed("llama", probe, 0.01))

    async def watch(self) -> None:
        await self.poller.apply({"llama": self.config}, {"llama": address_of(self.config)})
        await self.poller.first_look(3.0)

    def begin(self, prompt: Prompt, pin: int | None = None) -> int:
        number, target = next(self.numbers), Target("llama", None)
        self.seats.take(
            number, Ask((target,), prompt.chain, {}), Choice(target, "warm", slot=pin, pin=pin is not None), ("llama", "m")
        )
        self.bus.publish(RequestStarted(str(number), "llama", number))
        return number

    def end(self, number: int, usage: Usage | None, *, finished: bool = True) -> None:
        if usage:
            self.seats.first(number)
        self.bus.publish(RequestLeft(str(number), "llama", number))
        self.seats.leave(number, usage, finished=finished)

    async def ask(self, server: EngineServer, prompt: Prompt, pin: int | None = None, answer: int = 4) -> Usage:
        number = self.begin(prompt, pin)
        told = await asyncio.to_thread(server.post, CHAT, body(prompt, answer, pin))
        timings = told["timings"]
        usage = Usage(told["usage"]["prompt_tokens"], timings["cache_n"], timings["predicted_n"], source="timings")
        self.end(number, usage)
        return usage

    async def until(self, what: Any, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not what():
                await asyncio.sleep(0.02)


@asynccontextmanager
async def desk(url: str, **config: Any) -> AsyncIterator[Desk]:
    one = Desk(url, **config)
    try:
        yield one
    finally:
        await one.supervisor.aclose()


def body(prompt: Prompt, answer: int, pin: int | None) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in prompt.messages]
    pinned = {} if pin is None else {"id_slot": pin}
    return {"messages": messages, "max_tokens": answer, "temperature": 0, **pinned}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.2)
    monkeypatch.setattr(module, "SOON", 0.02)


TURNS = ("ada", "bo", "ada", "cy", "bo", "ada", "cy", "cy", "bo", "ada", "bo", "cy")

MODES = [
    ((), "emptied", 4),
    (("--cache-ram", "0"), "kept", 4),
    (("-np", "1"), "kept", 1),
    (("-np", "1", "--cache-ram", "0"), "kept", 1),
    (("-np", "2"), "kept", 2),
    (("-np", "2", "--cache-ram", "0"), "kept", 2),
    (("-np", "4"), "kept", 4),
    (("-np", "4", "--cache-ram", "0"), "kept", 4),
]


@needs_engine
@pytest.mark.parametrize(
    ("flags", "mode", "count"), MODES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else None
)
async def test_the_mode_is_found_before_anybody_asks(
    start_engine: StartEngine, flags: tuple[str, ...], mode: str, count: int
) -> None:
    server = start_engine("-c", "16384", *flags)
    async with desk(server.url) as front:
        await front.probed()
        await front.watch()
        assert (front.engine.mode, front.engine.pins) == (mode, mode == "kept")
        assert front.engine.cache is ("--cache-ram" not in flags)


@needs_engine
@pytest.mark.parametrize(
    ("flags", "mode", "count"), MODES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else None
)
async def test_the_mode_is_found_by_two_requests(
    start_engine: StartEngine, flags: tuple[str, ...], mode: str, count: int
) -> None:
    server = start_engine("-c", "16384", *flags)
    async with desk(server.url) as front:
        await front.probed()
        await front.watch()
        assert len(front.engine.slots) == count
        for name in ("ada", "bo"):
            await front.ask(server, talk(name))
            await asyncio.sleep(0.05)
        await front.until(lambda: front.engine.mode != "unknown")
        assert front.engine.mode == mode
        assert front.engine.pins == (mode == "kept")
        rows = {row["id"]: row.get("n_prompt_tokens", 0) for row in server.get("/slots")}
        believed = [slot.held.tokens if slot.held else 0 for slot in front.engine.slots]
        few = 40  # tokens of the words that were run when it was met
        assert believed == [tokens if tokens > few else 0 for _, tokens in sorted(rows.items())]


@needs_engine
@pytest.mark.parametrize("flags", [(), ("-np", "2"), ("-np", "2", "--cache-ram", "0")], ids=" ".join)
async def test_what_is_expected_is_what_the_server_reuses(start_engine: StartEngine, flags: tuple[str, ...]) -> None:
    server = start_engine("-c", "16384", *flags)
    talks = {name: talk(name, 1500) for name in ("ada", "bo", "cy")}
    wrong: list[float] = []
    async with desk(server.url) as front:
        await front.probed()
        await front.watch()
        for turn, name in enumerate(TURNS):
            prompt = talks[name]
            expected = front.seats.expected("llama", "m", prompt.chain)
            usage = await front.ask(server, prompt)
            assert usage.prompt is not None
            assert usage.cached is not None
            assert expected is not None
            if turn > 5:  # until then nobody knows whether there is a cache in RAM
                wrong.append(abs(expected - usage.cached) / usage.prompt)
            talks[name] = prompt.answered("...", f"And then {turn}?")
    assert sorted(wrong)[-2] < 0.01, "a look that comes at a bad moment may cost one"


@needs_engine
@pytest.mark.parametrize(
    ("flags", "mode", "cache"),
    [((), "emptied", True), (("-np", "2"), "kept", True), (("-np", "2", "--cache-ram", "0"), "kept", False)],
    ids=str,
)
async def test_requests_that_all_go_to_one_slot_leave_the_mode_to_a_few_words(
    start_engine: StartEngine, flags: tuple[str, ...], mode: str, cache: bool
) -> None:
    server = start_engine("-c", "16384", *flags)
    async with desk(server.url) as front:
        await front.probed()
        await front.watch()
        prompt = talk("ada")
        for turn in range(3):
            await front.ask(server, prompt)
            prompt = prompt.answered("...", f"And {turn}?")
        await front.until(lambda: front.engine.mode != "unknown")
        assert (front.engine.mode, front.engine.cache) == (mode, cache)
        usage = await front.ask(server, prompt)
        assert 2 * (usage.cached or 0) > (usage.prompt or 0), "what the slot held is not lost by it"
        assert not front.seats.why_no_pins("llama").startswith("somebody")


@needs_engine
async def test_a_slot_whose_client_has_left_drains(start_engine: StartEngine) -> None:
    server = start_engine("-c", "16384", "-np", "2")
    async with desk(server.url) as front:
        await front.probed()
        await front.watch()
        prompt = talk("ada", 3000)
        number = front.begin(prompt, 1)
        asking = await asyncio.open_connection("127.0.0.1", server.port)
        payload = orjson.dumps(body(prompt, 8000, 1) | {"stream": True})
        head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        asking[1].write(head.encode() + payload)
        await asking[0].readuntil(b"data: ")
        front.seats.first(number)
        await front.until(lambda: any(row["is_processing"] for row in server.get("/slots")))
        asking[1].close()
        front.end(number, None, finished=False)
        slot = front.engine.slots[1]
        assert slot.draining
        assert not slot.idle
        await front.until(lambda: not slot.draining)
        usage = await front.ask(server, prompt, 1)
        assert usage.cached == (usage.prompt or 0) - 1, "what was read has stayed in the slot"


@needs_engine
async def test_somebody_else_is_noticed_and_ends_pinning(start_engine: StartEngine) -> None:
    server = start_engine("-c", "16384", "-np", "2")
    async with desk(server.url) as front, desk(server.url, slots=[1]) as careful:
        for one in (front, careful):
            await one.probed()
            await one.watch()
        for name in ("ada", "bo"):
            await front.ask(server, talk(name))
        await front.until(lambda: front.engine.pins)
        await asyncio.sleep(module.EVERY + 0.5)  # what was its own has been looked at
        for _ in range(2):
            await asyncio.to_thread(server.post, CHAT, body(talk("stranger"), 4, 0))
            await asyncio.to_thread(server.post, CHAT, body(talk("other"), 4, 1))
        await front.ask(server, talk("cy"), 1)
        await front.until(lambda: not front.engine.pins)
        assert front.seats.why_no_pins("llama") == "somebody else uses its slots"
        for name in ("dot", "eli"):
            await careful.ask(server, talk(name), 1)
            await asyncio.sleep(0.5)
        await careful.until(lambda: careful.engine.pins)
        assert [slot.number for slot in careful.engine.slots] == [1]


@needs_engine
async def test_a_restart_forgets_everything(start_engine: StartEngine) -> None:
    server = start_engine("-c", "16384", "-np", "2")
    async with desk(server.url) as front:
        await front.probed()
        await front.watch()
        for name in ("ada", "bo"):
            await front.ask(server, talk(name))
        await front.until(lambda: front.engine.pins)
        server.restart()
        await front.probed()
        assert front.engine.mode == "unknown"
        assert not front.engine.pins
        assert [slot.held for slot in front.engine.slots] == [None, None]


class Odd:
    """A server whose `/slots` answers what it is told. looks: when it was asked."""

    def __init__(self) -> None:
        self.answer: Any = 200
        self.rows: Any = [{"id": 0, "is_processing": False}, {"id": 1, "is_processing": False}]
        self.pause = 0.0
        self.looks: list[float] = []

    async def slots(self, request: web.Request) -> web.Response:
        self.looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.pause)
        return web.json_response(self.rows, status=self.answer)


UP = Probe("llamacpp", up=True, slots=2, single_model=True, mark="one", models=(ModelInfo("m", resident=True),))


@asynccontextmanager
async def odd() -> AsyncIterator[tuple[Odd, Desk]]:
    server, app = Odd(), web.Application()
    app.router.add_get("/slots", server.slots)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with desk(f"http://127.0.0.1:{port}") as front:
            await front.probed(UP)
            await front.watch()
            server.looks.clear()  # those of the meeting
            yield server, front
    finally:
        await runner.cleanup()


async def test_an_idle_server_is_left_alone() -> None:
    async with odd() as (server, front):
        await asyncio.sleep(0.5)
        assert server.looks == []
        number = front.begin(talk("ada"))
        await front.until(lambda: len(server.looks) >= 2)
        front.end(number, Usage(500, 0, 4, source="usage"))
        await asyncio.sleep(0.6)
        seen = len(server.looks)
        await asyncio.sleep(0.6)
        assert len(server.looks) == seen, "one look when the last has ended, and no more"


async def test_looks_are_as_far_apart_as_they_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.5)
    async with odd() as (server, front):
        for _ in range(10):
            front.end(front.begin(talk("ada")), Usage(500, 0, 4, source="usage"))
            await asyncio.sleep(0.15)
        await asyncio.sleep(0.6)
        assert len(server.looks) >= 3
        assert min(b - a for a, b in itertools.pairwise(server.looks)) >= 0.45


async def test_a_sleeping_server_is_not_woken() -> None:
    async with odd() as (server, front):
        await front.probed(Probe("llamacpp", up=True, slots=2, single_model=True, mark="one", sleeping=True))
        front.end(front.begin(talk("ada")), Usage(500, 0, 4, source="usage"))
        await asyncio.sleep(0.5)
        assert server.looks == []


LIES = {
    "switched off": (501, {"error": {}}, "/slots is switched off"),
    "not there": (404, {}, "/slots is not there"),
    "needs a key": (401, {}, "/slots needs an API key; set it under headers"),
    "too few": (200, [{"id": 0, "is_processing": False}], "/slots does not show the 2 slots that the server says it has"),
    "other numbers": (
        200,
        [{"id": 1, "is_processing": False}, {"id": 2, "is_processing": False}],
        "/slots does not show the 2 slots that the server says it has",
    ),
    "no rows": (200, {"slots": 2}, "/slots answers 200 and no list of slots"),
    "rows of another kind": (200, ["a", {"id": "0"}], "/slots does not show the 2 slots that the server says it has"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_server_that_tells_nothing_is_asked_no_more(lie: str) -> None:
    async with odd() as (server, front):
        server.answer, server.rows, why = LIES[lie]
        number = front.begin(talk("ada"))
        await front.until(lambda: front.seats.why_no_pins("llama") == why)
        seen = len(server.looks)
        await asyncio.sleep(0.5)
        assert len(server.looks) == seen
        front.end(number, None, finished=False)
        assert front.engine.slots[1].idle, "nobody would see that it has drained"
        await front.probed(Probe("llamacpp", up=True, slots=2, single_model=True, mark="two"))
        front.begin(talk("ada"))
        await front.until(lambda: len(server.looks) > seen)


async def test_a_slow_server_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW", 0.1)
    monkeypatch.setattr(module, "PATIENCE", 0.15)
    async with odd() as (server, front):
        server.pause = 0.3
        front.begin(talk("ada"))
        await front.until(lambda: front.seats.why_no_pins("llama") == "it is slow to tell what its slots hold")
        assert len(server.looks) == module.TRIES
