"""What is done with saved slots around a request: the slot is saved, the head computed ahead, the prefix restored.

Around one request, in this order:

    choice = await snapshots.prepare(place, choice, order, ask)         saves and leads; others may start meanwhile
    async with snapshots.turn(place, choice, ask) as choice:            restores; where it has to, nothing else starts meanwhile
        ... send, with the slot and the pin of this choice, and wait for the headers ...
    snapshots.judged(choice, usage)                                     when the reply has told what was reused

Nothing here fails a request: what does not work is left out of the choice, at the cost of a prefill.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

from gateway.backends import slot_files
from gateway.backends.control import Control
from gateway.backends.slot_files import Row
from gateway.clock import Clock
from gateway.config import Backend
from gateway.config.snapshots import Snapshots as Settings
from gateway.dispatch.leads import LOOK, Lead, Leads
from gateway.dispatch.plan import Order, Place
from gateway.dispatch.saver import Saver
from gateway.dispatch.turns import LIMIT, Turn, Turns
from gateway.dispatch.upstream import Address, Upstream
from gateway.errors import Unreachable
from gateway.events import BackendGone, BackendProbed, Bus
from gateway.routing.board import Ask, Board, Choice, Engine, Snapshot
from gateway.state.fleet import Fleet
from gateway.state.snapshots import Ring
from gateway.values import Probe, Usage

log = logging.getLogger("warmgate.snapshots")

MAX_STALL = 0.1
"""Seconds for which a stream of somebody else may be stopped by a save."""

PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.4, 0.4)
"""Seconds between looks at whether a request has started that gets its headers with the end of its answer."""

PATIENCE = 5.0
"""Seconds for one answer of the control path, where no other limit is given."""


class Seating(Protocol):
    """What is needed of `gateway.state.board.Seats`."""

    board: Board

    def set_snapshots(self, backend: str, model: str, snapshots: Mapping[bytes, Snapshot], *, saves: bool) -> None: ...


class Snapshots:
    """Owns the savers, one for each server that may have slots to save, and the turns. Written on the event loop only."""

    def __init__(self, ring: Ring, seats: Seating, fleet: Fleet, upstream: Upstream, bus: Bus, clock: Clock):
        self._ring, self._seats, self._fleet, self._bus, self._clock = ring, seats, fleet, bus, clock
        self._turns = Turns()
        self._leads = Leads(upstream, self._turns)
        self._savers: dict[str, Saver] = {}
        self._configured: dict[str, tuple[Backend, Address]] = {}
        self._settings = Settings()
        self._closing: set[asyncio.Task[None]] = set()
        bus.subscribe(self._on_event, BackendProbed, BackendGone)

    def configure(self, settings: Settings, backends: Mapping[str, Backend], addresses: Mapping[str, Address]) -> None:
        """Take over a configuration. What is known of a server survives if its entry is unchanged."""
        self._settings = settings
        self._ring.configure(settings.disk, settings.writes_per_day)
        before, self._configured = self._configured, {name: (backends[name], addresses[name]) for name in backends}
        for name in [name for name in self._savers if self._configured.get(name) != before.get(name)]:
            self._drop(name)
        for saver in self._savers.values():
            self._offer(saver)

    # around a request

    async def prepare(self, place: Place, choice: Choice, order: Order, ask: Ask) -> Choice:
        """Save what the choice says, and compute its head if it leads. Takes as long as that takes; never raises."""
        if not (choice.save or choice.lead):
            return choice
        saver, engine = self._saver(place), self._engine(choice, ask)
        if saver is None or engine is None:
            return replace(choice, save=False, lead=0)
        try:
            if choice.save:
                await self._save(saver, engine, choice, ask)
            if choice.lead:
                choice = await self._lead(saver, engine, place, choice, order, ask)
        except Exception:
            log.exception("backend %s: its slots could not be saved", saver.backend)
            choice = replace(choice, lead=0)
        return choice

    @asynccontextmanager
    async def turn(self, place: Place, choice: Choice, ask: Ask) -> AsyncIterator[Choice]:
        """Restore what the choice says, and see to it that nothing starts in between. Left when the request has its headers.

        Gives the choice as it came out: another slot, or nothing restored. The turn of the server is kept for two seconds at
        most from the restore on, and nobody waits longer for it.
        """
        saver, engine = self._saver(place), self._engine(choice, ask)
        if saver is None or engine is None:
            yield _without(choice)
        elif engine.mode == "kept" and choice.pin:  # the slot is this request's own
            yield await self._restored(saver, choice) if choice.restore else choice
        elif not (choice.restore or engine.snapshots or self._leads.running(saver.backend)):
            yield choice
        else:
            async with self._turns.turn(saver.backend, LIMIT) as turn:
                if turn is None:
                    yield _without(choice)
                else:
                    async with self._alone(saver, turn, choice, ask) as choice:
                        yield choice

    def judged(self, choice: Choice, usage: Usage) -> None:
        """What came of a request. choice: as `turn` gave it."""
        saver = self._savers.get(choice.target.backend)
        if saver is not None and choice.restore is not None and usage.cached is not None and usage.prompt is not None:
            saver.judged(choice.restore, usage.cached, usage.prompt)

    # steps

    async def _save(self, saver: Saver, engine: Engine, choice: Choice, ask: Ask) -> None:
        """What the slot holds is saved before it is overwritten, unless that would take longer than computing it again."""
        held, slot = choice.replaced, choice.slot
        if held is None or slot is None or not self._settings.conversations or not held.chain.digests:
            return
        if held.chain.digests[-1] in saver.snapshots or self._disturbs(saver, engine, held.tokens, ask):
            return
        worth = engine.rate.seconds(0, held.tokens)
        saving = saver.spawn(saver.save(slot, held.chain, len(held.chain.digests), held.tokens))
        await asyncio.wait({saving}, timeout=PATIENCE if worth is None else worth)

    async def _lead(self, saver: Saver, engine: Engine, place: Place, choice: Choice, order: Order, ask: Ask) -> Choice:
        chain, nodes = ask.chain, choice.lead
        if chain is None or nodes > len(chain.digests):
            return replace(choice, lead=0)
        pinned = choice.slot if engine.mode == "kept" and choice.pin else None
        snapshot = saver.snapshots.get(chain.digests[nodes - 1])
        if snapshot is None:
            tokens = round(chain.size_at(nodes) * engine.ratio)
            if not saver.can_save or self._disturbs(saver, engine, tokens, ask):
                return replace(choice, lead=0)
            snapshot, slot = await self._leads.follow(Lead(saver, place, order, chain, nodes, pinned, choice.slot))
            if snapshot is None:
                return replace(choice, lead=0)
            if pinned is not None and slot == pinned:  # it is there already
                return replace(choice, reused=snapshot.tokens)
        return replace(choice, restore=snapshot, reused=snapshot.tokens)

    @asynccontextmanager
    async def _alone(self, saver: Saver, turn: Turn, choice: Choice, ask: Ask) -> AsyncIterator[Choice]:
        """The request has the turn: nothing else starts."""
        rows = await self._rows(saver) if choice.restore or not ask.stream else []
        if choice.restore:
            slot = _idle(rows, choice.slot)
            choice = await self._restored(saver, replace(choice, slot=slot)) if slot is not None else _without(choice)
        turn.begin()
        if not ask.stream:  # its headers come with the end of its answer
            saver.spawn(self._watch(saver, turn, max((row.task for row in rows), default=-1)))
        yield choice

    async def _restored(self, saver: Saver, choice: Choice) -> Choice:
        """The choice with its snapshot in its slot, or without one."""
        if choice.restore is None or choice.slot is None or not await saver.prove(choice.slot):
            return _without(choice)
        return choice if await saver.restore(choice.slot, choice.restore) else _without(choice)

    async def _watch(self, saver: Saver, turn: Turn, newest: int) -> None:
        """End the turn when a task has begun that is newer than what was there before."""
        for pause in PAUSES:
            await asyncio.sleep(pause)
            if turn.ended:
                return
            if any(row.task > newest for row in await self._rows(saver)):
                turn.end()
                return

    async def _rows(self, saver: Saver) -> list[Row]:
        try:
            return await slot_files.rows(saver.control, LOOK)
        except Unreachable:
            return []

    def _disturbs(self, saver: Saver, engine: Engine, tokens: int, ask: Ask) -> bool:
        """Whether saving so many tokens would stop somebody else's stream for too long."""
        others = [
            one
            for other in self._seats.board.engines.values()
            if other.backend == engine.backend
            for one in other.running.values()
            if one.stream and one.chain is not ask.chain
        ]
        return bool(others) and saver.stall(tokens) > MAX_STALL

    # the servers

    def _on_event(self, event: object) -> None:
        if isinstance(event, BackendProbed):
            self._probed(event.name, event.probe)
        elif isinstance(event, BackendGone):
            self._drop(event.name)

    def _probed(self, name: str, probe: Probe) -> None:
        state = self._fleet.states.get(name)
        if state is None or name not in self._configured:
            return
        if not (state.kind.slot_files and self._settings.disk):
            self._drop(name)
        elif not probe.up:
            if (
                name in self._savers and self._savers[name].process.mark is None
            ):  # else the mark will tell whether it is another
                self._savers[name].lost()
        elif probe.single_model and probe.slots and not probe.sleeping:
            self._met(name).meet(probe.mark)

    def _met(self, name: str) -> Saver:
        saver = self._savers.get(name)
        if saver is None:
            config, address = self._configured[name]
            control = Control(config.base_url.removesuffix("/v1"), config.headers, address.tls, timeout=PATIENCE)
            saver = self._savers[name] = Saver(name, control, self._ring, self._bus, self._clock, self._offer)
        return saver

    def _offer(self, saver: Saver) -> None:
        """Routing is told what can be restored, and whether anything can be saved."""
        if self._savers.get(saver.backend) is saver:
            self._seats.set_snapshots(saver.backend, "", saver.snapshots, saves=saver.can_save)
            self._bus.publish(saver.changes())

    def _drop(self, name: str) -> None:
        saver = self._savers.pop(name, None)
        if saver is not None:
            self._seats.set_snapshots(name, "", {}, saves=False)
            task = asyncio.get_running_loop().create_task(saver.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _saver(self, place: Place) -> Saver | None:
        saver = self._savers.get(place.state.name)
        return saver if saver is not None and saver.usable else None

    def _engine(self, choice: Choice, ask: Ask) -> Engine | None:
        return self._seats.board.engine(choice.target, ask.label)

    # for people

    def status(self, backend: str) -> dict[str, Any] | None:
        """What `/status` shows of a backend; None where no slot is saved."""
        saver = self._savers.get(backend)
        if saver is None:
            return None
        return {
            "available": saver.process.saves,
            "given_up": saver.process.given_up or None,
            "count": len(saver.snapshots),
            "tokens": sum(one.tokens for one in saver.snapshots.values()),
            "bytes": self._ring.size(backend),
            "written_today": self._ring.written_today,
            "done": {f"{act} {outcome}": count for (act, outcome), count in sorted(saver.done.items())},
        }

    def forget(self) -> None:
        """After the ring was told to forget: nothing is offered any more."""
        for saver in self._savers.values():
            saver.process.own.clear()
            self._offer(saver)

    async def aclose(self) -> None:
        for name in list(self._savers):
            self._drop(name)
        await asyncio.gather(*self._closing)


def _without(choice: Choice) -> Choice:
    """The choice, as what was to be restored is not there."""
    return choice if choice.restore is None else replace(choice, restore=None, reused=0)


def _idle(rows: list[Row], wanted: int | None) -> int | None:
    """The slot that was chosen, else the idle one that holds least; None if all are busy."""
    idle = [row for row in rows if not row.busy]
    best = min(idle, key=lambda row: (row.number != wanted, row.tokens or 0), default=None)
    return best.number if best else None
