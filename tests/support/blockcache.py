"""A KV cache in blocks of tokens, as servers with paged attention have it: any request reuses what any other has computed.

Source: vLLM's design of prefix caching. A block is known by the hash of all tokens up to its end, so one changed token loses
everything after it. Only full blocks are kept, and at least one token is always computed. When there is no room, the block
that was used longest ago goes; a finished request gives back its last block first, so that shared beginnings live longest.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.kvcache import BATCH, tokenize


def block_hashes(tokens: list[str], size: int, salt: str = "") -> Iterator[bytes]:
    """One hash for each full block, each over the one before it. salt: separates those who must not share."""
    last = hashlib.sha256(salt.encode()).digest()
    for end in range(size, len(tokens) + 1, size):
        last = hashlib.sha256(last + "\0".join(tokens[end - size : end]).encode("utf-8", "surrogatepass")).digest()
        yield last


@dataclass(slots=True)
class Work:
    """A prompt at work. reused: tokens taken from the cache, a multiple of the block size."""

    cache: BlockCache
    prompt: list[str]
    reused: int
    salt: str = ""
    held: list[bytes] = field(default_factory=list)
    _said: list[str] = field(default_factory=list)

    async def prefill(self, seconds_per_token: float = 0.0) -> None:
        """Computes the rest of the prompt. Cancelled, it leaves the blocks of the finished batches."""
        for at in range(self.reused, len(self.prompt), BATCH):
            end = min(at + BATCH, len(self.prompt))
            await asyncio.sleep((end - at) * seconds_per_token)
            self._keep(self.prompt[:end])
        self.cache.publish(self.held)

    def generated(self, text: str) -> None:
        self._said += tokenize(text)
        self._keep(self.prompt + self._said)

    def _keep(self, tokens: list[str]) -> None:
        hashes = list(block_hashes(tokens, self.cache.size, self.salt))
        self.cache.hold(hashes[len(self.held) :], self.held)


class BlockCache:
    """size: tokens of a block; blocks: how many there are; settle: real seconds from the end of a prefill, and of an answer,
    until others find what it has computed, 0 = they find each block at once. Its writers: the requests that have a `Work`."""

    def __init__(self, size: int, blocks: int = 4096, settle: float = 0.0):
        self.size = size
        self.blocks = blocks
        self.settle = settle
        self._kept: dict[bytes, None] = {}  # the longest unused first
        self._found_from: dict[bytes, float] = {}  # monotonic seconds, of blocks that are not found yet
        self._holders: Counter[bytes] = Counter()

    def __len__(self) -> int:
        return len(self._kept)

    @asynccontextmanager
    async def lease(self, prompt: list[str], *, salt: str = "", reuse: bool = True) -> AsyncIterator[Work]:
        found = list(self._find(prompt, salt)) if reuse else []
        work = Work(self, prompt, len(found) * self.size, salt)
        self.hold(found, work.held)
        try:
            yield work
        finally:
            self._release(work.held)

    def hold(self, hashes: list[bytes], held: list[bytes]) -> None:
        """Keep these blocks, and none of them goes while it is held. Without room for a block, it and the rest are not kept."""
        for block in hashes:
            if block not in self._kept and len(self._kept) >= self.blocks and not self._evict():
                return
            if self.settle and block not in self._kept:
                self._found_from[block] = math.inf
            self._kept[block] = None
            self._holders[block] += 1
            held.append(block)

    def clear(self) -> None:
        """Everything is lost, also what is in use."""
        self._kept.clear()
        self._found_from.clear()

    def _find(self, prompt: list[str], salt: str) -> Iterator[bytes]:
        for block in block_hashes(prompt[:-1], self.size, salt):
            if block not in self._kept or self._found_from.get(block, 0.0) > time.monotonic():
                return
            yield block

    def _evict(self) -> bool:
        block = next((block for block in self._kept if not self._holders[block]), None)
        if block is not None:
            del self._kept[block]
        return block is not None

    def publish(self, held: list[bytes]) -> None:
        """What is held so far is soon found by others."""
        for block in held:
            if self._found_from.get(block) == math.inf:
                self._found_from[block] = time.monotonic() + self.settle

    def _release(self, held: list[bytes]) -> None:
        self.publish(held)
        for block in reversed(held):
            self._holders[block] -= 1
            if block in self._kept:  # it may have been cleared
                del self._kept[block]
                self._kept[block] = None
