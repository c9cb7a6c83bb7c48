"""A byte-level BPE tokenizer, learnt from the project's own corpus, in the form in which GGUF stores it. Pure.

Any text round-trips, because all 256 bytes are tokens. Prompt-like English takes 4 to 5 characters a token, other text less.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from gateway.engine.corpus import CORPUS

Word = tuple[str, ...]
Pair = tuple[str, str]

MERGES = 1024
END_OF_TEXT, MESSAGE_START, MESSAGE_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTROL = (END_OF_TEXT, MESSAGE_START, MESSAGE_END)

# How GPT-2 (tokenizer.ggml.pre = "gpt-2") cuts text into words, for ASCII, which is all that the corpus has.
_WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
_PRINTABLE = re.compile("\u0120?[A-Za-z]{2,}")  # U+0120 stands for a space


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """tokens: spelling by id, control tokens last; merges: in the order learnt, each written `left right`."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]

    def id_of(self, token: str) -> int:
        return self.tokens.index(token)

    def is_control(self, token: str) -> bool:
        return token in CONTROL

    def is_printable(self, token: str) -> bool:
        """True for tokens made of ASCII letters: any sequence of them is readable, valid UTF-8 and ends no message."""
        return not self.is_control(token) and _PRINTABLE.fullmatch(token) is not None


@cache
def vocabulary(merges: int = MERGES) -> Vocabulary:
    """The vocabulary with at most that many merges (fewer when the corpus has no pair left to merge)."""
    learnt = _learn(CORPUS, merges)
    tokens = dict.fromkeys([*_byte_spellings(), *(left + right for left, right in learnt), *CONTROL])
    return Vocabulary(tuple(tokens), tuple(f"{left} {right}" for left, right in learnt))


def _byte_spellings() -> list[str]:
    """The printable character that stands for each byte value in GPT-2 vocabularies: itself, or one from U+0100 on."""
    itself = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in itself else next(others)) for byte in range(256)]


def _learn(text: str, limit: int) -> list[Pair]:
    """Merge the most frequent neighbours again and again; equal counts are decided by spelling, so the result is stable."""
    spelling = _byte_spellings()
    words = Counter(tuple(spelling[byte] for byte in word.encode()) for word in _WORDS.findall(text))
    merges: list[Pair] = []
    while len(merges) < limit:
        pairs: Counter[Pair] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = _merged(words, best)
    return merges


def _merged(words: Counter[Word], pair: Pair) -> Counter[Word]:
    left, right = pair
    out: Counter[Word] = Counter()
    for word, count in words.items():
        parts: list[str] = []
        for part in word:
            if part == right and parts and parts[-1] == left:
                parts[-1] = left + right
            else:
                parts.append(part)
        out[tuple(parts)] += count
    return out
