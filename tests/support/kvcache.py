"""A KV cache in tokens: what a server with slots reuses of a prompt, and what it has to compute.

As llama.cpp's slots do it (source: its server-context.cpp): a request takes the idle slot that holds the longest common prefix
with it, if that is more than a tenth of the request, else the least recently used one, whose content is lost. At least one
token is always computed. There is no second cache behind the slots, so reuse is never better than what the slots hold.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

SIMILARITY = 0.10
BATCH = 512
"""Tokens between two looks at whether the client is still there."""

_TOKEN = re.compile(r"\w{1,4}|\s{1,4}|[^\w\s]")


def tokenize(text: str) -> list[str]:
    """Pieces of words and of white space of up to four characters, and single signs. Joined, they are the text again."""
    return _TOKEN.findall(text)


def common_prefix(one: Sequence[str], other: Sequence[str]) -> int:
    """How many tokens two sequences share from their start."""
    limit = min(len(one), len(other))
    return next((at for at in range(limit) if one[at] != other[at]), limit)


@dataclass(slots=True)
class Slot:
    """tokens: what its KV cache holds; used: counts up, 0 = never."""

    number: int
    tokens: list[str] = field(default_factory=list)
    used: int = 0
    busy: bool = False


@dataclass(slots=True)
class Lease:
    """A slot at work on a prompt. reused: tokens taken from the cache."""

    slot: Slot
    prompt: list[str]
    reused: int

    async def prefill(self, seconds_per_token: float = 0.0) -> None:
        """Computes the rest of the prompt. Cancelled, it leaves the finished batches in the slot."""
        for at in range(self.reused, len(self.prompt), BATCH):
            batch = self.prompt[at : at + BATCH]
            await asyncio.sleep(len(batch) * seconds_per_token)
            self.slot.tokens += batch

    def generated(self, text: str) -> None:
        self.slot.tokens += tokenize(text)


class KVCache:
    """Its writers: the requests that hold a lease, each of its own slot."""

    def __init__(self, slots: int = 1):
        self.slots = [Slot(number) for number in range(slots)]
        self._idle = asyncio.Semaphore(slots)
        self._uses = itertools.count(1)

    @asynccontextmanager
    async def lease(self, prompt: list[str], *, reuse: bool = True) -> AsyncIterator[Lease]:
        """Waits, in the order of asking, for an idle slot. reuse: False computes everything again."""
        async with self._idle:
            slot, shared = self._choose(prompt)
            reused = min(shared, len(prompt) - 1) if reuse else 0
            slot.tokens, slot.busy = prompt[:reused], True
            try:
                yield Lease(slot, prompt, reused)
            finally:
                slot.busy, slot.used = False, next(self._uses)

    def _choose(self, prompt: list[str]) -> tuple[Slot, int]:
        idle = [slot for slot in self.slots if not slot.busy]
        shared = {slot.number: common_prefix(slot.tokens, prompt) for slot in idle}
        best = max(idle, key=lambda slot: shared[slot.number])
        if shared[best.number] <= SIMILARITY * len(prompt):
            best = min(idle, key=lambda slot: slot.used)
        return best, shared[best.number]
