"""The requests that later ones are compared with: chains, hashes and lengths, no text unless `explain.store: text`.

One writer: `gateway.state.accounting`, on the event loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from gateway.canonical.analysis import Memo
from gateway.canonical.route import ALIKE, SHORT, Skeleton, skeleton
from gateway.dialects.prompt import Prompt
from gateway.prefix.chain import Chain
from gateway.prefix.sections import Looked, look, look_at_tools

CLOSE = 32
"""Requests with an equally long common beginning that are looked at more closely, the newest ones."""

HALF_ALIKE = 0.4
"""Share of common lines that is enough where a message or the tools are the same as well."""

FEW = 4096
"""Characters of a system text of at most `SHORT` lines that is compared by its words."""

MEMO = 64
"""Texts of which it is remembered what was seen in them."""


@dataclass(slots=True, eq=False)
class Earlier:
    """A finished request. scope: who asked, by digest, for which model through which API; named: what the client calls its
    session; looked: by system text; words: hashes of those of a system text of few lines; newest: hashes of the lines of its
    only message; texts: the system texts and the tools, () unless they are kept; route: set when it is known."""

    id: str
    scope: bytes
    side: bool
    named: str
    chain: Chain
    looked: tuple[Looked, ...]
    tools: Looked
    shape: Skeleton
    words: frozenset[int]
    newest: frozenset[int]
    texts: tuple[str, ...] = ()
    route: str = ""

    @property
    def last(self) -> bytes:
        """The digest of the whole prompt."""
        return self.chain.digests[-1] if self.chain.digests else self.chain.root


class Looks:
    """What is seen in texts, remembered by their hashes in a chain: a client that sends the same again costs a look-up."""

    def __init__(self) -> None:
        self._texts: Memo[Looked] = Memo(MEMO)
        self._tools: Memo[Looked] = Memo(MEMO)
        self._shapes: Memo[Skeleton] = Memo(MEMO)
        self._words: Memo[frozenset[int]] = Memo(MEMO)

    def at(self, prompt: Prompt, chain: Chain) -> tuple[Looked, ...]:
        return tuple(
            self._texts.get((own, number == 0), lambda number=number: look(prompt.system[number].text, number == 0))  # type: ignore[misc]
            for number, own in enumerate(_owns(chain, "system"))
        )

    def at_tools(self, tools: str, chain: Chain) -> Looked:
        return next((self._tools.get(own, lambda: look_at_tools(tools)) for own in _owns(chain, "tools")), Looked())

    def shape(self, prompt: Prompt, chain: Chain) -> Skeleton:
        return self._shapes.get(_owns(chain, "system"), lambda: skeleton([text.text for text in prompt.system]))

    def words(self, prompt: Prompt, chain: Chain, shape: Skeleton) -> frozenset[int]:
        """Of a system text of so few lines that one that differs leaves little in common."""
        if not 0 < len(shape.sketch) <= SHORT:
            return frozenset()
        return self._words.get(_owns(chain, "system"), lambda: _words(prompt))


def _words(prompt: Prompt) -> frozenset[int]:
    return frozenset([hash(word) for text in prompt.system for word in text.text[:FEW].split()])


def _owns(chain: Chain, kind: str) -> tuple[int, ...]:
    return tuple(own for own, one in zip(chain.owns, chain.kinds, strict=False) if one == kind)


class Kind(NamedTuple):
    """Requests that may be compared."""

    scope: bytes
    side: bool
    tools_first: bool


@dataclass(slots=True)
class _Group:
    """Requests of one kind. members: by the digest of the whole prompt, the oldest first; holders: for each node the newest
    member that has it; head: characters of tools and system text of the largest that was seen."""

    members: OrderedDict[bytes, Earlier] = field(default_factory=OrderedDict)
    holders: dict[bytes, Earlier] = field(default_factory=dict)
    head: int = 0

    def add(self, one: Earlier) -> None:
        self.members.pop(one.last, None)
        self.members[one.last] = one
        self.holders.update(dict.fromkeys(one.chain.digests, one))
        self.head = max(self.head, one.chain.size_at(one.chain.head))

    def drop(self, last: bytes) -> None:
        """Only ever the oldest, so that no other holds what is held by it."""
        one = self.members.pop(last)
        for node in one.chain.digests:
            if self.holders.get(node) is one:
                del self.holders[node]

    def shared(self, chain: Chain) -> int:
        """The most nodes that any member has in common with a chain."""
        low, high, digests = 0, len(chain.digests), chain.digests
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if digests[middle - 1] in self.holders else (low, middle - 1)
        return low

    def having(self, nodes: int, node: bytes) -> Iterator[Earlier]:
        """The newest members with this node, the newest first; nodes: how many there are up to it, 0 for any member."""
        for one in reversed(self.members.values()):
            if not nodes or (len(one.chain.digests) >= nodes and one.chain.digests[nodes - 1] == node):
                yield one


class Earliers:
    """keep: different prompts that are remembered; 0 for none. A prompt that comes again takes the place of its earlier self,
    so that a client that repeats itself costs one comparison and not one for each time."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._groups: dict[Kind, _Group] = {}
        self._order: OrderedDict[tuple[Kind, bytes], None] = OrderedDict()  # the oldest first

    def __iter__(self) -> Iterator[Earlier]:
        return (one for group in self._groups.values() for one in group.members.values())

    def add(self, one: Earlier) -> None:
        if not self._keep:
            return
        kind = _kind(one)
        self._groups.setdefault(kind, _Group()).add(one)
        self._order[kind, one.last] = None
        self._order.move_to_end((kind, one.last))
        self.resize(self._keep)

    def resize(self, keep: int) -> None:
        self._keep = keep
        while len(self._order) > keep:
            (kind, last), _ = self._order.popitem(last=False)
            self._groups[kind].drop(last)
            if not self._groups[kind].members:
                del self._groups[kind]

    def forget(self) -> None:
        self._groups.clear()
        self._order.clear()

    def heads(self, scope: bytes) -> int:
        """Characters of tools and system text of the largest recent conversation in this scope."""
        groups = (self._groups.get(Kind(scope, False, tools_first)) for tools_first in (False, True))
        return max((group.head for group in groups if group), default=0)

    def nearest(self, new: Earlier) -> Earlier | None:
        """The earlier request with which this one has most in common, None if there is none of its kind.

        What counts is the beginning that both have, then messages that both have, then the lines of the system text, then age.
        """
        group = self._groups.get(_kind(new))
        if group is None:
            return None
        most = group.shared(new.chain)
        node = new.chain.digests[most - 1] if most else b""
        if most and len((holder := group.holders[node]).chain.digests) == most:
            return holder  # this one goes on where that one ended
        best, score, said = None, (-1, -1.0), set(new.chain.said)
        for one in reversed(list(islice(group.having(most, node), CLOSE))):
            alike = max(likeness(new.shape.sketch, one.shape.sketch), likeness(new.words, one.words))
            found = (len(said.intersection(one.chain.said)), alike)
            if found >= score and (most or _akin(new, one, *found)):
                best, score = one, found
        return best


def _kind(one: Earlier) -> Kind:
    return Kind(one.scope, one.side, one.chain.tools_first)


def _akin(new: Earlier, old: Earlier, said: int, alike: float) -> bool:
    """Whether two requests that do not begin alike are of one kind. said: messages that both have; alike: of their system
    texts."""
    if new.named and new.named == old.named:
        return True
    if not new.chain.head:
        return said > 0
    same_tools = bool(new.tools.items) and new.tools.items == old.tools.items
    return alike >= (HALF_ALIKE if said or same_tools else ALIKE) or said > 1


def likeness(ours: Collection[int], theirs: Collection[int]) -> float:
    """Share of what is in either of two samples that is in both."""
    if ours == theirs:
        return 1.0 if ours else 0.0
    one, other = set(ours), set(theirs)
    return len(one & other) / len(one | other)
