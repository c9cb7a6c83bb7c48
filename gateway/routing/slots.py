"""The places of a server whose slots keep what they hold: llama.cpp with `-np N`, or without its cache. Pure.

A slot takes one request at a time, and no slot ever shares a prefix with another. Requests can be pinned to one with `id_slot`;
without it the server takes the idle slot that shares most of the prompt, if that is more than a tenth of it, else the one that
was idle for longest. Both ways it looks into its cache in memory, except where it is told to use an empty slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.routing.board import Slot
from gateway.routing.cost import Option, Sight, best_snapshot, rest
from gateway.routing.match import reusable, shared, tokens_at
from gateway.routing.worth import reading

SIMILAR = 0.1
"""Share of the prompt above which llama.cpp takes a slot for its prefix (`--slot-prompt-similarity`)."""


@dataclass(slots=True)
class _Seen:
    """A slot, with the nodes and tokens of the prompt that it holds."""

    slot: Slot
    nodes: int
    tokens: int


def options(sight: Sight) -> Iterator[Option]:
    seen = [_see(sight, slot) for slot in sight.engine.slots]
    idle = [one for one in seen if one.slot.idle]
    if sight.ask.asked_slot is not None:
        yield _asked(sight, seen[sight.ask.asked_slot % len(seen)])
        return
    cached = _cached_tokens(sight, seen)
    pins = sight.engine.pins and sight.ask.pinnable
    alike = not pins
    for one in idle:
        if pins and _may_pin(sight, one.slot):
            yield _going(sight, one, cached if one.slot.held else 0, pin=True)
        else:
            alike = True
    if idle and alike:
        yield _going(sight, servers_choice(sight, idle), cached, pin=False)
    for one in seen:
        if not one.slot.idle and (not idle or one.tokens):
            yield _waiting(sight, one, pins, cached)
    yield from _restoring(sight, idle, pins)


def _see(sight: Sight, slot: Slot) -> _Seen:
    held, chain = slot.held, sight.ask.chain
    if held is None or chain is None:
        return _Seen(slot, 0, 0)
    nodes = shared(held.chain, chain)
    return _Seen(slot, nodes, reusable(held, chain, nodes, sight.engine.ratio))


def _cached_tokens(sight: Sight, seen: list[_Seen]) -> int:
    """Tokens of the prompt in the server's cache: what is held there and is in none of the slots."""
    chain = sight.ask.chain
    nodes = sight.ask.warm.get(sight.engine.backend, 0)
    if chain is None or sight.engine.cache is False or nodes <= max(one.nodes for one in seen):
        return 0
    return tokens_at(chain, nodes, sight.engine.ratio)


def _may_pin(sight: Sight, slot: Slot) -> bool:
    """A request that is pinned to an empty slot does not find what the server's cache holds (ggml-org/llama.cpp#28139)."""
    return slot.held is not None or sight.engine.cache is False or not sight.ask.warm.get(sight.engine.backend)


def servers_choice(sight: Sight, idle: list[_Seen]) -> _Seen:
    """The slot that the server takes for a request without `id_slot`; of several that were never used, the last."""
    best = max(idle, key=lambda one: one.tokens)
    if best.tokens > SIMILAR * sight.prompt:
        return best
    return min(reversed(idle), key=lambda one: one.slot.held.used if one.slot.held else float("-inf"))


def _going(sight: Sight, one: _Seen, cached: int, *, pin: bool) -> Option:
    option = sight.option(one.tokens, one.slot.number)
    option.pin = pin
    _count_cache(sight, option, cached)
    if one.slot.held is not None:
        sight.overwrite(option, one.slot.held, _kept(sight, one))
    return option


def _waiting(sight: Sight, one: _Seen, pins: bool, cached: int) -> Option:
    """Until a busy slot is free."""
    wait = rest(sight.engine, one.slot.free_at, sight.now)
    tokens = one.tokens if pins or one.tokens > SIMILAR * sight.prompt else 0
    option = sight.option(tokens, one.slot.number, wait=wait, hold="wait_warm" if tokens else "full")
    option.pin = pins
    _count_cache(sight, option, cached)
    if one.slot.held is not None:
        sight.overwrite(option, one.slot.held, _kept(sight, one))
        option.save = False
    return option


def _asked(sight: Sight, one: _Seen) -> Option:
    """The client's own `id_slot`. Out of range it is another slot: the server takes it modulo their number."""
    if one.slot.idle:
        return _going(sight, one, 0, pin=True)
    option = _waiting(sight, one, True, 0)
    option.hold, option.hard = "asked", True
    return option


def _restoring(sight: Sight, idle: list[_Seen], pins: bool) -> Iterator[Option]:
    """A snapshot that holds more than any idle slot does is put into the slot that is worth least. Without a pin it must hold
    enough of the prompt for the server to take that slot."""
    snapshot = best_snapshot(sight) if idle else None
    if snapshot is None or snapshot.nodes <= max(one.nodes for one in idle):
        return
    if not pins and snapshot.tokens <= SIMILAR * sight.prompt:
        return
    for one in idle:
        option = sight.option(snapshot.tokens, one.slot.number)
        option.pin, option.restore, option.disk = pins, snapshot, snapshot.seconds
        option.stall += snapshot.seconds * sight.streams
        if one.slot.held is not None:
            sight.overwrite(option, one.slot.held, min(_kept(sight, one), snapshot.tokens))
        yield option


def _kept(sight: Sight, one: _Seen) -> int:
    """Tokens of what the slot holds that are still there when it has read the prompt."""
    held = one.slot.held
    if held is None:
        return 0
    return held.tokens if one.nodes == len(held.chain.digests) else one.tokens


def _count_cache(sight: Sight, option: Option, cached: int) -> None:
    """What the server's cache holds counts fully where it is known to have one, by half where that is not known."""
    if cached <= option.reused:
        return
    quicker = reading(sight.engine, min(cached, max(sight.prompt - 1, 0)), sight.prompt)
    if sight.engine.cache:
        option.reused, option.prefill = cached, quicker
    else:
        option.prefill = (option.prefill + quicker) / 2
