"""choose(): where a request goes, or what it waits for, by cost. Pure: everything it knows is in its arguments.

    wait + prefill + load + disk (restore, save) + overwrite (the value of the prefix that is lost) + stall of others

Each term is time that somebody waits, and the lowest sum wins. Backends that are down or whose circuit is open are left out
while another one can serve.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.routing import pool, slots
from gateway.routing.board import Ask, Board, Choice, Engine
from gateway.routing.cost import Option, Sight, disk_seconds, head_tokens
from gateway.routing.decisions import Decision
from gateway.routing.limits import limit_of
from gateway.routing.match import shared
from gateway.routing.words import costs, reasons

SAME = 1e-3
"""Seconds below which two costs are the same."""

HEAD = 1000
"""Tokens of tools and system text from which on the gateway computes them first and saves them for all who begin alike."""

LEAD_STALL = 0.1
"""Seconds for which others may be stopped by that save."""

LEAST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds until a request that waits is looked at again."""

BIG = 1000
"""Tokens from which on a prefix is big enough for a side request to wait for the conversation's pause."""


class Unmeasured:
    """The rate of an engine that was not met yet."""

    def seconds(self, cached: int, prompt: int) -> None:
        return None


def choose(board: Board, ask: Ask, now: float) -> Choice:
    """Where the request goes now, or why it waits. ask.targets may not be empty."""
    sights: list[Sight] = []
    sick: list[Sight] = []
    head = ask.chain.head if ask.chain is not None else 0
    for order, target in enumerate(ask.targets):
        engine = board.engine(target, ask.label) or Engine(target.backend, target.model or ask.label, Unmeasured())
        (sights if engine.up and not engine.circuit_open else sick).append(Sight(board, engine, target, order, ask, head, now))
    if not sights:
        return Choice(sick[0].target, "unhealthy", reasons=("no backend is healthy: the first is tried",))
    found: list[Option] = []
    for sight in sights:
        found += _options(board, sight)
    best = _think_gap(_best(board, found, ask), ask, now)
    choice = _choice(best, _decision(board, best, found, ask), ask, now)
    return _lead(choice, next(sight for sight in sights if sight.engine is best.engine))


def _options(board: Board, sight: Sight) -> list[Option]:
    engine = sight.engine
    by_slot = engine.slots and (engine.mode == "kept" or sight.ask.asked_slot is not None)
    found = list(slots.options(sight) if by_slot else pool.options(sight))
    limit = limit_of(board, sight)
    if limit is not None:
        for option in found:
            option.hard, option.hold = True, option.hold or limit.why
            option.wait = max(option.wait, limit.seconds)
    if sight.leaders:
        found += pool.leading(sight)
    return found


def _best(board: Board, found: list[Option], ask: Ask) -> Option:
    """The cheapest; waiting for something better is allowed for a time only. Of those that cost the same: where the session
    was, then the least busy backend, then the first."""
    going = [option for option in found if option.hold is None]
    if going and ask.held >= ask.hold:
        found = going
    home = board.sessions.get(ask.session) if ask.session else None

    def rank(option: Option) -> tuple[bool, bool, int, int]:
        engine = option.engine
        return option.hold is not None, engine.backend != home, len(engine.running) + engine.waiting, option.order

    lowest = min([option.total for option in found]) + SAME
    return min([option for option in found if option.total <= lowest], key=rank)


def _think_gap(best: Option, ask: Ask, now: float) -> Option:
    """A side request that would overwrite the conversation that is just going on waits until that pauses: for as long as the
    next turn is due, and no longer than reading the conversation again would take."""
    held = best.replaced
    if not ask.side or best.hold is not None or held is None or held.side or held.gap is None or held.tokens < BIG:
        return best
    due = held.used + 2 * held.gap - now
    if best.overwrite < held.gap or due <= 0 or ask.held >= min(ask.hold, best.overwrite):
        return best
    return replace(best, hold="wait_side", wait=min(due, best.overwrite - ask.held), save=False, disk=0.0)


def _decision(board: Board, best: Option, found: list[Option], ask: Ask) -> Decision:
    if best.hold is not None:
        return best.hold
    if ask.asked_slot is not None and best.slot is not None:
        return "asked"
    if best.restore is not None:
        return "snapshot"
    others = [option for option in found if option is not best]
    if not others and not (best.pin and len(best.engine.slots) > 1):
        return "only"
    if best.reused:
        return "warm"
    if ask.side and best.slot is not None and best.pin:
        return "side"
    rivals = [option for option in others if option.engine is not best.engine]
    if any(option.reused > best.reused and option.hold for option in others):
        return "spread"
    return _cold(board, best, rivals, ask) if rivals else "least_worth"


def _cold(board: Board, best: Option, rivals: list[Option], ask: Ask) -> Decision:
    """Why this backend, where none holds the prefix."""
    if best.load < max(option.load for option in rivals):
        return "resident"
    if any(option.hold or len(option.engine.running) > len(best.engine.running) for option in rivals):
        return "least_busy"
    if board.sessions.get(ask.session) == best.engine.backend:
        return "session"
    return "least_worth" if best.overwrite < min(option.overwrite for option in rivals) - SAME else "order"


def _choice(best: Option, decision: Decision, ask: Ask, now: float) -> Choice:
    until = None
    if best.hold is not None:
        pause = min(max(best.wait, LEAST_PAUSE), LONGEST_PAUSE)
        until = now + (pause if best.hard or ask.held >= ask.hold else min(pause, max(ask.hold - ask.held, LEAST_PAUSE)))
    going = best.hold is None
    return Choice(
        target=best.target,
        decision=decision,
        hold=not going,
        until=until,
        slot=best.slot,
        pin=best.pin and going,
        restore=best.restore if going else None,
        save=best.save and going,
        replaced=best.replaced if going else None,
        reused=best.reused,
        costs=costs(best),
        reasons=reasons(best, now),
    )


def _lead(choice: Choice, sight: Sight) -> Choice:
    """Whether the gateway computes the head of the prompt first, and saves it for others that begin alike."""
    engine, ask = sight.engine, sight.ask
    chain = ask.chain
    slot = choice.slot if choice.slot is not None else _free(engine)
    if chain is None or choice.hold or ask.side or not engine.saves or slot is None or choice.restore is not None:
        return choice
    tokens = head_tokens(engine, ask)
    if tokens < HEAD or choice.reused >= tokens or chain.start in engine.snapshots:
        return choice
    if sight.streams * disk_seconds(engine, tokens) > LEAD_STALL:
        return choice
    if any(one.chain and shared(one.chain, chain) >= one.lead for one in sight.leaders):
        return choice
    words = (*choice.reasons, f"the first {tokens} tokens are computed first and saved for others")
    return replace(choice, decision="lead", lead=chain.head, slot=slot, reasons=words)


def _free(engine: Engine) -> int | None:
    """A slot to compute a head in, where it does not matter in which."""
    slot = pool.idle_slot(engine.slots)
    return slot.number if slot is not None else None
