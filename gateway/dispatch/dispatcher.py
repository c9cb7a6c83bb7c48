"""The one way to a backend: a place, what must be done to its slot before, the connection, retries, and who is told about it.

A request that routing knows of goes where the scheduler says; one that is small or unknown goes to its places in their order.
Another try is made only while not one byte of an answer has been seen: after a connection that could not be made, and after
"503 loading", which is waited for when there is nowhere else to go; and after a server that took the request has died of it or
beside it, which is known when it takes connections no more.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol

import aiohttp

from gateway.backends.base import Kind
from gateway.dispatch.deadline import Deadline
from gateway.dispatch.flight import Flight
from gateway.dispatch.held import Held
from gateway.dispatch.loading import unless_loading
from gateway.dispatch.plan import Order, Place
from gateway.dispatch.reading import Body
from gateway.dispatch.scheduler import Scheduler, Seating
from gateway.dispatch.upstream import Address, Upstream, listens
from gateway.errors import Busy, Unreachable, UpstreamDied, UpstreamError, UpstreamLoading
from gateway.events import BackendRefused, Bus, RequestLeft, RequestStarted
from gateway.routing.board import Ask, Choice
from gateway.state.fleet import BackendState, Fleet
from gateway.values import Target, Usage

log = logging.getLogger("warmgate.routing")

LOADING_LIMIT = 120.0  # seconds to wait for a model that is being loaded
LOADING_PAUSE = (0.25, 2.0)  # first and longest pause between two looks
REFUSED_PAUSE = 0.5  # one more round after all targets refused: a server that is just being restarted


class Snapshots(Protocol):
    """What the dispatcher needs of `gateway.dispatch.snapshots.Snapshots`."""

    async def prepare(self, place: Place, choice: Choice, order: Order, ask: Ask) -> Choice: ...

    def turn(self, place: Place, choice: Choice, ask: Ask) -> AbstractAsyncContextManager[Choice]: ...

    def judged(self, choice: Choice, usage: Usage) -> None: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that has begun. Its body is `head` (what has been read already) and what `body` still brings; leaving the
    dispatcher's context closes the connection unless the body was read to its end."""

    response: aiohttp.ClientResponse
    body: Body
    head: bytes
    target: Target
    kind: Kind
    first_byte: float  # limits of this backend, in seconds
    idle: float


@dataclass(slots=True)
class Try:
    """One try at one place. choice, ask: None where routing was not asked; sent: the backend may have begun to work on it;
    broken: it closed the connection."""

    place: Place
    choice: Choice | None = None
    ask: Ask | None = None
    sent: bool = False
    response: aiohttp.ClientResponse | None = None
    broken: bool = False

    def close(self) -> None:
        """Close the connection, unless it is free for others already."""
        if self.response is not None:
            self.broken = self.response.content.exception() is not None
            self.response.close()

    def finished(self, flight: Flight) -> bool:
        """Whether the backend has ended its work by itself: it answered to the end, or with an error, or closed the
        connection. Else it may go on for a while, because a client that leaves is not noticed at once."""
        response = self.response
        if response is None:
            return self.broken
        return self.broken or flight.outcome == "ok" or response.status >= 400 or response.content.at_eof()


class Opening:
    """`async with dispatcher.open(...) as reply`."""

    __slots__ = ("_dispatcher", "_held", "_wanted")

    def __init__(self, dispatcher: Dispatcher, *wanted: Any):
        self._dispatcher, self._wanted, self._held = dispatcher, wanted, Held()

    async def __aenter__(self) -> Reply:
        reply, self._held = await self._dispatcher.first_that_answers(*self._wanted)
        return reply

    async def __aexit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._held.release()


class Dispatcher:
    """Sends through the one upstream client; tells the seats what becomes of who got one. snapshots: None: there are none."""

    def __init__(
        self,
        fleet: Fleet,
        upstream: Upstream,
        bus: Bus,
        scheduler: Scheduler,
        seats: Seating,
        snapshots: Snapshots | None = None,
    ):
        self._fleet, self._upstream, self._bus = fleet, upstream, bus
        self._scheduler, self._seats, self._snapshots = scheduler, seats, snapshots

    def waiting(self, backend: str) -> int:
        return self._scheduler.waiting(backend)

    def open(self, order: Order, flight: Flight, deadline: Deadline) -> Opening:
        """Entering raises Refusal or UpstreamError (also for a deadline's sake Expired, from the caller's own deadline)."""
        return Opening(self, order, flight, deadline)

    async def first_that_answers(self, order: Order, flight: Flight, deadline: Deadline) -> tuple[Reply, Held]:
        """For `Opening`. Raises as `open` does."""
        waited, pause, tries = 0.0, LOADING_PAUSE[0], 0
        while True:
            loading, failure, full = None, None, None
            places = self._healthy_first(order)
            while places:
                try:
                    one = await self._choose(places, order, flight, deadline)
                except Busy as error:
                    full = error
                    break
                flight.retries += tries > 0
                tries += 1
                try:
                    return await self._try(one, order, flight, deadline)
                except UpstreamLoading as error:
                    loading = loading or error
                except UpstreamError as error:
                    failure = failure or error
                    if order.single_use or not isinstance(error, Unreachable):
                        raise
                places = [place for place in places if place.state.name != one.place.state.name]
            if full and loading is None:
                raise full
            if loading is None and (waited or not isinstance(failure, Unreachable)):
                raise failure or Unreachable("No backend is configured for this request.")
            if waited >= LOADING_LIMIT or order.single_use:
                raise loading or failure or Unreachable("No backend could be reached.")
            pause = min(pause * 2, LOADING_PAUSE[1]) if loading else REFUSED_PAUSE
            deadline.move(pause + 1, "upstream")
            await asyncio.sleep(pause)
            waited += pause

    def _healthy_first(self, order: Order) -> list[Place]:
        """For who goes in turn; for who is placed the order is only what the names prefer."""
        if order.ask is not None or len(order.places) < 2:
            return list(order.places)
        well = {one.name for one in self._fleet.view.backends if one.up and not one.circuit_open}
        return sorted(order.places, key=lambda place: place.state.name not in well)

    async def _choose(self, places: list[Place], order: Order, flight: Flight, deadline: Deadline) -> Try:
        """The next place, and the seat there if routing is asked for one. Raises Busy."""
        if order.ask is None:
            return Try(places[0])
        deadline.move(max(place.state.config.timeouts.first_byte for place in places), "queue")
        able = [order.first] if order.first in places and order.first is not None else places
        ask = replace(order.ask, targets=tuple(place.known_as for place in able), held=flight.queue)
        began = flight.clock.now()
        try:
            choice = await self._scheduler.place(ask, flight.number, order.queue, order.warm, flight.waits)
        finally:
            flight.queue += flight.clock.now() - began
        flight.goes(choice)
        place = next((place for place in able if place.known_as == choice.target), able[0])
        return Try(place, choice, ask)

    async def _try(self, one: Try, order: Order, flight: Flight, deadline: Deadline) -> tuple[Reply, Held]:
        """One try at one target. What it holds (a seat, the count, the connection) comes with the reply, to be given back when
        that is done with; it is given back at once when there is none."""
        held = Held()
        if one.choice is not None:
            flight.tell_first = partial(self._seats.first, flight.number)
            held.keep(partial(self._leave, one, flight))
        try:
            return await self._ask(one, order, flight, deadline, held), held
        except BaseException:
            held.release()
            raise

    async def _ask(self, one: Try, order: Order, flight: Flight, deadline: Deadline, held: Held) -> Reply:
        state, limits = one.place.state, one.place.state.config.timeouts
        self._start(state, flight)
        held.keep(partial(self._stop, state, flight))
        deadline.move(limits.first_byte, "upstream")
        response = one.response = await self._begin(one, order, flight)
        held.keep(one.close)
        body = Body(response, decode=order.decode)
        flight.headers_at = flight.clock.now()
        if one.choice is not None:
            self._note_slot(one, flight)
        self._fleet.succeeded(state.name)
        head = b""
        if response.status == 503 and order.ask is not None:
            try:
                head = await unless_loading(body, state.name)
            except UpstreamLoading:
                one.sent = False
                raise
        return Reply(response, body, head, one.place.target, state.kind, limits.first_byte, limits.idle)

    async def _begin(self, one: Try, order: Order, flight: Flight) -> aiohttp.ClientResponse:
        """Prepare the slot, and send; where it must be so, nobody else starts at this backend in between."""
        if self._snapshots is None or one.choice is None or one.ask is None:
            return await self._send(one, order)
        prepared = await self._snapshots.prepare(one.place, one.choice, order, one.ask)
        async with self._snapshots.turn(one.place, prepared, one.ask) as one.choice:
            flight.goes(one.choice)
            return await self._send(one, order)

    async def _send(self, one: Try, order: Order) -> aiohttp.ClientResponse:
        target, kind, choice, ask = one.place.target, one.place.state.kind, one.choice, one.ask
        pins = choice is not None and choice.pin and ask is not None and ask.asked_slot is None  # a client's own slot stands
        slot = choice.slot if choice is not None and pins else None
        path_query, headers, body = order.path_query(target, kind), order.headers(target, kind), order.body(target, kind, slot)
        one.sent = True
        try:
            return await self._upstream.send(order.method, one.place.address, path_query, headers, body)
        except UpstreamDied as error:
            one.broken = True
            if await self.is_gone(one.place.state.name, one.place.address):
                raise Unreachable(str(error)) from error
            raise
        except Unreachable as error:
            one.sent = False
            self._fleet.failed(one.place.state.name)
            if _refused(error):
                self._bus.publish(BackendRefused(one.place.state.name))
            raise

    async def is_gone(self, backend: str, address: Address) -> bool:
        """Whether a backend that has broken a connection is no longer there."""
        if await listens(address):
            return False
        self._fleet.failed(backend)
        self._bus.publish(BackendRefused(backend))
        return True

    def _start(self, state: BackendState, flight: Flight) -> None:
        """Count the request as in flight at this backend, and say so outward."""
        state.in_flight += 1
        flight.backend = state.name
        self._bus.publish(RequestStarted(flight.id, state.name, flight.number))

    def _stop(self, state: BackendState, flight: Flight) -> None:
        state.in_flight -= 1
        self._bus.publish(RequestLeft(flight.id, state.name, flight.number))

    def _note_slot(self, one: Try, flight: Flight) -> None:
        """The slot that it is now believed to have: where it was not pinned, the server chose."""
        target = one.place.known_as
        running = self._seats.engine(target.backend, target.model or "").running.get(flight.number)
        if running is not None and running.slot is not None:
            flight.slot = running.slot

    def _leave(self, one: Try, flight: Flight) -> None:
        """Give the seat back. What was never sent, or answered with "loading", has left nothing behind."""
        flight.tell_first = None
        self._note_slot(one, flight)
        answered = flight.first is not None or flight.usage.prompt is not None
        try:
            if not one.sent:
                self._seats.drop(flight.number)
                return
            self._seats.leave(flight.number, flight.usage if answered else None, finished=one.finished(flight))
            if self._snapshots is not None and one.choice is not None and answered:
                self._snapshots.judged(one.choice, flight.usage)
        except Exception:  # what is believed of a slot is never worth an answer
            log.exception("what request %s left behind could not be noted", flight.id)


def _refused(error: Unreachable) -> bool:
    """Whether nobody listens there: no server, so nothing of what it held either."""
    return isinstance(getattr(error.__cause__, "os_error", None), ConnectionRefusedError)
