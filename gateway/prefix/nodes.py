"""Digests of the nodes of chains, made once. Pure but for its bounded memory.

A digest is keyed by the secret of the installation, so it says nothing to others and is the same after a restart. It costs
more than all else about a prompt, and most of a prompt was there before: its nodes are known again by Python's own hash of
what they are made of, which is quick, keyed anew in each process and seen by nobody. No text is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from gateway.canonical.digests import SIZE, encode

Word = str | bytes

MOST = 1 << 15
"""Nodes that are remembered in each of two generations; the older one goes when the newer one is full."""

TEXT, DATA = b"td"


class Nodes:
    """secret: keys the digests."""

    def __init__(self, secret: bytes, most: int = MOST) -> None:
        self._keyed, self._most = hashlib.blake2b(key=secret[:64], digest_size=SIZE), most
        self._new: dict[int, bytes] = {}
        self._old: dict[int, bytes] = {}

    def after(self, before: bytes, words: tuple[Word, ...]) -> bytes:
        """The digest of the node that follows `before` and adds `words`."""
        key = hash((before, words))
        return self._new.get(key) or self._make(key, before, words)

    def follow(self, before: bytes, each: Iterable[tuple[Word, ...]]) -> list[bytes]:
        """The digests of nodes that follow one another."""
        made, known = [], self._new.get
        for words in each:
            key = hash((before, words))
            before = known(key) or self._make(key, before, words)
            made.append(before)
        return made

    def _make(self, key: int, before: bytes, words: tuple[Word, ...]) -> bytes:
        """A digest that is new, or was not used for some time."""
        found = self._old.get(key) or self._digest(before, words)
        if len(self._new) >= self._most:
            self._new, self._old = {}, self._new
        self._new[key] = found
        return found

    def _digest(self, before: bytes, words: tuple[Word, ...]) -> bytes:
        state = self._keyed.copy()
        state.update(before)
        for word in words:  # with what it is and how long, so that no others can be taken for these
            data = encode(word) if isinstance(word, str) else word
            state.update(b"%c%d:" % (TEXT if isinstance(word, str) else DATA, len(data)))
            state.update(data)
        return state.digest()

    def forget(self) -> None:
        self._new, self._old = {}, {}
