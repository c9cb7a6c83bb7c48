"""Requests that a backend works on, as the board's writer remembers them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.prefix.chain import Chain
from gateway.routing.board import Engine, Running
from gateway.state.content import Content, cut
from gateway.state.shadow import Start, held
from gateway.values import Usage


@dataclass(slots=True)
class Lease:
    """One request at an engine.

    slot: that it is believed to have; pinned: by `id_slot`; prompt: its tokens, an estimate until the reply
    tells; promised: tokens that it should find; in_slots: the most that any slot held of it; taken, first: when; cached: what
    it should find in the cache in RAM; before: what its slot held; content: what it holds when the request has ended well;
    restored: a snapshot is put into its slot; works: for its sake the gateway uses slots itself, before it is sent.
    """

    number: int
    engine: Engine
    running: Running
    chain: Chain | None
    slot: int | None
    pinned: bool
    prompt: int
    promised: int
    in_slots: int
    taken: float
    session: str = ""
    first: float | None = None
    cached: Content | None = None
    before: Content | None = None
    content: Content | None = None
    restored: bool = False
    works: bool = False

    @property
    def backend(self) -> str:
        return self.engine.backend

    def foreseen(self, start: Start) -> None:
        """Take what is believed of how it starts."""
        self.promised, self.in_slots, self.cached = start.reused, start.in_slots, start.cached
        self.before = held(start.slot) if start.slot else None

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
