"""Digests of the nodes of chains, made once. Pure but for its bounded memory.

A digest is keyed by the secret of the installation, so it says nothing to others and is the same after a restart. It costs
more than all else about a prompt, and most of a prompt was there before: its nodes are known again by Python's own hash of
what they are made of, which is quick, keyed anew in each process and seen by nobody. No text is kept.
"""

from __future__ import annotations

from gateway.canonical.digests import digest, encode

Word = str | bytes

MOST = 1 << 15
"""Nodes that are remembered in each of two generations; the older one goes when the newer one is full."""

TEXT, DATA = b"t", b"d"


class Nodes:
    """secret: keys the digests."""

    def __init__(self, secret: bytes, most: int = MOST) -> None:
        self._secret, self._most = secret, most
        self._new: dict[int, bytes] = {}
        self._old: dict[int, bytes] = {}

    def after(self, before: bytes, words: tuple[Word, ...]) -> bytes:
        """The digest of the node that follows `before` and adds `words`."""
        key = hash((before, words))
        if (found := self._new.get(key)) is not None:
            return found
        if (found := self._old.get(key)) is None:
            found = digest(self._secret, before, *_tagged(words))
        if len(self._new) >= self._most:
            self._new, self._old = {}, self._new
        self._new[key] = found
        return found

    def forget(self) -> None:
        self._new, self._old = {}, {}


def _tagged(words: tuple[Word, ...]) -> list[bytes]:
    """Texts and data as bytes that cannot be taken for each other."""
    return [TEXT + encode(word) if isinstance(word, str) else DATA + word for word in words]
