"""What a KV cache holds, in tokens: a prompt and the answer that was generated behind it. Pure.

Tokens are those that replies reported, where they did; the share of a beginning goes by its characters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.prefix.chain import Chain
from gateway.routing.board import Held
from gateway.routing.match import shared as shared_nodes

SAME = 0.5
"""Share of what was held that must come back for it to count as used again, and not as overwritten."""

BACK = 16
"""Nodes that are looked back for one whose tokens were counted."""

SMOOTH = 0.7
"""Weight of the usual gap between two uses against the newest one."""


@dataclass(slots=True)
class Content(Held):
    """prompt: tokens of the chain; what `tokens` has besides was generated behind it; session: digest, or "";
    counted: tokens of beginnings by their last node, where a reply told."""

    prompt: int = 0
    session: str = ""
    counted: Mapping[bytes, int] = field(default_factory=dict)

    def tokens_at(self, nodes: int) -> int:
        """Tokens of the first nodes of its chain: as they were counted, and behind that by their share of the characters."""
        chain, tokens, size = self.chain, 0, 0
        for at in range(nodes, max(0, nodes - BACK), -1):
            if (counted := self.counted.get(chain.digests[at - 1])) is not None:
                tokens, size = counted, chain.size_at(at)
                break
        rest = chain.size - size
        return tokens + round((self.prompt - tokens) * (chain.size_at(nodes) - size) / rest) if rest > 0 else tokens


def reused(content: Content | None, chain: Chain, prompt: int) -> int:
    """Tokens of a prompt that are reused where this is held. prompt: about how many it has; one is always computed."""
    if content is None:
        return 0
    nodes = shared_nodes(content.chain, chain)
    tokens = content.tokens_at(nodes)
    if nodes == len(chain.digests):
        return max(0, tokens - 1)
    following = chain.part_at(nodes) if nodes == len(content.chain.digests) else None
    if following is not None and following.reply:
        tokens += min(content.tokens - content.prompt, round(following.size * prompt / (chain.size or 1)))
    return tokens


def kept(content: Content, chain: Chain, prompt: int) -> float:
    """The share of what is held that stays when this prompt is computed in its place."""
    return reused(content, chain, prompt) / content.tokens if content.tokens else 0.0


def contains(outer: Content, inner: Content) -> bool:
    """Whether one holds all that the other does, the answer too if the conversation has gone on."""
    nodes = len(inner.chain.digests)
    if nodes > len(outer.chain.digests) or shared_nodes(outer.chain, inner.chain) < nodes:
        return False
    part = outer.chain.part_at(nodes)
    return inner.tokens <= outer.tokens and (part is None or part.reply or inner.tokens == inner.prompt)


def following(before: Content | None, chain: Chain, prompt: int, now: float, side: bool, session: str) -> Content:
    """What a cache holds once it has read a prompt. before: what that prompt goes on from, whose history it takes over."""
    new = Content(chain, prompt, now, now, side=side, prompt=prompt, session=session)
    if before is not None and kept(before, chain, prompt) >= SAME:
        pause = max(0.0, now - before.used)
        new.came, new.hits = before.came, before.hits + 1
        new.gap = pause if before.gap is None else SMOOTH * before.gap + (1 - SMOOTH) * pause
    return new


def cut(content: Content, tokens: int) -> Content | None:
    """What is left when so many tokens are held: the nodes that fit. None if there is none."""
    if tokens >= content.tokens:
        return content
    if tokens >= content.prompt:
        return replace(content, tokens=tokens)
    nodes = len(content.chain.digests)
    while nodes and content.tokens_at(nodes) > tokens:
        nodes -= 1
    if not nodes:
        return None
    left = content.tokens_at(nodes)
    return replace(content, chain=beginning(content.chain, nodes), tokens=left, prompt=left)


def agreed(content: Content, others: Iterable[Content]) -> Content | None:
    """What is held for certain if it is one of several that cannot be told apart: their common beginning."""
    nodes = min((shared_nodes(content.chain, other.chain) for other in others), default=len(content.chain.digests))
    return content if nodes == len(content.chain.digests) else cut(content, content.tokens_at(nodes))


def beginning(chain: Chain, nodes: int) -> Chain:
    """The first nodes of a chain, with the parts that are whole in it."""
    whole = bisect_right(chain.ends, nodes)
    return replace(
        chain, digests=chain.digests[:nodes], sizes=chain.sizes[:nodes], kinds=chain.kinds[:whole], ends=chain.ends[:whole],
        owns=chain.owns[:whole], numbers=chain.numbers[:whole], spelled=chain.spelled[:whole], replies=chain.replies[:whole],
    )  # fmt: skip
