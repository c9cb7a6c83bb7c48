"""What it would cost to send a request to one place, term by term, and what one engine looks like to one request. Pure.

All terms are seconds of somebody's time: of the one who asks, or of those whom it makes wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.routing.board import Ask, Board, Engine, Held, Snapshot
from gateway.routing.decisions import Decision
from gateway.routing.match import saved, tokens_at
from gateway.routing.worth import chance_of_loss, loss, need, reading
from gateway.values import Target

ANSWER = 1024
"""Tokens of an answer for which nothing was said."""

DISK = 500e6
"""Bytes of a slot that are written in a second (measured on llama.cpp: 590 MB in 0.4-1.4 s, 50 MB in 0.02-0.03 s)."""

TOKEN_BYTES = 100_000
"""Bytes of a token in a slot file while none was saved: a model of 7-8 thousand million parameters."""

GAIN = 0.1
"""Seconds that saving a prefix must be expected to save: less is not worth the writing."""

RESTORED = 4.0
"""How many times as fast as a save a restore is (measured: 590 MB in 0.1 s)."""

OVERDUE = 0.3
"""Share of a usual answer that is expected of one that should be over: at least that, and as much as it is late."""

DECODING = 0.1
"""Weight of the time for which the answer of another is slowed, against time in which nothing comes."""


@dataclass(slots=True)
class Option:
    """A place, or waiting for it. order: of its target; hold: why it would wait, None: it goes now; hard: there is no other way
    here than waiting; replaced: what would be overwritten. The terms are seconds."""

    engine: Engine
    target: Target
    order: int
    reused: int = 0
    slot: int | None = None
    pin: bool = False
    restore: Snapshot | None = None
    save: bool = False
    hold: Decision | None = None
    hard: bool = False
    replaced: Held | None = None
    wait: float = 0.0
    prefill: float = 0.0
    load: float = 0.0
    disk: float = 0.0
    overwrite: float = 0.0
    stall: float = 0.0

    @property
    def total(self) -> float:
        return self.wait + self.prefill + self.load + self.disk + self.overwrite + self.stall


class Sight:
    """One engine as one request sees it.

    prompt: tokens of the prompt; head: nodes of its chain before the first message; prefilling: seconds that others here still
    need for their prompts; decoding: answers that are being generated; leaders: requests whose beginning is saved for others;
    streams: answers in progress on the whole backend.
    """

    __slots__ = (
        "_known",
        "ask",
        "decoding",
        "engine",
        "head",
        "leaders",
        "now",
        "order",
        "prefilling",
        "prompt",
        "streams",
        "target",
    )

    def __init__(self, board: Board, engine: Engine, target: Target, order: int, ask: Ask, head: int, now: float) -> None:
        self.engine, self.target, self.order, self.ask, self.head, self.now = engine, target, order, ask, head, now
        self.prompt = prompt_tokens(engine, ask)
        self.prefilling = [one.warm_at - now for one in engine.running.values() if one.warm_at > now]
        self.decoding = len(engine.running) - len(self.prefilling)
        self.leaders = [one for one in engine.running.values() if one.lead]
        self.streams = streams(board, engine) if engine.saves or engine.snapshots else 0
        self._known: dict[int, tuple[float, float]] = {}

    def reading(self, reused: int) -> tuple[float, float]:
        """Seconds to read the prompt where so many tokens of it are held, and seconds for which that and the prompts that are
        read now delay each other."""
        known = self._known.get(reused)
        if known is None:
            seconds = reading(self.engine, min(reused, max(self.prompt - 1, 0)), self.prompt)  # the last is always computed
            known = self._known[reused] = seconds, sum([min(seconds, other) for other in self.prefilling])
        return known

    def option(self, reused: int, slot: int | None = None, *, wait: float = 0.0, hold: Decision | None = None) -> Option:
        """A place that holds so many tokens of the prompt. Who goes at once shares the server with those who are there."""
        engine = self.engine
        prefill, together = self.reading(reused)
        option = Option(engine, self.target, self.order, reused, slot, hold=hold, wait=wait, prefill=prefill)
        if hold is None:
            option.wait += together
            option.stall = together + DECODING * prefill * self.decoding
        if engine.resident is False:
            option.load = engine.load
        return option

    def lost(self, held: Held | None, kept: int) -> tuple[float, float]:
        """What overwriting a prefix, of which so many tokens are kept, costs those who need it; and the seconds for which it is
        saved before, 0.0 where it is not."""
        if held is None or kept >= held.tokens:
            return 0.0, 0.0
        engine = self.engine
        needed = need(held, self.now)
        if self.ask.side and not held.side:
            needed = 1.0  # in the middle of a conversation that goes on
        seconds = loss(engine, held, kept)
        lost = seconds * needed * chance_of_loss(engine, held, kept)
        if engine.saves and not self.streams:
            save = disk_seconds(engine, held.tokens)
            back = needed * min(seconds, save / RESTORED)
            if save + back < lost - GAIN:
                return back, save
        return lost, 0.0

    def overwrite(self, option: Option, held: Held | None, kept: int) -> None:
        """Add that to an option."""
        option.replaced = held
        option.overwrite, saving = self.lost(held, kept)
        option.save = saving > 0
        option.disk += saving


def prompt_tokens(engine: Engine, ask: Ask) -> int:
    return int(ask.chain.size * engine.ratio) if ask.chain is not None else 0


def most_tokens(engine: Engine, ask: Ask) -> int:
    """The most tokens of a shared context that a request can take: its prompt and its answer."""
    return prompt_tokens(engine, ask) + (ANSWER if ask.limit is None else ask.limit)


def head_tokens(engine: Engine, ask: Ask) -> int:
    """Tokens of what comes before the first message."""
    return tokens_at(ask.chain, ask.chain.head, engine.ratio) if ask.chain is not None else 0


def disk_seconds(engine: Engine, tokens: int) -> float:
    """Seconds that saving so many tokens takes, which are also those for which the server does nothing else."""
    known = max(engine.snapshots.values(), key=lambda one: one.tokens, default=None)
    each = known.size / known.tokens if known is not None and known.tokens else TOKEN_BYTES
    return tokens * each / DISK


def streams(board: Board, engine: Engine) -> int:
    """Requests in progress on the backend, whichever model they use: they stop while a slot is saved or restored."""
    return sum(len(one.running) for one in board.engines.values() if one.backend == engine.backend)


def rest(engine: Engine, free_at: float, now: float) -> float:
    """Seconds until something is over that is expected to be over at `free_at`. What is late has shown that it takes longer
    than expected: as much as it is late already is expected again."""
    return free_at - now if free_at > now else max(OVERDUE * engine.answer, now - free_at)


def ahead(sight: Sight) -> float:
    """Seconds that those take who wait for the engine already. One who has waited counts among them."""
    engine = sight.engine
    others = engine.waiting - (1 if sight.ask.held else 0)
    return max(0, others) * engine.answer / max(1, engine.capacity or len(engine.slots))


def best_snapshot(sight: Sight) -> Snapshot | None:
    chain = sight.ask.chain
    return saved(sight.engine, chain) if chain is not None else None
