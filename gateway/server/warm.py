"""Reading a prefix ahead: a pin as a request of the gateway's own, through dispatch like any other, at the end of the queue.

On servers that can (llama.cpp) a long one goes in steps, so that whoever comes meanwhile waits for one step at most: the chat
is rendered and cut into tokens, and `/completion` reads ever longer beginnings of them. The last step is the traffic's own
endpoint, which proves that it is the same prompt. (Measured: 6.8 s in steps of 256 tokens against 7.3 s in one go.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from multidict import CIMultiDict

from gateway import dialects
from gateway.backends.base import Kind
from gateway.control.probe import control_of
from gateway.control.warmup import Cause, Done, Known
from gateway.dispatch.deadline import Deadline
from gateway.dispatch.flight import Flight
from gateway.dispatch.plan import Order, Place
from gateway.errors import UnknownModel, Unreachable
from gateway.events import BackendProbed, HeadUsed, ModelLoaded
from gateway.prefix.chain import Chain
from gateway.routing.board import Ask, Choice, Engine
from gateway.routing.match import saved, shared
from gateway.routing.naming import OTHER, Named, name
from gateway.routing.place import HEAD, choose
from gateway.routing.worth import loss, need, reading
from gateway.server.gateway import Gateway
from gateway.server.headers import to_upstream
from gateway.server.orders import body_for
from gateway.server.reading import json_object
from gateway.server.replies import close_record, next_piece
from gateway.server.warm_steps import beginning, cut, step_call
from gateway.state.pins import Pin
from gateway.values import Call, Client, Target

log = logging.getLogger("warmgate.warmup")

STEP = 256
"""Tokens that are read in one go, where that can be chosen."""

LONG = 2 * STEP
"""Tokens from which on a prefix is read in steps."""

CLOSE = 0.9
"""Share of a prefix that must be there for it to be warm; the count is an estimate."""

SLACK = 32
"""Tokens that may be missing besides."""

LIKELY = 0.9
"""Probability that a pin of the configuration is needed."""

PATIENCE = 10.0
"""Seconds that rendering and cutting may take."""

SHARED = 64
"""Prefixes that a server with one cache for all is expected to hold."""

OFFER_LOOKS, OFFER_PAUSE = 100, 0.05
"""How often, and with how many seconds in between, it is looked whether a file can be restored."""

KIND = "warmup"
"""The kind of these requests, where traffic is `main` or `side`."""

HEADS = 256
"""Prompts of pins that are kept read."""

US = Client("", "warmgate")
CHATS = frozenset({"/v1/chat/completions", "/chat/completions"})
"""Paths whose bodies `/apply-template` takes."""


@dataclass(frozen=True, slots=True)
class _Head:
    """A pin's prompt. call: as it would come from a client."""

    call: Call
    chain: Chain
    label: str


class Reader:
    """One writer of its memory: the warmer's tasks and events, on the event loop."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._heads: dict[tuple[bytes, str], _Head | None] = {}
        self._at_work: set[str] = set()  # backends that have a request of ours now
        self._filled: dict[tuple[str, str], dict[bytes, None]] = {}  # what was read there since it was last empty
        self._marks: dict[str, tuple[bool, str | None]] = {}
        gateway.bus.subscribe(self._on_event, BackendProbed, HeadUsed, ModelLoaded)

    # what is known

    def homes(self, pin: Pin) -> Sequence[str]:
        """Backends that are up and have the model loaded, the one that its requests prefer first."""
        view = self._gateway.fleet.view
        found = []
        for place in self._places(pin):
            backend = view.get(place.target.backend)
            if backend is None or not backend.up or backend.circuit_open:
                continue
            info = backend.models.get(backend.own_name(place.target.model or pin.model) or "") or _only(backend.models)
            state = self._gateway.fleet.states[backend.name]
            asleep = state.probe is not None and state.probe.sleeping
            if not asleep and (info is None or info.resident is not False):
                found.append(backend.name)
        return found

    def known(self, pin: Pin, backend: str) -> Known:
        head, place = self._head(pin), self._place(pin, backend)
        if head is None or place is None:
            return Known(True, "startup")  # nothing can be done about it
        gateway, chain = self._gateway, head.chain
        engine = gateway.seats.engine(*self._seat(place, head))
        tokens = round(chain.size_at(chain.head) * engine.ratio)
        expected = gateway.seats.expected(engine.backend, engine.model, chain)
        warm = gateway.accounting.index.match(chain, head.label).get(backend)
        in_a_slot = any(slot.held is not None and shared(slot.held.chain, chain) >= chain.head for slot in engine.slots)
        if expected is None:
            is_warm = warm is not None and warm.nodes >= chain.head
        else:
            is_warm = in_a_slot or expected + SLACK >= CLOSE * tokens
        cause: Cause = "startup" if warm is None else warm.cause or "evicted"
        chance = LIKELY if pin.source == "config" else pin.weight / (pin.weight + 1)
        unsaved = engine.saves and tokens >= HEAD and chain.start not in engine.snapshots
        seconds = reading(engine, 0, tokens)
        if (file := saved(engine, chain)) is not None:  # the next request would restore it by itself
            seconds = min(seconds, file.seconds + reading(engine, file.tokens, tokens))
        return Known(is_warm, cause, seconds * chance, self._loses(pin, engine, head, place), unsaved)

    def _loses(self, pin: Pin, engine: Engine, head: _Head, place: Place) -> float:
        """Seconds that what would have to give way is worth. Where that cannot be seen nothing gives way: as many prefixes as
        the server has places are read while it is empty, and no more."""
        if engine.slots:
            now = self._gateway.clock.now()
            choice = choose(self._gateway.seats.board, self._ask(head, place, head.chain), now)
            if choice.hold:
                return float("inf")
            held = choice.replaced
            return need(held, now) * loss(engine, held, 0) if held is not None else 0.0
        room = SHARED if place.state.kind.shares or engine.cache else engine.capacity or 1
        others = self._filled.get((engine.backend, head.label), {}).keys() - {pin.key}
        return 0.0 if len(others) < room else float("inf")

    def wanted(self, backend: str) -> bool:
        gateway = self._gateway
        return gateway.fleet.load(backend) + gateway.dispatcher.waiting(backend) > (backend in self._at_work)

    def _fill(self, key: bytes, label: str, backend: str) -> None:
        """This head is there now."""
        filled = self._filled.setdefault((backend, label), {})
        filled[key] = None
        while len(filled) > SHARED:
            del filled[next(iter(filled))]

    # reading

    async def read(self, pin: Pin, backend: str) -> Done:
        """Raises UpstreamError, Refusal."""
        head, place = self._head(pin), self._place(pin, backend)
        if head is None or place is None:
            return Done("failed", problem="its request cannot be read, or its model has no backend any more")
        if problem := self._too_long(pin, place):
            return Done("failed", problem=problem)
        flight = Flight(f"warm-{pin.name}", US, self._gateway.clock, pin.path, head.call.dialect, pin.model, head.label, KIND)
        flight.read, computed = flight.begun, 0
        if place.state.kind.steps and pin.path in CHATS and not self._is_there(pin, head, place):
            tokens = await self._tokens(place, head)
            for upto in self._steps(head, place, len(tokens)):
                part = beginning(head.chain, upto / len(tokens))
                computed += await self._send(self._step(head, place, tokens[:upto], part), flight, step_call(head.call, []))
        await self._offered(head, place)
        order = self._order(head, place)
        flight.trace = self._gateway.accounting.begin(head.call, head.label, None, "off")
        try:
            computed += await self._send(order, flight, head.call)
        finally:
            self._gateway.accounting.settle(flight.record(), flight.trace, edited=False)
        if flight.outcome != "ok":
            words = "; it may be longer than the model's context" if flight.status == 400 else ""
            return Done("failed", computed, f"{backend} answered {flight.status}{words}")
        self._fill(pin.key, head.label, backend)
        await self._save(place, order, flight.choice, head)
        restored = flight.choice is not None and flight.choice.restore is not None
        usage = flight.usage
        pin.tokens = pin.tokens or usage.prompt or 0
        pin.mark = place.state.probe.mark if place.state.probe else None
        if restored:
            return Done("restored", computed)
        return Done(
            "already_warm" if usage.prompt and computed <= SLACK + usage.prompt * (1 - CLOSE) else "prefilled", computed
        )

    def _too_long(self, pin: Pin, place: Place) -> str | None:
        """Servers refuse a prompt that is longer than their context, or cut it where nobody wants it cut."""
        view = self._gateway.fleet.view.get(place.target.backend)
        info = view.models.get(view.own_name(place.target.model or pin.model) or "") or _only(view.models) if view else None
        if info is None or not info.context or pin.tokens < info.context:
            return None
        return f"it has {pin.tokens} tokens, and the context of {info.name} has {info.context}"

    async def _offered(self, head: _Head, place: Place) -> None:
        """After a restart it takes a moment until a server has been asked what can be restored on it."""
        engine = self._gateway.seats.engine(*self._seat(place, head))
        if not self._gateway.memory.snapshots.has(place.state.name, head.chain.start):
            return
        for _ in range(OFFER_LOOKS):
            if head.chain.start in engine.snapshots:
                return
            await asyncio.sleep(OFFER_PAUSE)

    def _is_there(self, pin: Pin, head: _Head, place: Place) -> bool:
        """Whether the server holds it or has it in a file, as far as is known: a beginning that is read alone would cut it off,
        or be read in vain. After a restart of the gateway what the same process of the server was last seen with counts."""
        probe = place.state.probe
        same = probe is not None and probe.mark is not None and probe.mark == pin.mark
        known, ring = self.known(pin, place.state.name), self._gateway.memory.snapshots
        return known.warm or (same and known.cause == "startup") or ring.has(place.state.name, head.chain.start)

    def _steps(self, head: _Head, place: Place, tokens: int) -> range:
        """Up to which token each step reads: from behind what is there."""
        expected = self._gateway.seats.expected(*self._seat(place, head), head.chain) or 0
        return range(expected - expected % STEP + STEP, tokens - STEP, STEP) if tokens > LONG else range(0)

    async def _send(self, order: Order, flight: Flight, call: Call) -> int:
        """Send it and read the answer. Returns the tokens that were computed, as far as that is told."""
        endpoint, backend = dialects.find("POST", call.path), order.places[0].state.name
        assert endpoint is not None
        self._at_work.add(backend)
        try:
            async with Deadline() as deadline, self._gateway.dispatcher.open(order, flight, deadline) as reply:
                tap = endpoint.dialect.tap(call.path, streaming=False, hide_usage=False)
                data = reply.head
                while True:
                    if data:
                        tap.feed(data)
                    deadline.move(reply.first_byte, "upstream")
                    data = await next_piece(reply)
                    if not data:
                        break
                tap.close()
                if tap.seen.first:
                    flight.saw_first(tap.seen.first)
                close_record(flight, call, reply, tap, False)
        finally:
            self._at_work.discard(backend)
        usage = flight.usage
        return max(0, (usage.prompt or 0) - (usage.cached or 0))

    async def _save(self, place: Place, order: Order, choice: Choice | None, head: _Head) -> None:
        """Where slots can be saved, what was read is, so that the next restart costs no reading."""
        gateway = self._gateway
        engine = gateway.seats.engine(*self._seat(place, head))
        if choice is None or order.ask is None or not engine.saves or head.chain.start in engine.snapshots:
            return
        lead = replace(choice, lead=head.chain.head, save=False, restore=None)
        await gateway.snapshots.prepare(place, lead, order, order.ask)

    async def _tokens(self, place: Place, head: _Head) -> list[int]:
        """The head's prompt as the server cuts it; [] where that cannot be had, and the prompt goes in one go."""
        config = self._gateway.now.config.backends[place.state.name]
        control = control_of(config, place.address, PATIENCE)
        try:
            body = json_object(body_for(head.call, place.target, place.state.kind)) or {}
            prompt = (await control.post("/apply-template", body)).field("prompt")
            return await cut(control, prompt) if isinstance(prompt, str) else []
        except Unreachable as error:
            log.debug("backend %s cannot render a prefix (%s); it is read in one go", place.state.name, error)
            return []
        finally:
            await control.close()

    # orders

    def _order(self, head: _Head, place: Place) -> Order:
        def lead(target: Target, kind: Kind) -> tuple[str, bytes] | None:
            return head.call.path, body_for(head.call, target, kind)

        return self._ordered(head, place, head.call, head.chain, lead)

    def _step(self, head: _Head, place: Place, tokens: list[int], chain: Chain | None) -> Order:
        return self._ordered(head, place, step_call(head.call, tokens), chain, lambda *_: None)

    def _ordered(self, head: _Head, place: Place, call: Call, chain: Chain | None, lead: Any) -> Order:
        config = self._gateway.now.config

        def headers(target: Target, kind: Kind) -> CIMultiDict[str]:
            configured = config.backends[target.backend].headers
            own: CIMultiDict[str] = CIMultiDict({"Content-Type": "application/json", "User-Agent": "warmgate"})
            return to_upstream(own, configured=configured, strip=kind.strip, drop=frozenset(), dialect_call=True)

        return Order(
            method="POST",
            path_query=lambda *_: call.path,
            places=(place,),
            label=head.label,
            headers=headers,
            body=lambda target, kind, slot: body_for(call, target, kind, slot),
            decode=True,
            ask=replace(self._ask(head, place, chain), whole=call is head.call),
            queue=config.routing.queue,
            lead=lead,
        )

    def _ask(self, head: _Head, place: Place, chain: Chain | None) -> Ask:
        return Ask(
            targets=(place.known_as,),
            chain=chain,
            warm=self._gateway.accounting.warm(chain, head.label) if chain is not None else {},
            pinnable=head.call.path in place.state.kind.pins,
            limit=1,
            label=head.label,
            hold=0.0,
        )

    # where

    def _seat(self, place: Place, head: _Head) -> tuple[str, str]:
        """The engine's name on the board."""
        return place.target.backend, place.model or ""

    def _places(self, pin: Pin) -> tuple[Place, ...]:
        named = self._named(pin)
        return self._gateway.now.places(named.targets, self._gateway.fleet.view, pin.model) if named else ()

    def _named(self, pin: Pin) -> Named | None:
        home = next(iter(self._gateway.fleet.states), "")
        try:
            return name(pin.model, pin.path, self._gateway.fleet.view, self._gateway.now.catalog, home)
        except UnknownModel:
            return None

    def _place(self, pin: Pin, backend: str) -> Place | None:
        return next((place for place in self._places(pin) if place.target.backend == backend), None)

    def _head(self, pin: Pin) -> _Head | None:
        """Its chain begins with the model's label, which may become another once the backends are known."""
        named = self._named(pin)
        label = named.label if named and named.label != OTHER else pin.model
        key = pin.key, label
        if key not in self._heads:
            while len(self._heads) > HEADS:
                del self._heads[next(iter(self._heads))]
            self._heads[key] = self._read_head(pin, label)
        return self._heads[key]

    def _read_head(self, pin: Pin, label: str) -> _Head | None:
        body, endpoint = json_object(pin.body), dialects.find("POST", pin.path)
        if body is None or endpoint is None:
            return None
        call = Call(f"warm-{pin.name}", endpoint.dialect.name, endpoint.path, "", pin.body, body, pin.model, False, US)
        chain = self._gateway.accounting.chain(call, label)
        return _Head(call, chain, label) if chain is not None and chain.head else None

    def _on_event(self, event: BackendProbed | HeadUsed | ModelLoaded) -> None:
        """What was read is gone with the process, or with the model."""
        if isinstance(event, HeadUsed):
            self._fill(event.key, event.model, event.backend)
            return
        if isinstance(event, ModelLoaded):
            for key in [key for key in self._filled if key[0] == event.backend]:
                del self._filled[key]
            return
        seen = (event.probe.up, event.probe.mark)
        if self._marks.get(event.name) not in (None, seen):
            for key in [key for key in self._filled if key[0] == event.name]:
                del self._filled[key]
        self._marks[event.name] = seen


def _only(models: Mapping[str, Any]) -> Any:
    """The one model of a server that ignores names."""
    found: Iterator[Any] = iter(models.values())
    return next(found) if len(models) == 1 else None
