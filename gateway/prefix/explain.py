"""Why a request computed what it could have reused. Pure: facts in, a verdict out.

First what the backend lost: it was believed to hold more than it reported. Else what the client changed: its prompt differs
from the nearest earlier one of its route before that one's end, in something that was computed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.prefix.chain import Chain, Part, common, slid
from gateway.prefix.index import Cause
from gateway.values import Reason

SLACK = 24
"""Tokens by which counts may differ without a loss: a server computes the last token again, and some reuse whole blocks
only."""

SLACK_SHARE = 0.04
"""The same as a share of the prompt: beliefs are estimates from characters."""


LEAST = 12
"""Tokens that must have been computed again before the client is told what it changed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a prompt differs from an earlier one. shared: characters they have in common; part: where this one goes on in another
    way, old: what the earlier one has there; again: characters behind it that were computed before; slid: messages that slid
    out of a window; respelled: the first message that says the same in another spelling, None if there is none."""

    shared: int
    part: Part | None
    old: Part | None
    again: int
    slid: int
    params: bool
    respelled: Part | None = None


def differ(new: Chain, old: Chain, *, same_talk: Callable[[Part], bool] = lambda _: True) -> Difference:
    """new: this request's chain; old: the earlier one's; same_talk: whether this message of `new` is the one in its place in
    `old`, changed, and not one of another conversation.
    """
    nodes = common(new, old)
    shared, part = new.size_at(nodes), new.part_at(nodes)
    kept = new.whole_messages(nodes)
    respelled = _respelled(new, old, kept)
    if nodes == len(old.digests):  # it goes on as the earlier one ended
        return Difference(shared, part, None, 0, 0, new.root != old.root, respelled)
    old_part = old.part_at(nodes)
    seen = set(old.owns)
    behind = [one for one in new.parts if one.end > nodes]
    again = sum(one.size for one in behind if one.own in seen)
    if part is not None and old_part is not None and part.kind == old_part.kind and part.own not in seen:
        turned = part.kind == "message" and (
            part.end == len(new.digests) or not same_talk(part)
        )  # a turn of its own, nothing old
        again += 0 if turned else max(0, min(part.size, old_part.size) - max(0, shared - part.start))
        if part.kind == "message" and not turned:  # the answer to the earlier request was in the cache behind it
            again += sum(one.size for one in behind if one.reply and one.number == old.parts[-1].number + 1)
    gone = slid(old.said, new.said, kept) if nodes >= min(new.head, old.head) else 0
    return Difference(shared, part, old_part, again, gone, new.root != old.root, respelled)


def _respelled(new: Chain, old: Chain, kept: int) -> Part | None:
    """The first of the `kept` messages that both have which is spelled in another way."""
    ours, theirs = new.spelling(kept), old.spelling(kept)
    if ours == theirs:
        return None
    return next(new.messages[at] for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a request when it has ended. Counts are tokens, None where unknown.

    believed: at the backend, resident or not; elsewhere: believed to be resident at another backend; cause: why what was
    believed is resident no more; loaded: the server loaded the model for this request; busy: another request with this
    beginning was running there; alone: nothing else was computed there since; short: how often in a row the model reused less
    than expected with nothing else changed, this time not counted; ratio: tokens for each character.
    """

    side: bool
    difference: Difference | None
    prompt: int | None
    cached: int | None
    believed: int | None
    elsewhere: int | None = None
    cause: Cause | None = None
    loaded: bool = False
    busy: bool = False
    alone: bool = False
    short: int = 0
    ratio: float = 0.25
    compared: bool = True

    @property
    def slack(self) -> int:
        return max(SLACK, round((self.prompt or 0) * SLACK_SHARE))

    @property
    def missing(self) -> int:
        """Tokens that the backend did not have although it was believed to."""
        return (self.believed or 0) - self.cached if self.cached is not None else 0

    @property
    def moved(self) -> int:
        return (self.elsewhere or 0) - self.cached if self.cached is not None else 0

    @property
    def respelled(self) -> bool:
        return bool(self.difference and self.difference.respelled)


@dataclass(frozen=True, slots=True)
class Verdict:
    """lost: tokens, None where that cannot be told."""

    reason: Reason | None
    lost: int | None = None


NOTHING = Verdict(None)

BACKEND: tuple[tuple[Reason, Callable[[Facts], bool]], ...] = (
    ("history_changed", lambda facts: facts.respelled and facts.cause is None and not facts.loaded),
    ("backend_restarted", lambda facts: facts.cause == "backend_restarted"),
    ("model_loaded", lambda facts: facts.loaded or facts.cause == "model_loaded"),
    ("slot_moved", lambda facts: facts.busy),
    ("evicted", lambda facts: not facts.alone or facts.cause == "evicted"),
    ("engine_limit", lambda facts: facts.short > 0),
    ("unknown", lambda facts: True),
)
"""Why a backend has less than it was believed to: the first that is true."""

CLIENT: tuple[tuple[Reason, Callable[[Difference], bool]], ...] = (
    ("params_changed", lambda found: found.params),
    ("tools_changed", lambda found: _kinds(found)[0] == "tools" or _kinds(found)[1] == "tools"),
    ("system_changed", lambda found: "system" in _kinds(found)),
    ("window_slide", lambda found: found.slid > 0),
    ("history_changed", lambda found: True),
)
"""What a client changed: the first that is true."""


def _kinds(found: Difference) -> tuple[str | None, str | None]:
    return (found.part.kind if found.part else None, found.old.kind if found.old else None)


def judge(facts: Facts) -> Verdict:
    computed = facts.prompt - facts.cached if facts.prompt is not None and facts.cached is not None else None
    if computed is not None and computed <= facts.slack:
        return NOTHING
    if facts.missing > facts.slack:
        reason = next(reason for reason, holds in BACKEND if holds(facts))
        if reason == "unknown" and facts.difference and (changed := _client(facts, computed)).reason:
            return changed  # the template may have another order than was thought, so that the change lies further ahead
        return Verdict("side_request" if facts.side and reason == "evicted" else reason, facts.missing)
    if facts.moved > facts.slack and facts.moved > facts.missing:
        return Verdict("backend_moved", facts.moved)
    if facts.side:
        return Verdict("side_request", computed)
    return _client(facts, computed)


def _client(facts: Facts, computed: int | None) -> Verdict:
    found = facts.difference
    if found is None:
        return Verdict("first_seen" if facts.compared else "unknown", computed)
    again = round(found.again * facts.ratio)
    lost = again if computed is None else min(again, computed)
    changed = found.part is not None and (found.params or found.again > 0 or found.slid > 0)
    if not changed or lost < LEAST:
        return NOTHING
    return Verdict(next(reason for reason, holds in CLIENT if holds(found)), lost)
