"""The requests that later ones are compared with: chains, hashes and lengths, no text unless `explain.store: text`.

One writer: `gateway.state.accounting`, on the event loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.canonical.analysis import Memo
from gateway.canonical.route import ALIKE, Skeleton, skeleton
from gateway.dialects.prompt import Prompt
from gateway.prefix.chain import Chain, common
from gateway.prefix.sections import Looked, look, look_at_tools

CLOSE = 32
"""Requests with an equally long common beginning that are looked at more closely, the newest ones."""

HALF_ALIKE = 0.4
"""Share of common lines that is enough where a message is the same as well."""

MEMO = 64
"""Texts of which it is remembered what was seen in them."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A finished request. scope: who asked, by digest, for which model through which API; named: what the client calls its
    session; looked: by system text; said: digests of its messages alone; newest: hashes of the lines of the last one;
    texts: the system texts and the tools, () unless they are kept."""

    id: str
    scope: bytes
    route: str
    side: bool
    named: str
    chain: Chain
    spelled: tuple[bytes, ...]
    looked: tuple[Looked, ...]
    tools: Looked
    shape: Skeleton
    said: frozenset[bytes]
    newest: frozenset[int]
    texts: tuple[str, ...] = ()


class Looks:
    """What is seen in texts, remembered by the text itself: a client that sends the same again costs a look-up."""

    def __init__(self) -> None:
        self._texts: Memo[Looked] = Memo(MEMO)
        self._tools: Memo[Looked] = Memo(MEMO)
        self._shapes: Memo[Skeleton] = Memo(MEMO)

    def at(self, prompt: Prompt) -> tuple[Looked, ...]:
        return tuple(self._look(text.text, number == 0) for number, text in enumerate(prompt.system))

    def _look(self, text: str, first: bool) -> Looked:
        return self._texts.get((text, first), lambda: look(text, first))

    def at_tools(self, tools: str) -> Looked:
        return self._tools.get(tools, lambda: look_at_tools(tools)) if tools else Looked()

    def shape(self, prompt: Prompt) -> Skeleton:
        texts = tuple(text.text for text in prompt.system)
        return self._shapes.get(texts, lambda: skeleton(texts))


class Earliers:
    """keep: different prompts that are remembered; 0 for none. A prompt that comes again takes the place of its earlier self,
    so that a client that repeats itself costs one comparison and not one for each time."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._by_prompt: OrderedDict[tuple[bytes, bool, bool, bytes], Earlier] = OrderedDict()

    def add(self, one: Earlier) -> None:
        chain = one.chain
        key = (one.scope, one.side, chain.tools_first, chain.digests[-1] if chain.digests else chain.root)
        self._by_prompt.pop(key, None)
        self._by_prompt[key] = one
        self.resize(self._keep)

    def resize(self, keep: int) -> None:
        self._keep = keep
        while len(self._by_prompt) > keep:
            self._by_prompt.popitem(last=False)

    def forget(self) -> None:
        self._by_prompt.clear()

    @property
    def _all(self) -> Iterable[Earlier]:
        """The oldest first."""
        return self._by_prompt.values()

    def heads(self, scope: bytes) -> int:
        """Characters of tools and system text of the largest recent conversation in this scope."""
        return max((one.chain.size_at(one.chain.head) for one in self._all if one.scope == scope and not one.side), default=0)

    def nearest(self, new: Earlier) -> Earlier | None:
        """The earlier request with which this one has most in common, None if there is none of its kind.

        What counts is the beginning that both have, then messages that both have, then the lines of the system text, then age.
        """
        shared = [(common(new.chain, one.chain), one) for one in self._all if _comparable(new, one)]
        most = max((nodes for nodes, _ in shared), default=0)
        best, score = None, (-1, -1.0)
        for one in [one for nodes, one in shared if nodes == most][-CLOSE:]:
            found = (len(new.said & one.said), likeness(new.shape.sketch, one.shape.sketch))
            if found >= score and (most or _akin(new, one, *found)):
                best, score = one, found
        return best


def _comparable(new: Earlier, old: Earlier) -> bool:
    return old.scope == new.scope and old.side == new.side and old.chain.tools_first == new.chain.tools_first


def _akin(new: Earlier, old: Earlier, said: int, alike: float) -> bool:
    """Whether two requests that do not begin alike are of one kind. said: messages that both have; alike: of their system
    texts."""
    if new.named and new.named == old.named:
        return True
    if not new.chain.head:
        return said > 0
    return alike >= (HALF_ALIKE if said else ALIKE) or said > 1


def likeness(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Share of the lines that two samples of lines have in common."""
    one, other = set(ours), set(theirs)
    return len(one & other) / len(one | other) if one or other else 0.0
