"""The way to a backend, with scripted servers: which try follows which, who waits, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict

from gateway.clock import SystemClock
from gateway.config import Backend
from gateway.dispatch import dispatcher as module
from gateway.dispatch.deadline import Deadline, Expired
from gateway.dispatch.dispatcher import Dispatcher, Reply
from gateway.dispatch.evictions import Evictions
from gateway.dispatch.flight import Flight
from gateway.dispatch.loading import says_loading
from gateway.dispatch.plan import Order, Place, address_of
from gateway.dispatch.scheduler import Scheduler
from gateway.dispatch.upstream import Upstream
from gateway.errors import Busy, Unreachable, UpstreamDied, UpstreamError, UpstreamLoading
from gateway.events import BackendRefused, Bus, RequestLeft, RequestStarted
from gateway.routing.board import Ask
from gateway.routing.order import order
from gateway.routing.place import choose
from gateway.state.fleet import Fleet
from gateway.values import Client, Probe, Target, Usage
from tests.dispatch.standin import Seats
from tests.support.process import free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import fin, json_reply, never, rst, wait

CHAT = "/v1/chat/completions"
LOADING = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


class Rig:
    """A dispatcher in front of backends at these URLs, all of kind `openai`. events: what was published."""

    def __init__(self, *urls: str, **settings: Any):
        self.backends = {f"b{n}": Backend(url=url, kind="openai", **settings) for n, url in enumerate(urls)}
        bus, self.events = Bus(), list[Any]()
        bus.subscribe(self.events.append)
        self.fleet = Fleet(bus, SystemClock())
        self.fleet.apply(self.backends)
        self.upstream = Upstream()
        self.seats = Seats(bus, {name: config.parallel for name, config in self.backends.items()})
        evictions = Evictions(self.seats.board, lambda name: self.fleet.states[name].kind, SystemClock())
        scheduler = Scheduler(self.seats, evictions, bus, SystemClock(), choose, order)
        self.dispatcher = Dispatcher(self.fleet, self.upstream, bus, scheduler, self.seats)
        self.flight = self.new_flight()

    def new_flight(self) -> Flight:
        return Flight("id", Client("127.0.0.1", ""), SystemClock(), CHAT)

    def order(
        self, *, placed: bool = True, single_use: bool = False, queue: int = 8, first: int | None = None, **asked: Any
    ) -> Order:
        """asked: fields of its Ask, if it is placed by one."""
        places = tuple(
            Place(Target(name, "m"), self.fleet.states[name], address_of(config), "tiny")
            for name, config in self.backends.items()
        )
        return Order(
            method="POST",
            path_query=lambda *_: CHAT,
            places=places,
            label="tiny",
            headers=lambda target, kind: CIMultiDict({"X-Sent-To": target.backend}),
            body=lambda target, kind, slot: b"{}" if slot is None else b'{"id_slot":%d}' % slot,
            ask=Ask((), None, {}, **asked) if placed else None,
            first=None if first is None else places[first],
            queue=queue,
            single_use=single_use,
            decode=True,
        )

    @asynccontextmanager
    async def open(self, flight: Flight | None = None, **order: Any) -> AsyncIterator[Reply]:
        async with Deadline() as deadline, self.dispatcher.open(self.order(**order), flight or self.flight, deadline) as reply:
            yield reply

    async def ask(self, flight: Flight | None = None, **order: Any) -> tuple[str, bytes]:
        """Which backend answered, and what."""
        async with self.open(flight, **order) as reply:
            return reply.target.backend, reply.head + await reply.response.read()

    def balanced(self) -> bool:
        """Whether nothing is in flight, no seat is taken, and each start that was published has its end."""
        starts = [event.backend for event in self.events if isinstance(event, RequestStarted)]
        ends = [event.backend for event in self.events if isinstance(event, RequestLeft)]
        free = not any(engine.running or engine.waiting for engine in self.seats.board.engines.values())
        return free and sorted(starts) == sorted(ends) and not any(one.in_flight for one in self.fleet.states.values())


@asynccontextmanager
async def rig(*urls: str, **settings: Any) -> AsyncIterator[Rig]:
    made = Rig(*urls, **settings)
    try:
        yield made
    finally:
        await made.upstream.close()
    assert made.balanced()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOADING_PAUSE", (0.01, 0.02))
    monkeypatch.setattr(module, "REFUSED_PAUSE", 0.05)
    monkeypatch.setattr(module, "LOADING_LIMIT", 0.2)


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port()}"


async def test_the_first_that_can_be_reached_answers() -> None:
    async with ScriptedUpstream() as server, rig(nowhere(), server.url) as made:
        server.on(CHAT, *json_reply({"ok": 1}))
        assert await made.ask() == ("b1", b'{"ok":1}')
        assert server.asked(CHAT)[0].header("X-Sent-To") == "b1"
        assert (made.flight.retries, made.flight.backend) == (1, "b1")
        assert made.fleet.states["b0"].breaker.failures == 1


async def test_three_refusals_open_the_circuit_and_an_answer_closes_it() -> None:
    async with ScriptedUpstream() as server, rig(server.url) as made:
        server.on(CHAT, *json_reply({}))
        await server.stop()
        for _ in range(2):  # each is tried twice
            with pytest.raises(Unreachable):
                await made.ask()
        assert made.fleet.view.backends[0].circuit_open
        await server.start()
        await made.ask()  # the last backend is tried even so
        assert not made.fleet.view.backends[0].circuit_open


async def test_a_server_that_is_just_being_restarted() -> None:
    async with ScriptedUpstream() as server, rig(server.url) as made:
        server.on(CHAT, *json_reply({}))
        await server.stop()
        asking = asyncio.create_task(made.ask())
        while not made.fleet.states["b0"].breaker.failures:
            await asyncio.sleep(0.001)
        await server.start()
        assert (await asking)[0] == "b0"
        assert made.flight.retries == 1


async def test_loading_is_waited_for() -> None:
    async with ScriptedUpstream() as server, rig(server.url) as made:
        for _ in range(3):
            server.once(CHAT, *json_reply(LOADING, 503))
        server.on(CHAT, *json_reply({}))
        assert (await made.ask())[0] == "b0"
        assert (len(server.asked(CHAT)), made.flight.retries) == (4, 3)
        assert not made.fleet.states["b0"].breaker.failures, "it is no failure"


async def test_loading_is_not_waited_for_where_another_answers_or_for_ever() -> None:
    async with ScriptedUpstream() as server, ScriptedUpstream() as other, rig(server.url, other.url) as made:
        server.on(CHAT, *json_reply(LOADING, 503))
        other.once(CHAT, *json_reply({}))
        assert (await made.ask())[0] == "b1"
        other.on(CHAT, *json_reply(LOADING, 503))
        with pytest.raises(UpstreamLoading) as raised:
            await made.ask()
        assert raised.value.retry_after == 5


async def test_any_other_503_is_the_client_s_to_see() -> None:
    async with ScriptedUpstream() as server, ScriptedUpstream() as other, rig(server.url, other.url) as made:
        server.on(CHAT, *json_reply({"error": "server busy"}, 503))
        assert await made.ask() == ("b0", b'{"error":"server busy"}')
        server.on(CHAT, *json_reply(LOADING, 503))
        assert (await made.ask(placed=False))[0] == "b0", "what is passed through is passed as it is"
        assert not other.asked(CHAT)


@pytest.mark.parametrize("step", [fin(), rst()])
async def test_a_server_that_took_the_request_is_not_asked_again(step: Any) -> None:
    """It may be working on it: only a connection that could not be made is tried elsewhere."""
    async with ScriptedUpstream() as server, ScriptedUpstream() as other, rig(server.url, other.url) as made:
        server.on(CHAT, step)
        with pytest.raises(UpstreamDied):
            await made.ask()
        assert (len(server.asked(CHAT)), len(other.asked(CHAT))) == (1, 0)


async def test_what_can_be_sent_once_is_sent_once() -> None:
    async with ScriptedUpstream() as server, rig(nowhere(), server.url) as made:
        with pytest.raises(Unreachable):
            await made.ask(single_use=True)
        assert not server.asked(CHAT)


async def test_no_target_at_all() -> None:
    async with rig() as made:
        with pytest.raises(UpstreamError, match="No backend"):
            await made.ask()


async def test_one_after_another_and_a_bound_on_those_who_wait() -> None:
    go = asyncio.Event()
    async with ScriptedUpstream() as server, rig(server.url, parallel=1) as made:
        server.on(CHAT, wait(go), *json_reply({}))
        flights = [made.new_flight() for _ in range(3)]
        asking = [asyncio.create_task(made.ask(flight, queue=2)) for flight in flights]
        await server.wait_for(CHAT)
        while made.dispatcher.waiting("b0") < 2:
            await asyncio.sleep(0.001)
        assert len({flight.number for flight in flights}) == 3, "though their id is the same"
        with pytest.raises(Busy) as raised:
            await made.ask(queue=2)
        assert (raised.value.status, raised.value.code) == (429, "queue_full")
        counting = asyncio.create_task(made.ask(placed=False))  # small things never wait
        await server.wait_for(CHAT, 2)
        await asyncio.sleep(0.05)
        go.set()
        await asyncio.gather(*asking, counting)
        assert flights[0].queue < 0.05 <= flights[1].queue <= flights[2].queue


async def test_where_too_many_wait_another_is_asked() -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as first, ScriptedUpstream() as second, rig(first.url, second.url, parallel=1) as made:
        first.on(CHAT, wait(go_on), *json_reply({"n": 1}))
        second.on(CHAT, wait(go_on), *json_reply({"n": 2}))
        flights = [made.new_flight() for _ in range(2)]
        asked = [asyncio.create_task(made.ask(flight, queue=0)) for flight in flights]
        async with asyncio.timeout(5):
            while made.fleet.load("b0") + made.fleet.load("b1") < 2:
                await asyncio.sleep(0.01)
        with pytest.raises(Busy, match="wait for b0"):
            await made.ask(made.new_flight(), queue=0)
        go_on.set()
        assert [name for name, _ in await asyncio.gather(*asked)] == ["b0", "b1"]
    async with ScriptedUpstream() as first, rig(first.url, nowhere(), parallel=1) as made:
        first.on(CHAT, never())
        asking = asyncio.create_task(made.ask(made.new_flight(), queue=0))
        async with asyncio.timeout(5):
            while made.fleet.load("b0") < 1:
                await asyncio.sleep(0.01)
        with pytest.raises(Busy, match="wait for b0"):
            await made.ask(made.new_flight(), queue=0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_who_waits_is_served_as_soon_as_there_is_more_room() -> None:
    go = asyncio.Event()
    async with ScriptedUpstream() as server, rig(server.url, parallel=1) as made:
        server.on(CHAT, wait(go), *json_reply({}))
        flights = [made.new_flight() for _ in range(4)]
        asking = [asyncio.create_task(made.ask(flight)) for flight in flights]
        await server.wait_for(CHAT)
        await asyncio.sleep(0.02)
        assert made.dispatcher.waiting("b0") == 3
        made.seats.resize("b0", 3)
        await server.wait_for(CHAT, 3)
        await asyncio.sleep(0.02)
        assert made.dispatcher.waiting("b0") == 1
        go.set()
        await asyncio.gather(*asking)
        assert [flight.waited_for for flight in flights] == [None, "full", "full", "full"]


async def test_an_expired_wait_gives_up_its_turn_and_is_on_record() -> None:
    async with ScriptedUpstream() as server, rig(server.url, parallel=1, timeouts={"first_byte": "200ms"}) as made:
        server.on(CHAT, never())
        first = asyncio.create_task(made.ask(made.new_flight()))
        await server.wait_for(CHAT)
        with pytest.raises(Expired) as raised:
            await made.ask()
        assert raised.value.waiting in ("queue", "upstream")
        assert made.flight.queue > 0.05
        with pytest.raises(Expired) as raised:
            await first
        assert raised.value.waiting == "upstream"
        assert made.dispatcher.waiting("b0") == 0
        assert await server.connections[-1].peer_closed(1)


async def test_leaving_the_block_closes_what_was_not_read() -> None:
    async with ScriptedUpstream() as server, rig(server.url) as made:
        server.on(CHAT, *json_reply({}))
        async with made.open() as reply:
            assert reply.response.status == 200
            assert made.fleet.load("b0") == 1
        server.on(CHAT, *json_reply({"x": "y" * 300_000}))
        async with made.open():
            pass
        assert await server.connections[-1].peer_closed(1)


async def test_those_who_left_the_queue_while_a_place_became_free() -> None:
    """Cancelled in the same turn of the loop in which the place is given away: nobody is woken twice, no place is lost."""
    go = asyncio.Event()
    async with ScriptedUpstream() as server, rig(server.url, parallel=1) as made:
        server.on(CHAT, wait(go), *json_reply({}))
        first, second, third = (asyncio.create_task(made.ask(made.new_flight())) for _ in range(3))
        await server.wait_for(CHAT)
        while made.dispatcher.waiting("b0") < 2:
            await asyncio.sleep(0.001)
        second.cancel()
        first.cancel()
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        go.set()
        assert (await third)[0] == "b0"


@pytest.mark.parametrize(
    ("body", "loading"),
    [
        (b'{"error": {"type": "unavailable_error", "message": "x"}}', True),
        (b'{"error": {"message": "Model is Loading"}}', True),
        (b'{"error": "loading model"}', True),
        (b'{"error": "busy"}', False),
        (b'{"error": null}', False),
        (b"[1]", False),
        (b"loading", False),
        (b"", False),
    ],
)
def test_says_loading(body: bytes, loading: bool) -> None:
    assert says_loading(body) is loading


async def test_small_things_try_the_healthy_first() -> None:
    async with ScriptedUpstream() as server, ScriptedUpstream() as other, rig(server.url, other.url) as made:
        other.on(CHAT, *json_reply({}))
        made.fleet.saw("b0", made.backends["b0"], Probe("openai", up=False), 0.0)
        made.fleet.saw("b1", made.backends["b1"], Probe("openai", up=True), 0.0)
        assert (await made.ask(placed=False))[0] == "b1"
        assert not server.asked(CHAT)
        assert made.seats.taken == []


async def test_a_request_may_have_a_place_of_its_own() -> None:
    async with ScriptedUpstream() as server, ScriptedUpstream() as side, rig(server.url, side.url) as made:
        server.on(CHAT, *json_reply({}))
        side.on(CHAT, *json_reply({}))
        assert (await made.ask(first=1))[0] == "b1"
        await side.stop()
        assert (await made.ask(first=1))[0] == "b0", "unless that is not there"


async def test_who_refuses_is_told_of_once_a_try() -> None:
    async with ScriptedUpstream() as server, rig(nowhere(), server.url) as made:
        server.on(CHAT, *json_reply({}))
        await made.ask()
        assert [event.name for event in made.events if isinstance(event, BackendRefused)] == ["b0"]
        assert [told[:1] for told in made.seats.told] == [("drop",), ("leave",)]


async def test_what_the_seats_hear() -> None:
    """The first content, the usage of who was answered, and whether the server has ended its work by itself."""
    async with ScriptedUpstream() as server, rig(server.url) as made:
        server.on(CHAT, *json_reply({"ok": 1}))
        flight = made.new_flight()
        async with made.open(flight) as reply:
            await reply.response.read()
            flight.saw_first("content")
            flight.usage = Usage(prompt=7)
        assert made.seats.told == [("first", flight.number), ("leave", flight.number, Usage(prompt=7), True)]

        server.on(CHAT, *json_reply({"error": "no"}, 400))
        async with made.open():
            pass
        assert made.seats.told[-1][2:] == (None, True)

        server.on(CHAT, *json_reply({"x": "y" * 300_000}))
        async with made.open(made.new_flight()):
            pass
        assert made.seats.told[-1][2:] == (None, False), "the client has left, and the server may not know yet"

        server.on(CHAT, *json_reply(LOADING, 503))
        with pytest.raises(UpstreamLoading):
            await made.ask()
        assert {told[0] for told in made.seats.told[4:]} == {"drop"}, "it has not begun to work on it"

        server.on(CHAT, rst())
        with pytest.raises(UpstreamDied):
            await made.ask()
        assert made.seats.told[-1][2:] == (None, True), "who closes the connection works on it no more"

        server.on(CHAT, never())
        before = len(server.asked(CHAT))
        asking = asyncio.create_task(made.ask())
        await server.wait_for(CHAT, before + 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert made.seats.told[-1][0] == "leave"
        assert made.seats.told[-1][2:] == (None, False)


async def test_a_body_that_cannot_be_made_leaves_nothing_behind() -> None:
    def broken(*_: Any) -> bytes:
        raise ZeroDivisionError

    async with ScriptedUpstream() as server, rig(server.url) as made:
        unmakeable = replace(made.order(), body=broken)
        with pytest.raises(ZeroDivisionError):
            async with Deadline() as deadline, made.dispatcher.open(unmakeable, made.flight, deadline):
                raise AssertionError("sent")
        assert [told[0] for told in made.seats.told] == ["drop"]


async def test_a_server_that_dies_of_a_request_is_left_for_another() -> None:
    """It took the request, broke the connection, and takes no more: so it does not work on it."""
    async with ScriptedUpstream() as server, ScriptedUpstream() as other, rig(server.url, other.url) as made:
        other.on(CHAT, *json_reply({}))

        server.on(CHAT, never())
        asking = asyncio.create_task(made.ask())
        await server.wait_for(CHAT)
        await server.stop()
        assert (await asking)[0] == "b1"
        assert (made.flight.retries, len(server.asked(CHAT))) == (1, 1)
        assert [event.name for event in made.events if isinstance(event, BackendRefused)] == ["b0"]


async def test_seats_that_fail_cost_nobody_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedUpstream() as server, rig(server.url) as made:
        server.on(CHAT, *json_reply({}))
        free = made.seats._free

        def broken(number: int) -> None:
            free(number)
            raise ZeroDivisionError

        made.seats._free = broken  # type: ignore[method-assign]
        assert (await made.ask())[0] == "b0"
    assert "could not be noted" in caplog.text
