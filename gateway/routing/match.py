"""How much of a prompt is held somewhere, in nodes of its chain and in tokens. Pure."""

from __future__ import annotations

from gateway.prefix.chain import Chain, common
from gateway.routing.board import Engine, Held, Snapshot


def shared(one: Chain, other: Chain, guess: int = 0) -> int:
    """Nodes that two chains have in common. Most pairs differ in their first node, or the other goes on where the first ends,
    or they differ behind `guess` nodes: all that is seen without a search."""
    mine, theirs = one.digests, other.digests
    count, most = len(mine), len(theirs)
    if not count or not most or mine[0] != theirs[0]:
        return 0
    if count <= most and mine[-1] == theirs[count - 1]:
        return count
    if 0 < guess < count and guess < most and mine[guess] != theirs[guess] and mine[guess - 1] == theirs[guess - 1]:
        return guess
    return common(one, other)


def tokens_at(chain: Chain, nodes: int, ratio: float) -> int:
    """Tokens of the first nodes of a prompt, of all of it if it has fewer."""
    return int(chain.sizes[min(nodes, len(chain.sizes)) - 1] * ratio) if nodes and chain.sizes else 0


def reusable(held: Held, chain: Chain, nodes: int, ratio: float) -> int:
    """Tokens of a prompt that are held, when so many nodes are. A conversation that goes on finds the answer as well: it was
    generated behind the prompt that is held, and comes back as the next message."""
    tokens = tokens_at(chain, nodes, ratio)
    if nodes and nodes == len(held.chain.digests) and tokens < held.tokens:
        answer = chain.part_at(nodes)
        if answer is not None and answer.reply:
            return max(tokens, min(held.tokens, int(chain.sizes[answer.end - 1] * ratio)))
    return tokens


def saved(engine: Engine, chain: Chain) -> Snapshot | None:
    """The snapshot that holds most of a prompt."""
    if not engine.snapshots:
        return None
    digests = chain.digests
    found = [one for one in engine.snapshots.values() if one.nodes <= len(digests) and digests[one.nodes - 1] == one.node]
    return max(found, key=lambda one: one.nodes, default=None)
