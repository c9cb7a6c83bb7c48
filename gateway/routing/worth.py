"""What a held prefix is worth: the seconds that reading it again takes, times the probability that it will be needed. Pure.

Recency alone never decides. Agents that take turns need again what was used longest ago, so the order of last use says nothing
until a prefix has been idle for much longer than it usually is; what tells is how often it was used, and its length.
"""

from __future__ import annotations

from gateway.routing.board import Engine, Held
from gateway.routing.match import saved

ONCE = 600.0
"""Seconds for which a prefix that was used once is expected to be used again as likely as not."""

USUAL = 4.0
"""So many of its usual gaps may pass before a prefix is doubted."""

LEAST_PATIENCE = 30.0
"""Seconds for which none is doubted: a tool that runs, somebody who reads."""

SIDE = 0.1
"""Probability that what a side request left behind is needed again."""

LOST = {True: 0.1, None: 0.5, False: 1.0}
"""How likely a prefix is lost when its slot is overwritten, by whether the server has a cache besides its slots."""

GUESS = 1e-3
"""Seconds that a token takes to read while nothing is known."""


def reading(engine: Engine, cached: int, prompt: int) -> float:
    """Seconds that the engine takes to read a prompt of which so many tokens are there already."""
    if cached >= prompt:
        return 0.0
    known = engine.rate.seconds(cached, prompt)
    return (prompt - cached) * GUESS if known is None else max(0.0, known)


def need(held: Held, now: float) -> float:
    """The probability that a prefix will be used again.

    It rises with each use (the rule of succession) and falls once the prefix has been idle for many of its usual gaps.
    """
    if held.side:
        return SIDE
    patience = ONCE if held.gap is None else max(USUAL * held.gap, LEAST_PATIENCE)
    idle = now - held.used
    likely = (held.hits + 1) / (held.hits + 2)
    return likely if idle <= patience else likely * (patience / idle) ** 2


def loss(engine: Engine, held: Held, kept: int) -> float:
    """Seconds to get a prefix back of which so many tokens are kept: by reading, or from a snapshot and reading the rest. Not
    counted is that the server may have a copy in a cache."""
    seconds = reading(engine, kept, held.tokens)
    if engine.snapshots and (snapshot := saved(engine, held.chain)) is not None and snapshot.tokens > kept:
        return min(seconds, snapshot.seconds + reading(engine, snapshot.tokens, held.tokens))
    return seconds


def chance_of_loss(engine: Engine, held: Held, kept: int) -> float:
    """llama.cpp copies what it overwrites to its cache if less than half of it is kept (`get_available_slot` in its source)."""
    return LOST[engine.cache] if 2 * kept < held.tokens else 1.0
