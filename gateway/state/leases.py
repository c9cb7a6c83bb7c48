"""Requests that a backend works on, as the board's writer remembers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.prefix.chain import Chain
from gateway.routing.board import Engine, Running
from gateway.routing.match import shared
from gateway.state.content import Content, cut
from gateway.state.shadow import Start
from gateway.values import Usage

NEAR = 0.35
"""Share by which what was reused may differ from what was expected, and still be the same beginning."""


@dataclass(slots=True)
class Lease:
    """One request at an engine.

    slot: that it is believed to have; pinned: by `id_slot`; prompt: its tokens, an estimate until the reply tells; promised:
    tokens that it should find; taken, first: when; session: digest, or ""; start: what was believed of how it starts; before:
    what its slot held; content: what that holds when the request has ended well; restored: something is put into its slot for
    it; works: for the sake of snapshots the gateway uses slots itself, before it is sent; whole: the chain ends where the
    prompt does.
    """

    number: int
    engine: Engine
    running: Running
    chain: Chain | None
    slot: int | None
    pinned: bool
    prompt: int
    promised: int
    taken: float
    session: str = ""
    first: float | None = None
    before: Content | None = None
    start: Start | None = None
    content: Content | None = None
    restored: bool = False
    works: bool = False
    whole: bool = True

    @property
    def backend(self) -> str:
        return self.engine.backend

    def foreseen(self, start: Start) -> None:
        """Take what is believed of how it starts."""
        self.start, self.promised = start, start.reused
        self.before = start.held

    def counts(self, usage: Usage) -> Iterator[tuple[bytes, int]]:
        """Nodes with their tokens, as the reply tells them: the end of the prompt, and where it parts from what it goes on
        from."""
        if self.chain is None or not self.chain.digests or not self.whole or usage.prompt is None:
            return
        yield self.chain.digests[-1], usage.prompt
        source = self.start.before if self.start else None
        if source is None or usage.cached is None:
            return
        nodes = shared(source.chain, self.chain)
        parted = nodes and nodes < min(len(source.chain.digests), len(self.chain.digests))
        if parted and abs(usage.cached - self.promised) <= NEAR * self.promised:
            yield self.chain.digests[nodes - 1], usage.cached

    def ends(self, usage: Usage, now: float, *, finished: bool) -> Content | None:
        """What its slot holds now. Of one that was given up before its first token, what it found is sure and no more; after
        an error nothing is."""
        content = self.content
        if content is None:
            return None
        if usage.prompt is not None:
            return replace(content, prompt=usage.prompt, tokens=usage.prompt + max(0, (usage.completion or 0) - 1), used=now)
        if self.first is not None:
            return replace(content, used=now)
        return None if finished else cut(replace(content, used=now), self.promised)
