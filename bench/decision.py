"""What a decision costs, in CPU time of this process: a look into an index of 50,000 nodes and a choice among 8 backends with 8
slots each, all full, half of them busy, for a chain of 400 nodes.

Two fleets: in one every slot holds a conversation of its own, in the other all conversations have the same head. The best of
several rounds counts, because other work on the machine only ever adds to a round.
"""

from __future__ import annotations

import time

from bench.sim_work import Talk
from gateway.prefix.chain import Chain
from gateway.prefix.index import MOST, Index, Place
from gateway.routing.board import Ask, Board, Engine, Held, Running, Slot
from gateway.routing.place import choose
from gateway.state.rates import Rate
from gateway.values import Target

BACKENDS, SLOTS, NODES = 8, 8, 400
LIMIT = 200e-6
ROUNDS = 300
STEP = 256
RATIO = 0.25
NOW = 100.0
FLEETS = ("all different", "one head")


def talk(name: str, head: str, nodes: int = NODES) -> Talk:
    """A conversation of so many nodes, of which 20 are the head."""
    one = Talk(name, head, 20 * STEP, STEP)
    for number in range(nodes - 20):
        one.add(f"{name} {number}", STEP, reply=number % 2 == 1)
    return one


def fleet(alike: bool) -> tuple[Board, Index]:
    rate = Rate()
    rate.learn(0, 2000, 2.0)
    rate.learn(0, 8000, 9.0)
    board, index = Board(), Index()
    for number in range(BACKENDS):
        name = f"b{number}"
        slots = [Slot(at) for at in range(SLOTS)]
        engine = Engine(name, "m", rate, capacity=SLOTS, mode="kept", slots=slots, pins=True, ratio=RATIO)
        board.engines[name, "m"] = engine
        for slot in slots:
            chain = talk(f"talk {name} {slot.number}", "head" if alike else f"head {name} {slot.number}").chain()
            slot.held = Held(chain, int(chain.size * RATIO), 0.0, float(slot.number), hits=2, gap=5.0)
            index.keep(chain, Place(name, "m"), 1.0, slot.held.tokens, 100)
            if slot.number % 2:
                engine.running[slot.number] = Running(chain, False, True, 26_000, NOW - 10, NOW + 10, slot.number)
                slot.flight, slot.free_at = slot.number, NOW + 10
    number = 0
    while len(index) < MOST:
        index.keep(talk(f"old {number}", f"old head {number}").chain(), Place(f"b{number % BACKENDS}", "m"), 1.0, 25_000, 100)
        number += 1
    return board, index


def decide(name: str) -> float:
    """CPU seconds of a look-up and a decision, for a conversation that is new; name: of the fleet."""
    board, index = fleet(name == "one head")
    chain = talk("new", "head").chain()
    targets = tuple(Target(backend, None) for backend, _ in board.engines)
    return min(_round(board, index, chain, targets) for _ in range(ROUNDS))


def _round(board: Board, index: Index, chain: Chain, targets: tuple[Target, ...]) -> float:
    start = time.process_time_ns()
    warm = {backend: found.nodes for backend, found in index.match(chain, "m").items()}
    choice = choose(board, Ask(targets, chain, warm, pinnable=True, label="m"), NOW)
    seconds = (time.process_time_ns() - start) / 1e9
    assert not choice.hold
    return seconds
