"""Snapshots without the rest of a gateway: a small driver says what is saved, led and restored at one server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from multidict import CIMultiDict

from gateway.backends.control import Control
from gateway.backends.llamacpp import probe
from gateway.clock import SystemClock
from gateway.config import Backend
from gateway.config.snapshots import Snapshots as Settings
from gateway.dialects import find
from gateway.dialects.prefill import prefill
from gateway.dialects.prompt_read import read
from gateway.dispatch.plan import Order, Place, address_of
from gateway.dispatch.snapshots import Snapshots
from gateway.dispatch.upstream import Upstream
from gateway.events import Bus
from gateway.prefix.chain import Chain, build
from gateway.routing.board import Ask, Board, Choice, Engine, Held, Mode, Slot, Snapshot
from gateway.state.fleet import Fleet
from gateway.state.memory import Memory
from gateway.values import Probe, Target
from gateway.wire.splice import set_fields

CHAT = "/v1/chat/completions"
NAME = "local"


class Rate:
    def seconds(self, cached: int, prompt: int) -> float | None:
        return max(0, prompt - cached) / 300


@dataclass
class Seats:
    board: Board = field(default_factory=Board)

    def set_snapshots(self, backend: str, model: str, snapshots: Mapping[bytes, Snapshot], *, saves: bool) -> None:
        engine = self.board.engines[backend, model]
        engine.snapshots, engine.saves = dict(snapshots), saves


@dataclass(frozen=True)
class Answer:
    """choice: as it came out; text: the whole body; cached, evaluated: prompt tokens."""

    choice: Choice
    status: int
    text: str
    cached: int
    evaluated: int

    @property
    def said(self) -> str:
        """Of a chat completion that was not streamed."""
        message: str = orjson.loads(self.text)["choices"][0]["message"]["content"]
        return message


class Rig:
    """mode, slots: of the server; settings: those of `snapshots`, over room for everything; ratio: tokens of a character."""

    def __init__(self, url: str, memory: Memory, mode: Mode, slots: int, *, ratio: float = 0.21, **settings: Any):
        self.url, self.memory, self.clock, self.bus = url, memory, SystemClock(), Bus()
        self.events: list[Any] = []
        self.bus.subscribe(self.events.append)
        backend = Backend(url=url, kind="llamacpp")
        self.fleet, self.upstream, self.seats = Fleet(self.bus, self.clock), Upstream(), Seats()
        self.engine = Engine(NAME, "", Rate(), capacity=slots, mode=mode, slots=[Slot(n) for n in range(slots)], ratio=ratio)
        self.seats.board.engines[NAME, ""] = self.engine
        self.snapshots = Snapshots(memory.snapshots, self.seats, self.fleet, self.upstream, self.bus, self.clock)
        self.address = address_of(backend)
        self.snapshots.configure(Settings(**settings), {NAME: backend}, {NAME: self.address})
        self.fleet.apply({NAME: backend})
        self.place = Place(Target(NAME, None), self.fleet.states[NAME], self.address)

    async def look(self) -> None:
        """What the prober does now and then."""
        control = Control(self.url)
        seen = await probe(control)
        await control.close()
        await self.saw(seen)

    async def saw(self, seen: Probe) -> None:
        """A look at the server found this. Returns when the server has been asked what it can do."""
        self.fleet.saw(NAME, self.place.state.config, seen, 0.01)
        saver = self.snapshots._savers.get(NAME)
        while saver is not None and saver.process.asked and not saver.process.met:
            await asyncio.sleep(0.01)

    def chain(self, body: dict[str, Any], path: str = CHAT) -> Chain:
        prompt = read(path, body)
        assert prompt is not None
        return build(self.memory.secret, prompt, "tiny")

    async def ask(self, body: dict[str, Any], path: str = CHAT, **choice: Any) -> Answer:
        """Send a request as the fields of a Choice say."""
        chosen = Choice(self.place.target, "test", **choice)
        asked = Ask((self.place.target,), self.chain(body, path), {}, stream=bool(body.get("stream")))
        order = self.order(body, path)
        chosen = await self.snapshots.prepare(self.place, chosen, order, asked)
        async with self.snapshots.turn(self.place, chosen, asked) as chosen:
            raw = orjson.dumps(body)
            if chosen.pin:
                raw = set_fields(raw, {"id_slot": orjson.dumps(chosen.slot)})
            headers = CIMultiDict({"Content-Type": "application/json"})
            response = await self.upstream.send("POST", self.address, path, headers, raw)
        data = await response.read()
        response.close()
        endpoint = find("POST", path)
        assert endpoint is not None
        tap = endpoint.dialect.tap(path, streaming="event-stream" in response.headers["Content-Type"])
        tap.feed(data)
        tap.close()
        usage = tap.seen.usage
        self.snapshots.judged(chosen, usage)
        cached = usage.cached or 0
        return Answer(chosen, response.status, data.decode(), cached, (usage.prompt or 0) - cached)

    def order(self, body: dict[str, Any], path: str) -> Order:
        made = prefill(path, body)
        return Order(
            method="POST",
            path_query=lambda *_: path,
            places=(self.place,),
            label="tiny",
            headers=lambda *_: CIMultiDict({"Content-Type": "application/json"}),
            body=lambda *_: orjson.dumps(body),
            decode=True,
            lead=lambda *_: (path, made) if made else None,
        )

    def held(self, body: dict[str, Any], tokens: int) -> Held:
        now = self.clock.now()
        return Held(self.chain(body), tokens, now, now)

    def outcomes(self) -> dict[str, int]:
        status = self.snapshots.status(NAME)
        return dict(status["done"]) if status else {}

    async def close(self) -> None:
        await self.snapshots.aclose()
        await self.upstream.close()
        self.memory.close()
