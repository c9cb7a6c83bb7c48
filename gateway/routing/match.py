"""How much of a prompt is held somewhere, in nodes of its chain and in tokens. Pure."""

from __future__ import annotations

from gateway.prefix.chain import Chain, common
from gateway.routing.board import Engine, Held, Snapshot


def shared(one: Chain, other: Chain) -> int:
    """Nodes that two chains have in common. Most pairs differ in their first node, or one of them goes on where the other ends:
    both are seen without a search."""
    mine, theirs = one.digests, other.digests
    if not mine or not theirs or mine[0] != theirs[0] or one.root != other.root:
        return 0
    count = len(mine)
    if count <= len(theirs) and mine[-1] == theirs[count - 1]:
        return count
    return common(one, other)


def tokens_at(chain: Chain, nodes: int, ratio: float) -> int:
    """Tokens of the first nodes of a prompt."""
    return int(chain.sizes[nodes - 1] * ratio) if nodes else 0


def reusable(held: Held, chain: Chain, nodes: int, ratio: float) -> int:
    """Tokens of a prompt that are held, when so many nodes are. A conversation that goes on finds the answer as well: it was
    generated behind the prompt that is held, and comes back as the next message."""
    tokens = tokens_at(chain, nodes, ratio)
    if nodes and nodes == len(held.chain.digests) and tokens < held.tokens:
        answer = chain.part_at(nodes)
        if answer is not None and answer.reply:
            return max(tokens, min(held.tokens, int(chain.sizes[answer.end - 1] * ratio)))
    return tokens


def saved(engine: Engine, chain: Chain, nodes: frozenset[bytes] | None = None) -> Snapshot | None:
    """The snapshot that holds most of a prompt. nodes: the digests of its chain, where the caller has them as a set."""
    if not engine.snapshots:
        return None
    digests = chain.digests
    if nodes is not None:
        found = [engine.snapshots[node] for node in nodes & engine.snapshots.keys()]
    else:
        found = [one for one in engine.snapshots.values() if one.nodes <= len(digests) and digests[one.nodes - 1] == one.node]
    return max(found, key=lambda one: one.nodes, default=None)
