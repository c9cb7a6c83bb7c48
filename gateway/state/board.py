"""The one writer of the board that routing reads: what each server works on, what its slots hold, what is learned of it.

On the event loop, without I/O; nothing here fails a request. What slots hold is believed by the server's own rules
(`gateway.state.shadow`) and put right by what `/slots` shows (`gateway.state.slot_look`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.clock import Clock
from gateway.config import Backend
from gateway.events import BackendGone, BackendProbed, BoardChanged, Bus, CircuitChanged, RequestLeft, RequestStarted
from gateway.prefix.chain import Chain
from gateway.routing.board import Ask, Board, Choice, Engine, Prefill, Running, Snapshot
from gateway.state.content import Content, following
from gateway.state.learned import Learned
from gateway.state.leases import Lease
from gateway.state.slot_server import DRAINED, Ended, Server
from gateway.values import Probe, Usage

log = logging.getLogger("warmgate.slots")

ENGINES = 64
"""Engines that are remembered; idle ones that were not used for longest are forgotten."""

SESSIONS = 4096
"""Sessions of which the last backend is remembered."""

GUESS = 1e-3
"""Seconds that a token takes to read, while nothing is known."""

Rates = Callable[[str, str], Prefill]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A prefill rate that the configuration fixes, in tokens a second."""

    rate: float

    def seconds(self, cached: int, prompt: int) -> float | None:
        return max(0, prompt - cached) / self.rate


class Seats:
    """rates: how long a backend takes to read a prompt for a model (by its label), as it was learned."""

    def __init__(self, bus: Bus, clock: Clock, rates: Rates) -> None:
        self.board = Board()
        self._bus, self._clock, self._rates = bus, clock, rates
        self._servers: dict[str, Server] = {}
        self._learned: dict[tuple[str, str], Learned] = {}
        self._leases: dict[int, Lease] = {}
        self._wanted: dict[tuple[str, str], bool] = {}  # where slots could be saved if nothing spoke against it

    def configure(self, backends: Mapping[str, Backend]) -> None:
        """Take over the backends of a configuration."""
        for name, config in backends.items():
            server = self._server(name)
            if server.config != config:
                server.config = config
                self._refresh(server)

    def engine(self, backend: str, model: str) -> Engine:
        """The engine of a model, by the backend's own name of it; made on first use."""
        server = self._server(backend)
        key = server.key(model)
        engine = self.board.engines.get(key)
        if engine is None:
            self._make_room()
            engine = self.board.engines[key] = Engine(*key, self._rate(server, model))
            self._learned[key] = Learned()
            self._bring_up_to_date(server, engine)
        return engine

    # requests come and go

    def take(self, number: int, ask: Ask, choice: Choice, place: tuple[str, str]) -> None:
        """A request is given to an engine. number: its flight's."""
        engine, now = self.engine(*place), self._clock.now()
        server, key = self._servers[engine.backend], (engine.backend, engine.model)
        engine.rate = self._rate(server, ask.label or engine.model)
        chain, prompt = ask.chain, round(ask.chain.size * engine.ratio) if ask.chain else 0
        running = Running(chain, ask.side, ask.stream, 0, now, now, lead=choice.lead)
        lease = Lease(number, key, running, chain, None, choice.pin, prompt, choice.reused, 0, now)
        if engine.slots:
            self._seat(server, engine, lease, ask, choice, now)
        load = engine.load if engine.resident is False else 0.0
        running.tokens = prompt + (ask.limit or self._learned[key].tokens)
        running.warm_at = now + load + _reading(engine, lease.promised, prompt)
        running.free_at = running.warm_at + engine.answer
        if slot := server.shadow.slot(lease.slot) if lease.slot is not None else None:
            slot.free_at = running.free_at
        engine.running[number], self._leases[number] = running, lease
        self.board.engines[key] = self.board.engines.pop(key)  # the last is the one that was used last
        self._remember(ask.session, engine.backend)
        self._exclude(server)

    def _seat(self, server: Server, engine: Engine, lease: Lease, ask: Ask, choice: Choice, now: float) -> None:
        """Find the slot that the server gives it, and believe that it holds the prompt from now on."""
        shadow, pinned = server.shadow, choice.slot if choice.pin else ask.asked_slot
        if pinned is None and choice.restore is not None:
            pinned = choice.slot
        slot = shadow.slot(pinned) if pinned is not None else None
        if lease.chain is None:
            slot = slot or next((slot for slot in shadow.slots if slot.idle), None)
            if slot is not None:
                slot.flight, slot.held, lease.slot = lease.number, None, slot.number
            return
        caches, emptied = engine.cache is not False, server.mode == "emptied"
        number = slot.number if slot else None
        start = shadow.start(lease.chain, lease.prompt, number, caches=caches, emptied=emptied)
        lease.foreseen(start)
        if choice.restore is not None:
            lease.promised, lease.restored = choice.restore.tokens, True
        lease.content = following(start.before, lease.chain, lease.prompt, now, side=ask.side)
        if start.slot is not None:
            lease.slot, lease.running.slot = start.slot.number, start.slot.number
            start.slot.flight, start.slot.held = lease.number, lease.content

    def first(self, number: int) -> None:
        """The first content of the request's answer has come."""
        if (lease := self._leases.get(number)) is None or lease.first is not None:
            return
        engine, now = self.board.engines.get(lease.key), self._clock.now()
        lease.first = lease.running.warm_at = now
        lease.running.free_at = now + (engine.answer if engine else 0.0)
        if slot := self._slot(lease):
            slot.free_at = lease.running.free_at
        self._changed(lease.key[0])

    def leave(self, number: int, usage: Usage | None, *, finished: bool) -> None:
        """The request is over. finished: the server has ended it; else it was given up, and its slot counts as free when
        `/slots` shows so."""
        if (lease := self._leases.pop(number, None)) is None:
            return
        engine, server, now = self.board.engines.get(lease.key), self._servers.get(lease.key[0]), self._clock.now()
        usage = usage or Usage()
        if engine is None or server is None:
            return
        engine.running.pop(number, None)
        if finished:
            self._learn(server, engine, lease, usage, now)
        self._give_back(server, lease, usage, now, finished=finished)
        self._record(server, engine, lease, now)
        server.last = now
        self._exclude(server)
        self._changed(server.name)

    def drop(self, number: int) -> None:
        """The request was placed, and never sent."""
        if (lease := self._leases.pop(number, None)) is None:
            return
        if engine := self.board.engines.get(lease.key):
            engine.running.pop(number, None)
        if (slot := self._slot(lease)) and slot.flight == number:
            slot.flight, slot.held = None, lease.before
        if server := self._servers.get(lease.key[0]):
            self._exclude(server)
        self._changed(lease.key[0])

    def _give_back(self, server: Server, lease: Lease, usage: Usage, now: float, *, finished: bool) -> None:
        """Free the slot, and believe that it holds what was read and generated."""
        content = lease.ends(usage, now, finished=finished)
        slot = self._slot(lease)
        if slot is not None and slot.flight == lease.number:
            slot.flight, slot.held = None, content
            server.shadow.used[slot.number] = now
            if not finished:
                slot.draining, server.drains[slot.number] = True, now + DRAINED
        if server.shadow.slots:
            tokens = content.tokens if content and finished and usage.prompt is not None else None
            server.ended.append(Ended(lease.number, lease.slot, tokens, lease.taken))

    def _learn(self, server: Server, engine: Engine, lease: Lease, usage: Usage, now: float) -> None:
        learned = self._learned[lease.key]
        learned.ended(usage, lease.chain.size if lease.chain else 0, now - lease.first if lease.first is not None else None)
        engine.ratio, engine.answer, engine.load = learned.ratio.value, learned.answer, learned.load
        if usage.cached is None or not engine.slots or lease.restored:
            return
        if lease.pinned and server.trust.judge_pin(lease.promised, usage.cached):
            log.warning(
                "backend %s: no more pinning until it restarts: pinned requests do not find their prefixes", server.name
            )
            self._refresh(server)
        if lease.cached is not None:
            server.trust.judge_cache(lease.in_slots, lease.promised, usage.cached)
            engine.cache = server.trust.cache
            if usage.cached < lease.promised / 2:
                server.shadow.forget_older(lease.cached)

    def _record(self, server: Server, engine: Engine, lease: Lease, now: float) -> None:
        """Remember what was computed last where slots cannot be told apart, and that it cannot be reused yet."""
        if engine.slots or lease.chain is None:
            return
        if engine.settle > 0:
            lease.running.free_at = now
            engine.settling = [*(one for one in engine.settling if one.free_at + engine.settle > now), lease.running]
        if engine.capacity is not None:
            before = next((one for one in reversed(engine.recent) if one.chain.start == lease.chain.start), None)
            new = following(
                before if isinstance(before, Content) else None, lease.chain, lease.prompt, now, side=lease.running.side
            )
            engine.recent = [*(one for one in engine.recent if one is not before or not new.hits), new][-engine.capacity :]

    # what the servers tell

    def saw_slots(self, backend: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take what `/slots` shows."""
        server, now = self._servers.get(backend), self._clock.now()
        if server is None or not server.total:
            return
        for row in rows:
            slot = server.shadow.slot(row["id"]) if isinstance(row.get("id"), int) else None
            if slot is not None and slot.draining and row.get("is_processing") is False:
                slot.draining = False
        server.trust.looked = True
        server.ended.clear()
        server.tick(now)
        self._refresh(server)

    def on_event(self, event: Any) -> None:
        """Subscriber of the bus."""
        if isinstance(event, BackendProbed):
            self._probed(self._server(event.name), event.probe)
        elif isinstance(event, CircuitChanged):
            server = self._server(event.backend)
            server.circuit_open = event.open
            self._refresh(server)
        elif isinstance(event, BackendGone):
            self._gone(event.name)
        elif isinstance(event, RequestStarted):
            self._server(event.backend).begins()
        elif isinstance(event, RequestLeft):
            self._server(event.backend).ends(self._clock.now())

    def _probed(self, server: Server, probe: Probe) -> None:
        before, server.up = server.probe, probe.up
        if not probe.up:
            server.was_down = server.was_down or not probe.loading
            server.emptied()
            self._refresh(server)
            return
        server.probe = probe
        if before is not None and (before.mark != probe.mark or (server.was_down and probe.mark is None)):
            server.restarted()
        if probe.sleeping:
            server.emptied()
        server.was_down = False
        server.seats_changed()
        if probe.single_model:
            self._forget_named(server.name)
        self._refresh(server)

    def _gone(self, name: str) -> None:
        self._servers.pop(name, None)
        for key in [key for key in self.board.engines if key[0] == name]:
            del self.board.engines[key], self._learned[key]

    def _forget_named(self, name: str) -> None:
        """The server ignores names: engines that were made before that was known are not used any more."""
        for key in [key for key, engine in self.board.engines.items() if key[0] == name and key[1] and not engine.running]:
            del self.board.engines[key], self._learned[key]

    # what others ask and tell

    def expected(self, backend: str, model: str, chain: Chain) -> int | None:
        """Tokens that are expected to be reused by what the slots hold; None: no slot model here."""
        server = self._servers.get(backend)
        engine = self.board.engines.get(server.key(model)) if server else None
        return server.foresee(engine, chain) if server and engine and engine.slots else None

    def set_snapshots(self, backend: str, model: str, snapshots: Mapping[bytes, Snapshot], *, saves: bool) -> None:
        """The saved slots of an engine, by the digest of their last node. saves: a slot could be saved now."""
        engine = self.engine(backend, model)
        engine.snapshots = dict(snapshots)
        self._wanted[engine.backend, engine.model] = saves
        self._bring_up_to_date(self._servers[backend], engine)
        self._changed(backend)

    # the board

    def _server(self, name: str) -> Server:
        return self._servers.setdefault(name, Server(name))

    def _slot(self, lease: Lease) -> Any:
        server = self._servers.get(lease.key[0])
        return server.shadow.slot(lease.slot) if server and lease.slot is not None else None

    def _rate(self, server: Server, model: str) -> Prefill:
        fixed = server.config.prefill_rate if server.config else None
        return Fixed(fixed) if fixed else self._rates(server.name, model)

    def _refresh(self, server: Server) -> None:
        for key, engine in self.board.engines.items():
            if key[0] == server.name:
                self._bring_up_to_date(server, engine)
        self._exclude(server)
        self._changed(server.name)

    def _bring_up_to_date(self, server: Server, engine: Engine) -> None:
        """Write what is known of the server to one of its engines."""
        now, kind, config = self._clock.now(), server.kind, server.config
        engine.up, engine.circuit_open, engine.capacity = server.up, server.circuit_open, server.capacity
        engine.slots, engine.mode = server.shadow.slots, server.mode
        engine.pins = not server.why_no_pins(now)
        engine.cache = server.trust.cache if server.total else None
        engine.context = server.context if server.shared else None
        engine.shares, engine.settle = kind.shares, kind.settle
        allowed = not (config and config.snapshots == "never") and not server.foreign(now)
        engine.saves = allowed and self._wanted.get((engine.backend, engine.model), False)
        if server.probe is not None:
            engine.resident = _resident(server.probe, engine.model)

    def _exclude(self, server: Server) -> None:
        """Mark what cannot be loaded without pushing out a model that is in use."""
        if server.kind.evicts:
            engines = [engine for key, engine in self.board.engines.items() if key[0] == server.name]
            for engine in engines:
                others = any(other.running for other in engines if other is not engine)
                engine.exclusive = others and engine.resident is False

    def _changed(self, backend: str) -> None:
        self._bus.publish(BoardChanged(backend))

    def _remember(self, session: str, backend: str) -> None:
        if session:
            sessions = self.board.sessions
            sessions.pop(session, None)
            sessions[session] = backend
            while len(sessions) > SESSIONS:
                del sessions[next(iter(sessions))]

    def _make_room(self) -> None:
        """Forget the engine that was not used for longest and has nothing to do, if there are too many."""
        engines = self.board.engines
        if len(engines) >= ENGINES:
            idle = next((key for key, engine in engines.items() if not engine.running and not engine.waiting), None)
            if idle is not None:
                del engines[idle], self._learned[idle]


def _reading(engine: Engine, cached: int, prompt: int) -> float:
    known = engine.rate.seconds(cached, prompt)
    return max(0, prompt - cached) * GUESS if known is None else known


def _resident(probe: Probe, model: str) -> bool | None:
    """Whether the model is loaded; None where the server does not tell."""
    if not model:
        return next((one.resident for one in probe.models), None)
    plain = model.removesuffix(":latest")
    return next((one.resident for one in probe.models if one.name.removesuffix(":latest") == plain), None)
