"""The places of a server whose slots cannot be told apart, or are all alike: Ollama, LM Studio, vLLM, oMLX, and llama.cpp while
it moves idle slots to its cache or nothing is known of its mode. Pure.

What it holds of a prompt is known only as a whole (`Ask.warm`), and one request may be using just that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.routing.board import Held, Slot
from gateway.routing.cost import Option, Sight, best_snapshot, rest
from gateway.routing.decisions import Decision
from gateway.routing.match import reusable, shared, tokens_at
from gateway.routing.slots import SIMILAR

SOON = 0.1
"""Seconds after which a snapshot is looked for that should be there."""

LATE = 2.0
"""Seconds after which a snapshot that did not come is no longer waited for."""


@dataclass(slots=True)
class _Pending:
    """Nodes of the prompt that another request has or computes, and the seconds until they can be reused."""

    nodes: int
    seconds: float
    why: Decision


def options(sight: Sight) -> Iterator[Option]:
    pending = list(_pending(sight))
    taken = max((one.nodes for one in pending if one.seconds > 0), default=0)
    ready = max((one.nodes for one in pending if one.seconds <= 0), default=0)
    warm = sight.ask.warm.get(sight.engine.backend, 0)
    nodes = max(ready, warm if warm > taken else 0)
    tokens = _tokens(sight, nodes)
    yield _going(sight, tokens)
    best = max((one for one in pending if one.nodes > nodes), key=lambda one: (one.nodes, -one.seconds), default=None)
    if best is not None:
        yield sight.option(_tokens(sight, best.nodes), wait=best.seconds, hold=best.why)
    yield from _restoring(sight, nodes)


def _tokens(sight: Sight, nodes: int) -> int:
    chain = sight.ask.chain
    return tokens_at(chain, nodes, sight.engine.ratio) if chain is not None else 0


def _pending(sight: Sight) -> Iterator[_Pending]:
    """A cache of pages publishes a prefix `settle` seconds after it is computed, others only when the request is over."""
    engine, now, chain = sight.engine, sight.now, sight.ask.chain
    if chain is None:
        return
    for one in engine.running.values():
        if one.chain is not None and (nodes := shared(one.chain, chain)):
            left = one.warm_at - now if engine.shares else rest(engine, one.free_at, now)
            why: Decision = "wait_prefix" if one.warm_at > now or engine.shares else "wait_warm"
            yield _Pending(nodes, left + engine.settle, why)
    for one in engine.settling:
        seconds = one.free_at + engine.settle - now
        if seconds > 0 and one.chain is not None and (nodes := shared(one.chain, chain)):
            yield _Pending(nodes, seconds, "wait_prefix")


def _going(sight: Sight, tokens: int) -> Option:
    engine = sight.engine
    option = sight.option(tokens)
    if engine.capacity is not None and not engine.shares and 0 < engine.capacity <= len(engine.recent):
        held, nodes = _overwritten(sight)
        chain = sight.ask.chain
        kept = held.tokens if nodes == len(held.chain.digests) else reusable(held, chain, nodes, engine.ratio) if chain else 0
        option.replaced = held
        option.overwrite = sum(sight.lost(held, kept))
    return option


def _overwritten(sight: Sight) -> tuple[Held, int]:
    """What the server is believed to overwrite, by the rule of llama.cpp, which Ollama follows; and the nodes that are kept."""
    chain, engine = sight.ask.chain, sight.engine
    pairs = [(held, shared(held.chain, chain) if chain else 0) for held in engine.recent]
    held, nodes = max(pairs, key=lambda pair: pair[1])
    return (held, nodes) if _tokens(sight, nodes) > SIMILAR * sight.prompt else pairs[0]


def idle_slot(slots: list[Slot]) -> Slot | None:
    """The slot to use where all are alike: an empty one, if there is one."""
    idle = [slot for slot in slots if slot.idle]
    return min(idle, key=lambda slot: slot.held is not None) if idle else None


def _restoring(sight: Sight, nodes: int) -> Iterator[Option]:
    """Restored, then sent: the server's own match of prefixes finds the slot."""
    snapshot = best_snapshot(sight)
    slot = idle_slot(sight.engine.slots)
    if slot is None or snapshot is None:
        return
    if snapshot.nodes <= nodes or snapshot.tokens <= SIMILAR * sight.prompt:
        return
    option = sight.option(snapshot.tokens, slot.number)
    option.restore, option.disk = snapshot, snapshot.seconds
    option.stall += snapshot.seconds * sight.streams
    option.replaced = slot.held
    option.overwrite = sum(sight.lost(slot.held, 0))
    yield option


def leading(sight: Sight) -> Iterator[Option]:
    """Waiting for a beginning that the gateway computes just now for another request, and will save."""
    chain = sight.ask.chain
    if chain is None:
        return
    for one in sight.leaders:
        if one.chain is None or sight.now > one.warm_at + LATE:
            continue
        if shared(one.chain, chain) >= one.lead and chain.digests[one.lead - 1] not in sight.engine.snapshots:
            yield sight.option(_tokens(sight, one.lead), wait=max(one.warm_at - sight.now, SOON), hold="wait_prefix")
