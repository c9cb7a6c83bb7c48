"""order(): which of those who wait goes next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from gateway.routing.board import Ask, Board, Engine
from gateway.routing.match import reusable, shared, tokens_at
from gateway.routing.worth import GUESS, reading

SIDE = 3.0
"""Seconds by which a request for an answer that somebody waits for is before a side request."""

AGEING = 0.1
"""Seconds of work that a second of waiting outweighs: nobody waits for ever behind shorter prompts."""


class Waiting(Protocol):
    """A request that waits. since: monotonic seconds."""

    @property
    def ask(self) -> Ask: ...

    @property
    def since(self) -> float: ...


W = TypeVar("W", bound=Waiting)


def order(board: Board, asks: Sequence[W], now: float) -> list[W]:
    """Main requests before side requests, the least uncached work first, and both less and less with time."""

    def rank(one: W) -> float:
        return work(board, one.ask) + (SIDE if one.ask.side else 0.0) - AGEING * (now - one.since)

    return sorted(asks, key=rank)


def work(board: Board, ask: Ask) -> float:
    """Seconds of prefill where most of the prompt is held."""
    engines = [engine for target in ask.targets if (engine := board.engine(target, ask.label)) is not None]
    if ask.chain is None:
        return 0.0
    return min((_prefill(engine, ask) for engine in engines), default=ask.chain.size * 0.25 * GUESS)


def _prefill(engine: Engine, ask: Ask) -> float:
    chain = ask.chain
    if chain is None:
        return 0.0
    tokens = tokens_at(chain, ask.warm.get(engine.backend, 0), engine.ratio)
    for slot in engine.slots:
        if slot.held is not None and (nodes := shared(slot.held.chain, chain)):
            tokens = max(tokens, reusable(slot.held, chain, nodes, engine.ratio))
    return reading(engine, tokens, int(chain.size * engine.ratio))
