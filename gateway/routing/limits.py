"""Why an engine cannot take a request now, whatever it holds, and for how long. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gateway.routing.board import Board
from gateway.routing.cost import Sight, ahead, most_tokens, rest
from gateway.routing.decisions import Decision


class Limit(NamedTuple):
    why: Decision
    seconds: float


def limit_of(board: Board, sight: Sight) -> Limit | None:
    """The limit that ends last, None if the engine can take the request now."""
    found = [_full(sight), _context(sight), _other_model(board, sight)]
    return max([limit for limit in found if limit], key=lambda limit: limit.seconds, default=None)


def _full(sight: Sight) -> Limit | None:
    engine, now = sight.engine, sight.now
    if engine.slots and all(not slot.idle for slot in engine.slots):
        ends = [rest(engine, slot.free_at, now) for slot in engine.slots]
    elif engine.full:
        ends = [rest(engine, one.free_at, now) for one in engine.running.values()]
    else:
        return None
    return Limit("full", min(ends, default=engine.answer) + ahead(sight))


def _context(sight: Sight) -> Limit | None:
    """llama.cpp's slots with one context: requests that exceed it together all fail (measured: 500 for each of them)."""
    engine = sight.engine
    if engine.context is None or not engine.running:
        return None
    room = engine.context - min(most_tokens(engine, sight.ask), engine.context)
    used = sum(one.tokens for one in engine.running.values())
    seconds = 0.0
    for one in sorted(engine.running.values(), key=lambda one: one.free_at):
        if used <= room:
            break
        seconds = rest(engine, one.free_at, sight.now)
        used -= one.tokens
    return Limit("wait_context", seconds) if seconds else None


def _other_model(board: Board, sight: Sight) -> Limit | None:
    """Servers that unload a model for another one do so in the middle of its answers."""
    engine = sight.engine
    if not engine.exclusive or engine.resident:
        return None
    others = [one for one in board.engines.values() if one.backend == engine.backend and one is not engine]
    ends = [rest(one, running.free_at, sight.now) for one in others for running in one.running.values()]
    return Limit("wait_model", max(ends)) if ends else None
