"""The one writer of the board that routing reads: what each server works on, what its slots hold, what is learned of it.

On the event loop, without I/O; nothing here fails a request. What slots hold is believed by the server's own rules
(`gateway.state.shadow`) and put right by what `/slots` shows (`gateway.state.slot_look`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.clock import Clock
from gateway.config import Backend
from gateway.events import (
    BackendGone,
    BackendProbed,
    BackendRefused,
    BoardChanged,
    Bus,
    CircuitChanged,
    RequestLeft,
    RequestStarted,
)
from gateway.prefix.chain import STEP, Chain
from gateway.routing.board import Ask, Board, Choice, Engine, Mode, Running, Slot, Snapshot
from gateway.state import slot_look, slot_rows
from gateway.state.content import Content, following
from gateway.state.engines import Engines, Rates
from gateway.state.leases import Lease
from gateway.state.shown import shown
from gateway.state.slot_look import Look
from gateway.state.slot_rows import Rows
from gateway.state.slot_server import Ended, Server
from gateway.values import Probe, Usage

log = logging.getLogger("warmgate.slots")

SESSIONS = 4096
"""Sessions of which the last backend is remembered."""

GUESS = 1e-3
"""Seconds that a token takes to read, while nothing is known."""

MODES = {
    "kept": "its idle slots keep what they hold; requests can be pinned to them",
    "emptied": "its idle slots are emptied when another starts; requests are not pinned",
    "unknown": "it is not known what becomes of its idle slots",
}

FOREIGN_ADVICE = (
    "no pinning and no snapshots for ten minutes; if it is another gateway, give each its own under backends.*.slots"
)


class Seats:
    """rates: what was learned of how fast a backend reads."""

    hears = (RequestStarted, RequestLeft, BackendProbed, BackendRefused, BackendGone, CircuitChanged)

    def __init__(self, bus: Bus, clock: Clock, rates: Rates) -> None:
        self.board = Board()
        self._bus, self._clock = bus, clock
        self._engines = Engines(self.board, clock, rates)
        self._leases: dict[int, Lease] = {}

    def configure(self, backends: Mapping[str, Backend]) -> None:
        """Take over the backends of a configuration."""
        for name, config in backends.items():
            server = self._engines.server(name)
            if server.config != config:
                server.config = config
                server.seats_changed()
                self._refresh(server)

    def engine(self, backend: str, model: str) -> Engine:
        """The engine of a model, by the backend's own name of it; made on first use."""
        return self._engines.get(backend, model)

    # requests come and go

    def take(self, number: int, ask: Ask, choice: Choice, place: tuple[str, str]) -> None:
        """A request is given to an engine. number: its flight's; place: the backend, and its own name of the model."""
        engine, now = self.engine(*place), self._clock.now()
        server = self._engines.servers[engine.backend]
        engine.rate = self._engines.rate(server, ask.label or engine.model)
        chain, prompt = ask.chain, round(ask.chain.size * engine.ratio) if ask.chain else 0
        running = Running(chain, ask.side, ask.stream, 0, now, now, lead=choice.lead)
        lease = Lease(number, engine, running, chain, None, choice.pin, prompt, choice.reused, now, ask.session)
        lease.whole = ask.whole
        if engine.slots:
            self._seat(server, lease, choice)
        load = engine.load if engine.resident is False else 0.0
        running.tokens = prompt + (ask.limit or self._engines.learned(engine).tokens)
        running.warm_at = now + load + _reading(engine, lease.promised, prompt)
        running.free_at = running.warm_at + engine.answer
        if slot := self._slot(lease):
            slot.free_at = running.free_at
        engine.running[number], self._leases[number] = running, lease
        self._engines.used(engine)
        self._engines.exclude(server)
        self._remember(ask.session, engine.backend)

    def _seat(self, server: Server, lease: Lease, choice: Choice) -> None:
        """Find the slot that the server gives it, and believe that it holds the prompt from now on."""
        shadow, engine = server.shadow, lease.engine
        lease.works = bool(choice.lead or choice.save or choice.restore)
        if lease.works and choice.slot is not None:
            server.filled.add(choice.slot)
        slot = shadow.slot(choice.slot) if choice.slot is not None and (choice.pin or choice.restore) else None
        if lease.chain is None:
            slot = slot or next((slot for slot in shadow.slots if slot.idle), None)
        else:
            caches, emptied = engine.cache is not False, server.mode == "emptied"
            number = slot.number if slot else None
            start = shadow.start(lease.chain, lease.prompt, number, caches=caches, emptied=emptied)
            lease.foreseen(start)
            if choice.restore is not None or choice.lead:
                lease.promised, lease.restored = max(choice.reused, lease.promised), True
            lease.content = following(start.before, lease.chain, lease.prompt, lease.taken, lease.running.side, lease.session)
            lease.content.counted = self._engines.learned(engine).counted
            slot = start.slot
        if slot is not None:
            lease.slot = lease.running.slot = slot.number
            slot.flight, slot.held = lease.number, lease.content

    def first(self, number: int) -> None:
        """The first content of the request's answer has come."""
        lease = self._leases.get(number)
        if lease is None or lease.first is not None:
            return
        lease.first = lease.running.warm_at = self._clock.now()
        lease.running.free_at = lease.first + lease.engine.answer
        if slot := self._slot(lease):
            slot.free_at = lease.running.free_at
        self._changed(lease.backend)

    def leave(self, number: int, usage: Usage | None, *, finished: bool) -> None:
        """The request is over. finished: the server has ended it; else it was given up, and its slot counts as free when
        `/slots` shows so, or after half a minute."""
        lease = self._leases.pop(number, None)
        if lease is None:
            return
        lease.engine.running.pop(number, None)
        server = self._engines.servers.get(lease.backend)
        if server is None:  # no longer in the configuration
            return
        usage, now = usage or Usage(), self._clock.now()
        if finished:
            self._learn(server, lease, usage, now)
        if lease.engine.slots:
            self._give_back(server, lease, usage, now, finished=finished)
        elif lease.chain is not None:
            _record(lease, now)
        self._engines.exclude(server)
        self._changed(server.name)

    def drop(self, number: int) -> None:
        """The request was placed, and never sent."""
        lease = self._leases.pop(number, None)
        if lease is None:
            return
        lease.engine.running.pop(number, None)
        if (slot := self._slot(lease)) and slot.flight == number:
            slot.flight, slot.held = None, lease.before
        if server := self._engines.servers.get(lease.backend):
            self._engines.exclude(server)
        self._changed(lease.backend)

    def _give_back(self, server: Server, lease: Lease, usage: Usage, now: float, *, finished: bool) -> None:
        """Free the slot, and believe that it holds what was read and generated."""
        content, slot = lease.ends(usage, now, finished=finished), self._slot(lease)
        ended = Ended(lease.slot, lease.pinned, content, usage.prompt is not None, lease.before, now, lease.first is not None)
        server.in_turn = server.in_turn and finished and ended.sure
        if slot is None or slot.flight != lease.number:
            server.ended.append(ended)
            return
        slot.flight, slot.held = None, content
        server.shadow.used[slot.number] = now
        if finished or server.blind:
            server.ended.append(ended)
        else:
            slot.draining, server.drains[slot.number] = True, replace(ended, content=lease.content)

    def _learn(self, server: Server, lease: Lease, usage: Usage, now: float) -> None:
        engine, learned = lease.engine, self._engines.learned(lease.engine)
        learned.ended(usage, lease.chain.size if lease.chain else 0, now - lease.first if lease.first is not None else None)
        for node, tokens in lease.counts(usage):
            learned.count(node, tokens)
        engine.ratio, engine.answer, engine.load = learned.ratio.value, learned.answer, learned.load
        if usage.cached is None or not engine.slots or lease.restored:
            return
        if lease.pinned and server.trust.judge_pin(lease.promised, usage.cached):
            log.warning(
                "backend %s: no more pinning until it restarts: pinned requests do not find their prefixes", server.name
            )
            self._refresh(server)
        if lease.start is not None and lease.content is not None:
            server.cache_told(lease.content, lease.start, usage.cached)
            if not lease.promised and usage.cached < STEP // 8:
                learned.strange[lease.running.side] = usage.cached
            engine.cache = server.trust.cache

    # what the servers tell

    def watches(self, backend: str) -> bool:
        """Whether `/slots` of this backend should be looked at now. A look wakes a server that sleeps, and keeps it awake."""
        server = self._engines.servers.get(backend)
        if server is None or not server.total or server.blind or not server.up:
            return False
        if server.probe is None or server.probe.sleeping:
            return False
        return bool(server.open or server.drains or server.unlooked)

    def unmet(self, backend: str) -> tuple[int, ...]:
        """The slots of ours on a server that nobody uses and of which nothing was seen yet; () where nothing is to be found out
        about them, or a look would wake it."""
        server = self._engines.servers.get(backend)
        if server is None or server.blind or not server.up or server.open or server.trust.looked:
            return ()
        return () if server.probe is None or server.probe.sleeping else server.own

    def met(self, backend: str, rows: Rows, mode: Mode, cache: bool | None, used: Sequence[int] = ()) -> None:
        """What was found out about a server before anybody asked it for anything. rows: of the last look at its slots; cache:
        whether it has one besides them, None if that did not show; used: slots in which something was run, the last one last.
        """
        server = self._engines.servers.get(backend)
        if server is None or rows.keys() != set(range(server.total)):
            return
        server.mode, server.shared, server.tried = mode, mode == "emptied", True
        server.rows, server.tasks, server.unseen = dict(rows), 0, 0
        server.shadow.used.update({number: self._clock.now() + at * 1e-6 for at, number in enumerate(used)})
        server.trust.looked, server.trust.has_cache = True, cache
        log.info("backend %s: %s", backend, MODES[mode])
        self._refresh(server)

    def try_slot(self, backend: str) -> int | None:
        """A slot in which the gateway may run a few words to see what becomes of the others, None if there is no need or
        nothing to see. Requests that begin alike all go to one slot, so that the mode would never show. The slot holds nothing,
        nobody is at work, and `end_try` must follow."""
        server = self._engines.servers.get(backend)
        if server is None or not self.watches(backend) or server.open or (number := server.fresh()) is None:
            return None
        server.begins()
        server.tried = True
        return number

    def end_try(self, backend: str, cache: bool | None) -> None:
        """cache: whether there is one besides the slots, None if that did not show."""
        if server := self._engines.servers.get(backend):
            server.ends()
            server.trust.has_cache = cache
            self._refresh(server)

    def saw_slots(self, backend: str, rows: Sequence[Mapping[str, Any]], asked: float | None = None) -> None:
        """Take what `/slots` shows. asked: when it was asked for, in monotonic seconds."""
        server, now = self._engines.servers.get(backend), self._clock.now()
        if server is None or not server.total:
            return
        found, mode = slot_rows.read(rows), server.mode
        if found is None or found.keys() != set(range(server.total)):
            self.cannot_look(backend, f"/slots does not show the {server.total} slots that the server says it has")
            return
        leases = [lease for lease in self._leases.values() if lease.backend == backend]
        working = any(lease.works and lease.first is None for lease in leases)
        stranger = slot_look.correct(server, leases, Look(found, now if asked is None else asked, now, working))
        server.trust.looked, server.unlooked = True, bool(server.open) or server.fresh() is not None
        server.tick(now)
        if server.mode != mode:
            log.info("backend %s: %s", backend, MODES[server.mode])
        if stranger and server.trust.saw_foreign(now):
            log.warning("backend %s: somebody else uses its slots: %s", backend, FOREIGN_ADVICE)
        self._refresh(server)

    def cannot_look(self, backend: str, problem: str) -> None:
        """`/slots` tells nothing that can be used; problem: why, in words. It is not looked at again until a restart."""
        server = self._engines.servers.get(backend)
        if server is not None and not server.trust.problem:
            server.trust.problem = problem
            log.info("backend %s: no pinning: %s", backend, problem)
            self._refresh(server)

    def on_event(self, event: Any) -> None:
        """Subscriber of the bus."""
        if isinstance(event, RequestStarted):
            self._engines.server(event.backend).begins()
        elif isinstance(event, RequestLeft):
            self._engines.server(event.backend).ends()
        elif isinstance(event, BackendProbed):
            self._probed(self._engines.server(event.name), event.probe)
        elif isinstance(event, CircuitChanged):
            server = self._engines.server(event.backend)
            server.circuit_open = event.open
            self._refresh(server)
        elif isinstance(event, BackendRefused):
            server = self._engines.server(event.name)
            server.refused()
            self._refresh(server)
        elif isinstance(event, BackendGone):
            self._engines.gone(event.name)

    def _probed(self, server: Server, probe: Probe) -> None:
        server.saw(probe)
        server.tick(self._clock.now())
        if probe.up and probe.single_model:
            self._engines.forget_named(server)
        self._refresh(server)

    # what others ask and tell

    def expected(self, backend: str, model: str, chain: Chain) -> int | None:
        """Tokens that are expected to be reused by what the slots hold; None: no slot model here."""
        server = self._engines.servers.get(backend)
        if server is None or not server.total:
            return None
        engine = self.engine(backend, model)
        shadow, prompt = server.shadow, round(chain.size * engine.ratio)
        return shadow.foresee(chain, prompt, None, caches=engine.cache is not False).reused

    def shown(self, backend: str) -> dict[str, Any] | None:
        """For people: how its slots are used; None where it has none."""
        server = self._engines.servers.get(backend)
        return shown(server, self._clock) if server and server.total else None

    def why_no_pins(self, backend: str) -> str:
        """Why requests are not pinned there, in words; "" if they are."""
        server = self._engines.servers.get(backend)
        return server.why_no_pins(self._clock.now()) if server else "it is not known"

    def slots(self, backend: str) -> tuple[Sequence[Slot], str]:
        """A backend's own slots, and the fault for which requests are not pinned to them, in a word; "" if there is none."""
        server = self._engines.servers.get(backend)
        if server is None:
            return (), ""
        own = server.own
        return [slot for slot in server.shadow.slots if slot.number in own], server.fault(self._clock.now())

    def promised(self, number: int) -> int | None:
        """Tokens that a request which was given a slot should find there; None for any other."""
        lease = self._leases.get(number)
        if lease is None or lease.chain is None or not lease.engine.slots:
            return None
        return lease.promised or self._engines.learned(lease.engine).strange.get(lease.running.side, 0)

    def set_snapshots(self, backend: str, model: str, snapshots: Mapping[bytes, Snapshot], saves: bool) -> None:
        """The saved slots of an engine, by the digest of their last node. saves: a slot could be saved now."""
        engine = self.engine(backend, model)
        engine.snapshots = dict(snapshots)
        self._engines.set_saves(engine, saves)
        self._changed(backend)

    def _slot(self, lease: Lease) -> Slot | None:
        server = self._engines.servers.get(lease.backend)
        return server.shadow.slot(lease.slot) if server and lease.slot is not None else None

    def _refresh(self, server: Server) -> None:
        self._engines.refresh(server)
        self._changed(server.name)

    def _changed(self, backend: str) -> None:
        self._bus.publish(BoardChanged(backend))

    def _remember(self, session: str, backend: str) -> None:
        if session:
            sessions = self.board.sessions
            sessions.pop(session, None)
            sessions[session] = backend
            while len(sessions) > SESSIONS:
                del sessions[next(iter(sessions))]


def _record(lease: Lease, now: float) -> None:
    """Remember what was computed last where slots cannot be told apart, and that it cannot be reused yet."""
    engine, chain, running = lease.engine, lease.chain, lease.running
    assert chain is not None
    if engine.settle > 0:
        running.free_at = now
        engine.settling = [*(one for one in engine.settling if one.free_at + engine.settle > now), running]
    if engine.capacity is not None:
        before = next((one for one in reversed(engine.recent) if one.chain.start == chain.start), None)
        new = following(before if isinstance(before, Content) else None, chain, lease.prompt, now, running.side, lease.session)
        engine.recent = [*(one for one in engine.recent if one is not before or not new.hits), new][-engine.capacity :]


def _reading(engine: Engine, cached: int, prompt: int) -> float:
    known = engine.rate.seconds(cached, prompt)
    return max(0, prompt - cached) * GUESS if known is None else known
