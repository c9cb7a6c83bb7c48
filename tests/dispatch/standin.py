"""A small board for tests of dispatch; and what decides by it: the least busy engine with room, first come, first served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.dispatch.scheduler import Waiter
from gateway.events import BoardChanged, Bus
from gateway.routing.board import Ask, Board, Choice, Engine, Running
from gateway.values import Target


class Rate:
    def seconds(self, cached: int, prompt: int) -> float | None:
        return None


class Seats:
    """capacities: by backend. taken: (number, backend) in order; one can be taken once. told: (what, number, more)."""

    def __init__(self, bus: Bus, capacities: dict[str, int | None]):
        self.board, self.taken = Board(), list[tuple[int, str]]()
        self.told = list[tuple[Any, ...]]()
        self.capacities = capacities
        self._bus = bus
        self._at: dict[int, Engine] = {}

    def engine(self, backend: str, model: str) -> Engine:
        key = (backend, model)
        if key not in self.board.engines:
            self.board.engines[key] = Engine(backend, model, Rate(), capacity=self.capacities.get(backend))
        return self.board.engines[key]

    def take(self, number: int, ask: Ask, choice: Choice, place: tuple[str, str]) -> None:
        assert number not in self._at
        engine = self._at[number] = self.engine(*place)
        engine.running[number] = Running(None, ask.side, ask.stream, 0, 0.0, 7.5)
        self.taken.append((number, place[0]))

    def first(self, number: int) -> None:
        assert number in self._at
        self.told.append(("first", number))

    def leave(self, number: int, usage: Any = None, *, finished: bool = True) -> None:
        self.told.append(("leave", number, usage, finished))
        self._free(number)

    def drop(self, number: int) -> None:
        self.told.append(("drop", number))
        self._free(number)

    def _free(self, number: int) -> None:
        engine = self._at.pop(number)
        del engine.running[number]
        self._bus.publish(BoardChanged(engine.backend))

    def resize(self, backend: str, capacity: int | None) -> None:
        for engine in self.board.engines.values():
            if engine.backend == backend:
                engine.capacity = capacity
        self._bus.publish(BoardChanged(backend))


def ask(*backends: str, model: str | None = None, **more: Any) -> Ask:
    return Ask(tuple(Target(backend, model) for backend in backends), None, {}, **more)


def choose(board: Board, ask: Ask, now: float) -> Choice:
    engines = {target: board.engines[target.backend, target.model or ""] for target in ask.targets}
    target = min(engines, key=lambda one: (engines[one].full, len(engines[one].running) + engines[one].waiting))
    return Choice(target, "full" if engines[target].full else "order", hold=engines[target].full)


def order(board: Board, waiting: Sequence[Waiter], now: float) -> Sequence[Waiter]:
    return sorted(waiting, key=lambda one: (one.ask.side, one.since))
