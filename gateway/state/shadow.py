"""What a llama.cpp server does with its slots, done again on what is believed of them, so that it is known which slot a request
gets and what it finds there. No I/O and no clock.

Source of the rules: llama.cpp tools/server, server-context.cpp `get_available_slot` and server-task.cpp
`server_prompt_cache`, and measurements on b11549: a request without `id_slot` takes the idle slot that holds most of it, if
that is more than a tenth of it, else the least recently used one, of several that were never used the last. Where less than
half of what that slot holds would stay, it is copied to the cache in RAM, and what the cache has that is better is moved to the
slot; a pinned request that finds its slot empty does not look there. Where idle slots are emptied, they are moved to the cache
as soon as a task starts.

One writer: `gateway.state.board`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.prefix.chain import Chain
from gateway.routing.board import Slot
from gateway.state.content import Content, contains, kept, reused

SIMILARITY = 0.10
"""`--slot-prompt-similarity`: share of a request that a slot must hold to be chosen for it."""

OVERWRITTEN = 0.5
"""Below this share of what stays, a slot is copied to the cache before it is overwritten."""

UNSURE = 0.05
"""Near that share, estimates do not tell on which side of it the server is."""

LEAST_KEPT = 0.25
"""Share of an entry of the cache that must be of use."""

NEAR = 32
"""Tokens by which two beginnings may differ and still be taken for the same."""

MOST = 64
"""Entries of the cache in RAM that are remembered; how many the server really keeps goes by their bytes."""


@dataclass(frozen=True, slots=True)
class Start:
    """What becomes of a request. slot: that it gets, None: no idle one; reused: tokens that it finds; in_slots: the most that
    any slot holds of it; cached: the entry of the cache in RAM that is moved to the slot; before: what it goes on from; held,
    in_slot: what the slot held, and tokens of the prompt among that."""

    slot: Slot | None
    reused: int
    in_slots: int
    cached: Content | None = None
    before: Content | None = None
    held: Content | None = None
    in_slot: int = 0

    @property
    def close(self) -> bool:
        """Whether the server may as well have thought that enough stays of what the slot held."""
        return self.held is not None and abs(self.in_slot / max(self.held.tokens, 1) - OVERWRITTEN) < UNSURE


@dataclass(slots=True)
class Shadow:
    """slots: those of the board; used: when each was last given back, never where absent; host: what the cache in RAM may hold,
    oldest first."""

    slots: list[Slot]
    used: dict[int, float] = field(default_factory=dict)
    host: list[Content] = field(default_factory=list)

    def foresee(self, chain: Chain, prompt: int, pinned: int | None, *, caches: bool) -> Start:
        """What a request would find. prompt: its tokens; caches: the server may have a cache in RAM."""
        in_slots = max((reused(held(slot), chain, prompt) for slot in self.slots), default=0)
        slot = self.pick(chain, prompt) if pinned is None else self.slot(pinned)
        if slot is None:
            return Start(None, in_slots, in_slots)
        before = held(slot)
        found = reused(before, chain, prompt)
        overwritten = kept(before, chain, prompt) < OVERWRITTEN if before else pinned is None
        if caches and overwritten and (entry := self._better(before, chain, prompt)):
            return Start(slot, reused(entry, chain, prompt), in_slots, entry, entry, before, found)
        return Start(slot, found, in_slots, None, before, before, found)

    def start(self, chain: Chain, prompt: int, pinned: int | None, *, caches: bool, emptied: bool) -> Start:
        """A request starts: what it does to the cache and to other slots is done, what its slot holds is left to the caller."""
        start = self.foresee(chain, prompt, pinned, caches=caches)
        if start.slot is None:
            return start
        before = held(start.slot)
        if start.cached is not None:
            self.host.remove(start.cached)
        if caches and before and kept(before, chain, prompt) < OVERWRITTEN:
            self.save(before)
        if emptied:
            for other in self.slots:
                if other is not start.slot and other.idle and (content := held(other)):
                    self.save(content)
                    other.held = None
        return start

    def pick(self, chain: Chain, prompt: int) -> Slot | None:
        """The slot that the server takes of its own accord."""
        idle = [slot for slot in self.slots if slot.idle]
        if not idle:
            return None
        best = max(idle, key=lambda slot: reused(held(slot), chain, prompt))
        if reused(held(best), chain, prompt) > SIMILARITY * prompt:
            return best
        return min(reversed(idle), key=lambda slot: self.used.get(slot.number, 0.0))

    def slot(self, number: int) -> Slot | None:
        return next((slot for slot in self.slots if slot.number == number), None)

    def save(self, content: Content) -> None:
        """Copy to the cache in RAM, in the place of what it contains."""
        if any(contains(entry, content) for entry in self.host):
            return
        self.host = [entry for entry in self.host if not contains(content, entry)]
        self.host.append(content)
        del self.host[:-MOST]

    def told(self, content: Content, start: Start, cached: int) -> None:
        """What a request that has started is said to have found. What it did not take from the cache is still there; what it
        took from it is there no longer, and what its slot held then is."""
        if start.cached is not None and abs(cached - start.in_slot) <= NEAR and cached < start.reused - NEAR:
            self.host.append(start.cached)
        elif start.cached is None and cached > start.reused + NEAR:
            prompt = content.prompt
            found = next((one for one in reversed(self.host) if abs(reused(one, content.chain, prompt) - cached) <= NEAR), None)
            if found is not None:
                self.host.remove(found)
                if start.held is not None:
                    self.save(start.held)

    def forget_older(self, missed: Content) -> None:
        """An entry was not there any more. The server drops the oldest first, so those that came before it are gone as well."""
        self.host = [entry for entry in self.host if entry.used > missed.used]

    def clear(self) -> None:
        """All of it is gone."""
        self.host.clear()
        self.used.clear()
        for slot in self.slots:
            slot.held = None

    def _better(self, before: Content | None, chain: Chain, prompt: int) -> Content | None:
        """The entry of the cache by which more of it and more of the request is kept than by what the slot holds."""
        share = kept(before, chain, prompt) if before else -1.0
        most, best = reused(before, chain, prompt), None
        for entry in self.host:
            here, tokens = kept(entry, chain, prompt), reused(entry, chain, prompt)
            if here >= LEAST_KEPT and here > share and tokens > most:
                share, most, best = here, tokens, entry
        return best


def held(slot: Slot) -> Content | None:
    """What a slot holds. All that its one writer puts there is Content."""
    return slot.held if isinstance(slot.held, Content) else None
