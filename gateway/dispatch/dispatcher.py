"""The one way to a backend: admission, connection, retries, and who is told about it.

A request is tried on its targets in order. Another try is made only while not one byte of an answer has been seen: where too
many wait already, after a connection that could not be made, and after "503 loading", which is waited for when there is nowhere
else to go.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import aiohttp
import orjson

from gateway.backends.base import Kind
from gateway.dispatch.admission import Admission
from gateway.dispatch.deadline import Deadline
from gateway.dispatch.flight import Flight
from gateway.dispatch.held import Held
from gateway.dispatch.plan import Order, Place
from gateway.dispatch.reading import Body
from gateway.dispatch.upstream import Upstream
from gateway.errors import Busy, Unreachable, UpstreamDied, UpstreamError, UpstreamLoading
from gateway.events import BackendProbed, Bus, RequestLeft, RequestStarted
from gateway.state.fleet import BackendState, Fleet
from gateway.values import Target
from gateway.wire.inflate import Undecodable

LOADING_LIMIT = 120.0  # seconds to wait for a model that is being loaded
LOADING_PAUSE = (0.25, 2.0)  # first and longest pause between two looks
REFUSED_PAUSE = 0.5  # one more round after all targets refused: a server that is just being restarted
MAX_ERROR = 64 << 10  # bytes of a 503 that are read to see what it says


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
    """Owns the gates; sends through the one upstream client."""

    def __init__(self, fleet: Fleet, upstream: Upstream, bus: Bus):
        self._fleet, self._upstream, self._bus = fleet, upstream, bus
        self._admission = Admission()
        bus.subscribe(self._on_event)

    def waiting(self, backend: str) -> int:
        return self._admission.waiting(backend)

    def load(self, backend: str) -> int:
        """Requests that a new one would have to share this backend with, or wait behind."""
        return self._fleet.load(backend) + self.waiting(backend)

    def open(self, order: Order, flight: Flight, deadline: Deadline) -> Opening:
        """Entering raises Refusal or UpstreamError (also for a deadline's sake Expired, from the caller's own deadline)."""
        return Opening(self, order, flight, deadline)

    async def first_that_answers(self, order: Order, flight: Flight, deadline: Deadline) -> tuple[Reply, Held]:
        """For `Opening`. Raises as `open` does."""
        waited, pause = 0.0, LOADING_PAUSE[0]
        while True:
            loading, failure, full = None, None, None
            for place in order.places:
                if failure or loading or waited:
                    flight.retries += 1
                try:
                    return await self._try(place, order, flight, deadline)
                except Busy as error:
                    full = full or error
                except UpstreamLoading as error:
                    loading = loading or error
                except UpstreamError as error:
                    failure = failure or error
                    if order.single_use or not isinstance(error, Unreachable):
                        raise
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

    async def _try(self, place: Place, order: Order, flight: Flight, deadline: Deadline) -> tuple[Reply, Held]:
        """One try at one target. What it holds (a place, the count, the connection) comes with the reply, to be given back when
        that is done with; it is given back at once when there is none."""
        held = Held()
        try:
            return await self._ask(place, order, flight, deadline, held), held
        except BaseException:
            held.release()
            raise

    async def _ask(self, place: Place, order: Order, flight: Flight, deadline: Deadline, held: Held) -> Reply:
        state, limits = place.state, place.state.config.timeouts
        deadline.move(limits.first_byte, "queue")
        if order.gated:
            began = flight.clock.now()
            model = place.target.model or order.label
            try:
                held.keep(await self._admission.enter(state.name, model, self._capacity(state), order.queue))
            finally:
                flight.queue += flight.clock.now() - began
        self._start(state, flight)
        held.keep(partial(self._stop, state, flight))
        deadline.move(limits.first_byte, "upstream")
        response = await self._send(place, order)
        held.keep(response.close)
        body = Body(response, decode=order.decode)
        flight.headers_at = flight.clock.now()
        self._fleet.succeeded(state.name)
        head = await self._unless_loading(body, state) if response.status == 503 and order.gated else b""
        return Reply(response, body, head, place.target, state.kind, limits.first_byte, limits.idle)

    async def _send(self, place: Place, order: Order) -> aiohttp.ClientResponse:
        kind = place.state.kind
        try:
            return await self._upstream.send(
                order.method,
                place.address,
                order.path_query(place.target, kind),
                order.headers(place.target, kind),
                order.body(place.target, kind),
            )
        except Unreachable:
            self._fleet.failed(place.state.name)
            raise

    def _on_event(self, event: object) -> None:
        if isinstance(event, BackendProbed) and (state := self._fleet.states.get(event.name)):
            self._admission.resize(event.name, self._capacity(state))

    def _start(self, state: BackendState, flight: Flight) -> None:
        """Count the request as in flight at this backend, and say so outward."""
        state.in_flight += 1
        flight.backend = state.name
        self._bus.publish(RequestStarted(flight.id, state.name, flight.number))

    def _stop(self, state: BackendState, flight: Flight) -> None:
        state.in_flight -= 1
        self._bus.publish(RequestLeft(flight.id, state.name, flight.number))

    def _capacity(self, state: BackendState) -> int | None:
        """What the server says that it works on at once; else what the configuration says; else no limit of ours."""
        seen = state.good.slots if state.good else None
        return seen if seen is not None else state.config.parallel

    async def _unless_loading(self, body: Body, state: BackendState) -> bytes:
        """llama-server answers 503 to everything while it reads its model; any other 503 is the client's to see.

        Returns the beginning of the body, which has been read to find that out. Raises UpstreamLoading.
        """
        head = b""
        try:
            while len(head) < MAX_ERROR and (piece := await body.read()):
                head += piece
        except (aiohttp.ClientError, OSError, Undecodable) as error:
            raise UpstreamDied(f"{state.name} closed the connection before its answer was complete.") from error
        if says_loading(head):
            raise UpstreamLoading(f"{state.name} is still loading its model; try again in a moment.", retry_after=5)
        return head


def says_loading(body: bytes) -> bool:
    try:
        error = orjson.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    if isinstance(error, dict):
        return error.get("type") == "unavailable_error" or "loading" in str(error.get("message", "")).lower()
    return isinstance(error, str) and "loading" in error.lower()
