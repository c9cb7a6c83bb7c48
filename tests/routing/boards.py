"""Boards in a few words: prompts as lists of pieces with so many tokens each, read at 1,000 tokens a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.sim_work import Talk
from gateway.prefix.chain import Chain
from gateway.routing.board import Ask, Board, Engine, Held, Running, Slot, Snapshot
from gateway.values import Target

STEP = 100
"""Tokens of a node. A character is a token here: every engine has a ratio of 1."""

Piece = tuple[str, int]


def chain(*pieces: Piece) -> Chain:
    """The first piece is the head; every second one behind it is an answer of the model."""
    (head, tokens), *rest = pieces
    talk = Talk("", head, tokens, STEP)
    for number, (text, tokens) in enumerate(rest):
        talk.add(text, tokens, reply=number % 2 == 1)
    return talk.chain()


def held(
    *pieces: Piece, used: float = 0.0, hits: int = 0, gap: float | None = None, side: bool = False, answer: int = 0
) -> Held:
    of = chain(*pieces)
    return Held(of, of.size + answer, 0.0, used, hits, gap, side)


@dataclass
class Rate:
    each: float = 1e-3

    def seconds(self, cached: int, prompt: int) -> float:
        return self.each * max(0, prompt - cached)


def slot(number: int, content: Held | None = None, **more: Any) -> Slot:
    return Slot(number, content, **more)


def engine(backend: str, *contents: Held | None, **more: Any) -> Engine:
    """An engine with a slot for each content; pinnable and without a cache besides them, if there are any."""
    settings: dict[str, Any] = {"rate": Rate(), "ratio": 1.0, "answer": 2.0}
    if contents:
        slots = [slot(number, content) for number, content in enumerate(contents)]
        settings |= {"mode": "kept", "pins": True, "cache": False, "capacity": len(contents), "slots": slots}
    return Engine(backend, "m", **(settings | more))


def run(one: Engine, number: int, of: Chain | None, *, warm_at: float, free_at: float, **more: Any) -> None:
    """The engine works on a request; where it has slots, in `slot`."""
    at = more.get("slot")
    one.running[number] = Running(of, more.pop("side", False), True, (of.size if of else 0) + 100, warm_at, free_at, **more)
    if at is not None:
        seat = one.slots[at]
        seat.flight, seat.free_at = number, free_at
        seat.held = Held(of, of.size, 0.0, warm_at) if of else None


def snapshot(of: Chain, nodes: int, seconds: float = 0.05, name: str = "s1") -> Snapshot:
    tokens = of.sizes[nodes - 1]
    return Snapshot(name, of.digests[nodes - 1], nodes, tokens, tokens * 1000, seconds, 0.0)


def board(*engines: Engine, **more: Any) -> Board:
    return Board({(one.backend, one.model): one for one in engines}, **more)


def ask(*pieces: Piece, to: str = "one", **more: Any) -> Ask:
    """to: names of backends, with blanks between."""
    settings: dict[str, Any] = {"warm": {}, "pinnable": True, "label": "m"} | more
    of = chain(*pieces) if pieces else None
    return Ask(tuple(Target(name, None) for name in to.split()), of, **settings)
