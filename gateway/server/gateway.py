"""The running gateway: everything long-lived in one place, and the configuration that new requests begin with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import orjson
from aiohttp.web import BaseRequest

from gateway.backends.base import Kind
from gateway.clock import Clock, SystemClock
from gateway.config import Config, Listener
from gateway.control.second_look import SecondLook
from gateway.dialects.prefill import prefill
from gateway.dispatch.dispatcher import Dispatcher
from gateway.dispatch.evictions import Evictions
from gateway.dispatch.flight import Flight
from gateway.dispatch.plan import Place, address_of
from gateway.dispatch.scheduler import Scheduler
from gateway.dispatch.snapshots import Snapshots
from gateway.dispatch.upstream import Address, Upstream
from gateway.errors import ConfigError
from gateway.events import BackendGone, BackendProbed, Bus, HeadUsed, RequestClosed
from gateway.metrics import Metrics
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.routing.naming import OTHER
from gateway.routing.order import order
from gateway.routing.place import choose
from gateway.server import guard
from gateway.server.stable import Stabilizer, Stable
from gateway.state.accounting import Accounting
from gateway.state.board import Seats
from gateway.state.fleet import BackendState, Fleet
from gateway.state.log import Log
from gateway.state.memory import Memory
from gateway.state.requests import Requests
from gateway.state.residency import Residency
from gateway.state.settled import Settled
from gateway.values import Call, Client, Target

MAX_ID = 128  # characters of a request id that a client may bring
MAX_AGENT = 200


@dataclass(frozen=True, slots=True)
class Generation:
    """What one configuration comes to. A request keeps the generation that it began with."""

    config: Config
    catalog: Catalog
    addresses: Mapping[str, Address]
    states: Mapping[str, BackendState]
    doors: Mapping[tuple[str, int], Listener]
    stabilizer: Stabilizer
    residency: Residency

    def places(self, targets: Iterable[Target], view: FleetView, asked: str | None) -> tuple[Place, ...]:
        """asked: the model as the client named it."""
        return tuple(
            Place(one, self.states[one.backend], self.addresses[one.backend], known_as(view.get(one.backend), one, asked))
            for one in targets
        )


class Gateway:
    """Owns the long-lived parts. One writer of `now` and `draining`: the process (start, reload, stop); of
    `running`: begin and close."""

    def __init__(self, config: Config, clock: Clock | None = None):
        self.clock = clock or SystemClock()
        self.bus = Bus()
        self.fleet = Fleet(self.bus, self.clock)
        self.upstream = Upstream()
        self.metrics = Metrics(config.metrics.max_pairs)
        self.requests = Requests()
        self.log = Log()
        self.memory = Memory(config.state_dir, self.clock)
        self.accounting = Accounting(self.memory.secret, self.clock, self.bus)
        self.residency = Residency(self.bus, self.clock)
        self.seats = Seats(self.bus, self.clock, self.accounting.rate)
        self.accounting.promised = self.seats.promised
        self.second_look = SecondLook(self.accounting, self.fleet, self.clock, self._record)
        for subscriber in (self.metrics, self.requests, self.accounting, self.residency, self.seats, self.second_look):
            self.bus.subscribe(subscriber.on_event, *subscriber.hears)
        evictions = Evictions(self.seats.board, self._kind, self.clock)
        self.bus.subscribe(evictions.on_event, BackendProbed, BackendGone)
        self.scheduler = Scheduler(self.seats, evictions, self.bus, self.clock, choose, order)
        ring = self.memory.snapshots
        self.snapshots = Snapshots(ring, self.seats, self.fleet, self.upstream, self.bus, self.clock)
        self.dispatcher = Dispatcher(self.fleet, self.upstream, self.bus, self.scheduler, self.seats, self.snapshots)
        self.draining = False
        self.running = 0  # requests that have begun and not ended, wherever they wait
        self.scraped: float | None = None  # when /metrics was last asked for, seconds since the epoch
        self.now = self.take(config, addresses_of(config))

    def take(self, config: Config, addresses: Mapping[str, Address]) -> Generation:
        """Make this configuration the one that new requests begin with. Cannot fail."""
        self.fleet.apply(config.backends)
        self.seats.configure(config.backends)
        self.snapshots.configure(config.snapshots, config.backends, addresses)
        self.log.resize(config.explain.keep)
        self.accounting.configure(config.explain.keep, config.explain.store, config.routing.session_headers)
        doors = {(door.host, door.port): door for door in config.listeners}
        self.residency.configure(config.models)
        self.memory.pins.configure(config.warmup.learn)
        stabilizer, states = self._stabilizer(config), dict(self.fleet.states)
        self.now = Generation(config, _catalog(config), addresses, states, doors, stabilizer, self.residency)
        return self.now

    def _stabilizer(self, config: Config) -> Stabilizer:
        """The one that there is, with all that it has seen, unless its part of the configuration changed."""
        old: Generation | None = getattr(self, "now", None)
        if old is not None and old.config.canonical == config.canonical:
            return old.stabilizer
        return Stabilizer(config.canonical, self.memory, self.bus, self.clock)

    def forget(self) -> int:
        """Drop what was learned of prompts, and the texts that are kept for speed. Returns how many rows that were."""
        rows = self.memory.forget()
        self.accounting.forget()
        self.log.forget()
        fresh = Stabilizer(self.now.config.canonical, self.memory, self.bus, self.clock)
        self.now = replace(self.now, stabilizer=fresh)
        return rows

    def begin(self, request: BaseRequest) -> Flight:
        """A new flight for a request, counted from here."""
        agent = request.headers.get("User-Agent", "")[:MAX_AGENT]
        sent = request.headers.get("X-Request-Id", "")
        usable = 0 < len(sent) <= MAX_ID and sent.isascii() and sent.isprintable()
        request_id = sent if usable else f"{random.getrandbits(64):016x}"
        self.running += 1
        return Flight(request_id, Client(request.remote or "", agent), self.clock, request.path)

    def unparsed(self, request: BaseRequest, status: int, code: str) -> str:
        """Count a request that is refused because it could not be parsed. Returns its id."""
        flight = self.begin(request)
        flight.ends(status, "refused", code)
        self.close(flight)
        return flight.id

    def _kind(self, backend: str) -> Kind | None:
        state = self.fleet.states.get(backend)
        return state.kind if state else None

    def home(self, door: Listener) -> BackendState | None:
        """The backend that a listener looks like: the first of its identity, else the first."""
        states = self.fleet.states.values()
        return next((state for state in states if state.kind.name == door.identity), next(iter(states), None))

    def identity(self, door: Listener) -> str:
        """The kind of server that a listener answers as; `auto` while the first backend's is not known."""
        state = self.home(door)
        return door.identity if door.identity != "auto" else state.kind.name if state else "auto"

    def sort(self, call: Call, flight: Flight) -> Call:
        """The call with its kind: a turn of a conversation, or a side request."""
        flight.kind = kind = self.accounting.kind(call)
        return call if kind == call.kind else replace(call, kind=kind)

    def trace(self, stable: Stable, flight: Flight, *, counting: bool) -> None:
        """Note what the prompt is, before it is sent; one whose tokens are only counted leaves nothing in a cache."""
        if not counting:
            rules = self.now.config.canonical.rules
            flight.trace = self.accounting.begin(stable.original, flight.label, stable.result, stable.mode, rules)

    def learn(self, sent: Call, flight: Flight) -> None:
        """A turn of a conversation was answered: its head may be worth being read ahead. sent: as the backend had it."""
        trace, usage = flight.trace, flight.usage
        if trace is None or trace.side or sent.body is None or flight.backend is None:
            return
        chain = trace.went_out(bool(flight.edits)).chain
        if not chain.head:
            return
        ratio = usage.prompt / chain.size if usage.prompt and chain.size else self.accounting.ratio(trace.label)
        tokens = round(chain.size_at(chain.head) * ratio)

        def body() -> bytes | None:
            return prefill(sent.path, orjson.loads(sent.raw))

        state = self.fleet.states.get(flight.backend)
        mark = state.probe.mark if state and state.probe else None
        self.memory.pins.used(chain.start, trace.label, sent.model or "", sent.path, tokens, mark, body)
        self.bus.publish(HeadUsed(chain.start, trace.label, flight.backend))

    def close(self, flight: Flight) -> None:
        self.running -= 1
        settled = self.accounting.settle(flight.record(), flight.trace, edited=bool(flight.edits))
        self.second_look.hold(settled, flight.number)

    def _record(self, settled: Settled, number: int) -> None:
        self.log.add(settled.record, settled.explain)
        self.bus.publish(RequestClosed(settled.record, number))

    def destructive(self, method: str, path: str) -> bool:
        """Whether `passthrough: safe` refuses this path: what any server would be harmed by, and what these kinds would."""
        own = {glob for state in self.fleet.states.values() for glob in state.kind.destructive}
        return guard.destructive(method, path) or guard.destructive(method, path, tuple(sorted(own)))

    async def aclose(self) -> None:
        self.second_look.flush()
        await self.snapshots.aclose()
        await self.upstream.close()
        await asyncio.to_thread(self.memory.close)


def addresses_of(config: Config) -> dict[str, Address]:
    """Where each backend is reached. Raises ConfigError when a CA file cannot be used."""
    found = {}
    for name, backend in config.backends.items():
        try:
            found[name] = address_of(backend)
        except (OSError, ValueError) as error:
            raise ConfigError(f"backends.{name}.tls.ca: {backend.tls.ca} cannot be used: {error}") from error
    return found


def known_as(backend: BackendView | None, target: Target, asked: str | None) -> str | None:
    """By which routing knows the model that a target means, if the client named it so; None where the backend ignores names."""
    if backend is not None and backend.single_model:
        return None
    model = target.model or asked or OTHER
    return (backend.own_name(model) if backend is not None else None) or model


def _catalog(config: Config) -> Catalog:
    models = []
    for name, model in config.models.items():
        targets = tuple(Target(*text.split("/", 1)) for text in model.targets)
        side = Target(*model.side_target.split("/", 1)) if model.side_target else None
        models.append(NamedModel(name, tuple(model.aliases), targets, side))
    return Catalog(tuple(models))
