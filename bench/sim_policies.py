"""The policies that are compared: four that people use, and Warmgate's `choose` and `order` with a small board of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.sim import Server, Task, Time
from bench.sim_work import Request
from gateway.prefix.chain import Chain
from gateway.routing.board import Ask, Board, Choice, Engine, Held, Running, Slot
from gateway.routing.match import shared
from gateway.routing.order import order
from gateway.routing.place import choose
from gateway.values import Target

RETRY = 0.1
"""Seconds after which a request is sent again whose server has died."""


class Policy:
    """Sends requests to servers, and again when one dies."""

    def __init__(self, time: Time, servers: list[Server]) -> None:
        self.time, self.servers = time, servers
        self.answered: list[Request] = []

    def send(self, request: Request) -> None:
        raise NotImplementedError

    def changed(self, server: Server) -> None:
        """The server has died or come back."""

    def give(self, request: Request, server: Server, pin: int | None, told: Callable[[str], None]) -> None:
        def first() -> None:
            request.ttft = self.time.now - request.came
            told("first")

        def done() -> None:
            self.answered.append(request)
            told("done")
            request.ended()

        def failed() -> None:
            request.tries += 1
            told("failed")
            self.time.after(RETRY, lambda: self.send(request))

        server.submit(Task(request.chain, request.answer, first, done, failed, pin))


class Rival(Policy):
    """Chooses a server; the server chooses the slot, and makes requests wait."""

    def send(self, request: Request) -> None:
        able = [server for server in self.servers if server.up]
        if not able:
            self.time.after(1.0, lambda: self.send(request))
            return
        self.give(request, self.pick(request, able), None, lambda what: None)

    def pick(self, request: Request, able: list[Server]) -> Server:
        raise NotImplementedError


class RoundRobin(Rival):
    _next = 0

    def pick(self, request: Request, able: list[Server]) -> Server:
        self._next += 1
        return able[self._next % len(able)]


class LeastBusy(Rival):
    def pick(self, request: Request, able: list[Server]) -> Server:
        return min(able, key=lambda server: server.load)


class SessionPin(LeastBusy):
    """A session stays where it began, at the server that was the least busy then."""

    def __init__(self, time: Time, servers: list[Server]) -> None:
        super().__init__(time, servers)
        self._homes: dict[str, Server] = {}

    def pick(self, request: Request, able: list[Server]) -> Server:
        home = self._homes.get(request.session)
        if home is None or not home.up:
            home = self._homes[request.session] = super().pick(request, able)
        return home


class PrefixTree(LeastBusy):
    """The server that was sent most of the prompt, if that is more than half of it, else the one that was sent least in all;
    the least busy one while the load is out of balance. As the router of SGLang does it."""

    MATCH, LARGER, RATIO = 0.5, 2, 1.5

    def __init__(self, time: Time, servers: list[Server]) -> None:
        super().__init__(time, servers)
        self._sent: dict[str, set[bytes]] = {server.name: set() for server in servers}

    def pick(self, request: Request, able: list[Server]) -> Server:
        digests = request.chain.digests
        loads = [server.load for server in able]
        matched = {server.name: self._matched(server, digests) for server in able}
        best = max(able, key=lambda server: matched[server.name])
        if max(loads) - min(loads) > self.LARGER and max(loads) > self.RATIO * min(loads):
            chosen = super().pick(request, able)
        elif matched[best.name] > self.MATCH * len(digests):
            chosen = best
        else:
            chosen = min(able, key=lambda server: len(self._sent[server.name]))
        self._sent[chosen.name].update(digests)
        return chosen

    def _matched(self, server: Server, digests: tuple[bytes, ...]) -> int:
        sent = self._sent[server.name]
        return next((at for at, digest in enumerate(digests) if digest not in sent), len(digests))

    def changed(self, server: Server) -> None:
        self._sent[server.name].clear()


@dataclass
class Believed:
    """A rate that is believed, whatever the true one is. each: seconds for a token."""

    each: float

    def seconds(self, cached: int, prompt: int) -> float:
        return self.each * max(0, prompt - cached)


@dataclass(eq=False)
class Waiter:
    ask: Ask
    since: float
    request: Request


class Warmgate(Policy):
    """Seats and waiting list in small: what the real ones do with what a server tells, without its HTTP. rates: tokens in a
    second, as believed."""

    def __init__(self, time: Time, servers: list[Server], rates: dict[str, float]) -> None:
        super().__init__(time, servers)
        self.board = Board({(one.name, "m"): self._engine(one, rates[one.name]) for one in servers})
        self._targets = tuple(Target(server.name, None) for server in servers)
        self._by_name = {server.name: server for server in servers}
        self._waiting: list[Waiter] = []
        self._flights = 0
        self._timer = float("inf")

    def _engine(self, server: Server, rate: float) -> Engine:
        slots = [Slot(number) for number in range(server.count)]
        return Engine(
            server.name,
            "m",
            Believed(1 / rate),
            capacity=server.count,
            mode="kept",
            slots=slots,
            pins=True,
            cache=False,
            ratio=1.0,
        )

    def send(self, request: Request) -> None:
        now = self.time.now
        ask = Ask(self._targets, request.chain, {}, request.side, True, True, session=request.session, label="m")
        waiter = Waiter(ask, now, request)
        self._waiting.append(waiter)
        self._place([waiter])

    def changed(self, server: Server) -> None:
        engine = self.board.engines[server.name, "m"]
        engine.up = server.up
        engine.slots = [Slot(number) for number in range(server.count)]
        engine.running.clear()
        self._look()

    def _look(self) -> None:
        self._timer = float("inf")
        self._place(order(self.board, self._waiting, self.time.now))

    def _place(self, waiters: list[Waiter]) -> None:
        now = self.time.now
        for waiter in waiters:
            waiter.ask.held = now - waiter.since
            choice = choose(self.board, waiter.ask, now)
            if choice.hold:
                self._look_again(choice.until or now + 1.0)
            else:
                self._waiting.remove(waiter)
                self._take(waiter, choice)

    def _look_again(self, when: float) -> None:
        if when < self._timer - 1e-3:
            self._timer = when
            self.time.at(when, lambda: self._look() if self._timer == when else None)

    def _take(self, waiter: Waiter, choice: Choice) -> None:
        request, now = waiter.request, self.time.now
        server = self._by_name[choice.target.backend]
        engine = self.board.engines[choice.target.backend, "m"]
        self._flights += 1
        number, chain = self._flights, request.chain
        warm_at = now + engine.rate.seconds(min(choice.reused, chain.size), chain.size)  # type: ignore[operator]
        running = Running(chain, request.side, True, chain.size + request.answer, warm_at, warm_at + engine.answer, choice.slot)
        engine.running[number] = running
        slot = engine.slots[choice.slot] if choice.slot is not None and choice.pin else None
        if slot is not None:
            slot.flight, slot.free_at = number, running.free_at
            slot.held = successor(slot.held, chain, request.side, now)
        if request.session:
            self.board.sessions[request.session] = engine.backend

        def told(what: str) -> None:
            at = self.time.now
            if what == "first":
                running.warm_at, running.free_at = at, at + engine.answer
                if slot is not None:
                    slot.free_at = running.free_at
            elif engine.running.pop(number, None) is not None and slot is not None:
                slot.flight = None
                if slot.held is not None:
                    slot.held.used, slot.held.tokens = at, chain.size + request.answer
                if what == "done":
                    engine.answer += 0.1 * (at - running.warm_at - engine.answer)
            if self._waiting:
                self._look()

        self.give(request, server, choice.slot if choice.pin else None, told)


def successor(held: Held | None, chain: Chain, side: bool, now: float) -> Held:
    """What a slot holds when it has taken a request: a conversation that goes on is the same prefix, used once more."""
    if held is None or shared(held.chain, chain) < len(held.chain.digests):
        return Held(chain, chain.size, now, now, side=side)
    gap = now - held.used
    usual = gap if held.gap is None else held.gap + 0.3 * (gap - held.gap)
    return Held(chain, chain.size, held.came, now, held.hits + 1, usual, side)
