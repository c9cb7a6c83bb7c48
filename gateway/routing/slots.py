"""The places of a server whose slots keep what they hold: llama.cpp with `-np N`, or without its cache. Pure.

A slot takes one request at a time, and no slot ever shares a prefix with another. Requests can be pinned to one with `id_slot`;
without it the server takes the idle slot that shares most of the prompt, if that is more than a tenth of it, else the one that
was idle for longest. Both ways it looks into its cache in memory, except where it is told to use an empty slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.prefix.chain import Chain
from gateway.routing.board import Slot
from gateway.routing.cost import Option, Sight, best_snapshot, rest
from gateway.routing.match import reusable, shared, tokens_at
from gateway.routing.worth import need

SIMILAR = 0.1
"""Share of the prompt above which llama.cpp takes a slot for its prefix (`--slot-prompt-similarity`)."""

ALIKE = 1.33
"""Prefixes are worth about the same up to this ratio."""


@dataclass(slots=True)
class Seen:
    """A slot. nodes, tokens: of the prompt, that it holds; kept: tokens of what it holds that stay when it reads the prompt."""

    slot: Slot
    idle: bool
    nodes: int = 0
    tokens: int = 0
    kept: int = 0


def options(sight: Sight) -> Iterable[Option]:
    engine, ask = sight.engine, sight.ask
    if ask.asked_slot is not None:
        slot = engine.slots[ask.asked_slot % len(engine.slots)]
        return [_asked(sight, _see(slot, ask.chain, sight.head, engine.ratio))]
    seen = [_see(slot, ask.chain, sight.head, engine.ratio) for slot in engine.slots]
    idle = [one for one in seen if one.idle]
    cached = _cached_tokens(sight, seen)
    pins = engine.pins and ask.pinnable
    pinned = [one for one in idle if _may_pin(sight, one.slot)] if pins else []
    found = [_going(sight, one, cached if one.slot.held else 0, pin=True) for one in _sacrifices(sight, pinned)]
    if len(pinned) < len(idle):
        found.append(_going(sight, servers_choice(sight, idle), cached, pin=False))
    most = max([one.tokens for one in idle], default=-1)
    found += [_waiting(sight, one, pins, cached) for one in seen if not one.idle and one.tokens > most]
    if engine.snapshots and idle:
        found += _restoring(sight, idle, pins)
    return found


def _see(slot: Slot, chain: Chain | None, head: int, ratio: float) -> Seen:
    held = slot.held
    idle = slot.flight is None and not slot.draining and not slot.foreign
    if held is None or chain is None or not (nodes := shared(held.chain, chain, head)):
        return Seen(slot, idle)
    if nodes == len(held.chain.digests):
        return Seen(slot, idle, nodes, reusable(held, chain, nodes, ratio), held.tokens)
    tokens = int(chain.sizes[nodes - 1] * ratio)
    return Seen(slot, idle, nodes, tokens, tokens)


def _sacrifices(sight: Sight, slots: list[Seen]) -> Iterator[Seen]:
    """For each length of the prompt that slots hold, the one of them to overwrite. A side request comes with a conversation,
    whose next turn is near: it never takes the slot of the newest one while there is another."""
    if sight.ask.side and len(slots) > 1:
        newest = max((one for one in slots if one.slot.held and not one.slot.held.side), key=_used, default=None)
        slots = [one for one in slots if one is not newest]
    for tokens in {one.tokens for one in slots}:
        yield _sacrifice(sight, [one for one in slots if one.tokens == tokens])


def _sacrifice(sight: Sight, alike: list[Seen]) -> Seen:
    """Of slots that hold as much of the prompt as each other, the one to overwrite: what it holds is worth least, or about as
    little, and was used last. Agents that take turns need that one last, so one slot is sacrificed and the others stay; who
    overwrites the oldest, or always the smallest while all grow, overwrites what is needed next, every time."""
    if len(alike) == 1:
        return alike[0]
    lost = [_stake(sight, one) for one in alike]
    most = min(lost) * ALIKE
    return max([one for one, stake in zip(alike, lost, strict=True) if stake <= most], key=_used)


def _stake(sight: Sight, one: Seen) -> float:
    """What is lost with what a slot holds. Without snapshots tokens tell that as well as the seconds to read them."""
    held = one.slot.held
    if held is None or one.kept >= held.tokens:
        return 0.0
    if sight.engine.snapshots or sight.engine.saves:
        return sum(sight.lost(held, one.kept))
    return need(held, sight.now) * (held.tokens - one.kept)


def _used(one: Seen) -> float:
    return one.slot.held.used if one.slot.held is not None else float("-inf")


def _cached_tokens(sight: Sight, seen: list[Seen]) -> int:
    """Tokens of the prompt in the server's cache: what is held there and is in none of the slots."""
    chain = sight.ask.chain
    nodes = sight.ask.warm.get(sight.engine.backend, 0)
    if chain is None or not nodes or sight.engine.cache is False or nodes <= max([one.nodes for one in seen]):
        return 0
    return tokens_at(chain, nodes, sight.engine.ratio)


def _may_pin(sight: Sight, slot: Slot) -> bool:
    """A request that is pinned to an empty slot does not find what the server's cache holds (ggml-org/llama.cpp#28139)."""
    return slot.held is not None or sight.engine.cache is False or not sight.ask.warm.get(sight.engine.backend)


def servers_choice(sight: Sight, idle: list[Seen]) -> Seen:
    """The slot that the server takes for a request without `id_slot`; of several that were never used, the last."""
    best = max(idle, key=lambda one: one.tokens)
    if best.tokens > SIMILAR * sight.prompt:
        return best
    return min(reversed(idle), key=_used)


def _going(sight: Sight, one: Seen, cached: int, *, pin: bool) -> Option:
    option = sight.option(one.tokens, one.slot.number)
    option.pin = pin
    _count_cache(sight, option, cached)
    sight.overwrite(option, one.slot.held, one.kept)
    return option


def _waiting(sight: Sight, one: Seen, pins: bool, cached: int) -> Option:
    """Until a busy slot is free."""
    wait = rest(sight.engine, one.slot.free_at, sight.now)
    tokens = one.tokens if pins or one.tokens > SIMILAR * sight.prompt else 0
    option = sight.option(tokens, one.slot.number, wait=wait, hold="wait_warm" if tokens else "full")
    option.pin = pins
    _count_cache(sight, option, cached)
    option.replaced = one.slot.held
    option.overwrite = sum(sight.lost(one.slot.held, one.kept))
    return option


def _asked(sight: Sight, one: Seen) -> Option:
    """The client's own `id_slot`. Out of range it is another slot: the server takes it modulo their number."""
    if one.idle:
        return _going(sight, one, 0, pin=True)
    option = _waiting(sight, one, True, 0)
    option.hold, option.hard = "asked", True
    return option


def _restoring(sight: Sight, idle: list[Seen], pins: bool) -> Iterator[Option]:
    """A snapshot that holds more than any idle slot does is put into the slot whose own prefix is worth least. Without a pin it
    must hold enough of the prompt for the server to take that slot."""
    snapshot = best_snapshot(sight)
    if snapshot is None or snapshot.nodes <= max(one.nodes for one in idle):
        return
    if not pins and snapshot.tokens <= SIMILAR * sight.prompt:
        return
    one = _sacrifice(sight, idle)
    option = sight.option(snapshot.tokens, one.slot.number)
    option.pin, option.restore, option.disk = pins, snapshot, snapshot.seconds
    option.stall += snapshot.seconds * sight.streams
    sight.overwrite(option, one.slot.held, min(one.kept, snapshot.tokens))
    yield option


def _count_cache(sight: Sight, option: Option, cached: int) -> None:
    """What the server's cache holds counts fully where it is known to have one, by half where that is not known."""
    if cached <= option.reused:
        return
    quicker, _ = sight.reading(cached)
    if sight.engine.cache:
        option.reused, option.prefill = cached, quicker
    else:
        option.prefill = (option.prefill + quicker) / 2
