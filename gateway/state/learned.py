"""What is learned of an engine from its replies. One writer: `gateway.state.board`."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.state.rates import Ratio
from gateway.values import Usage

LOADED = 1000.0
"""Milliseconds of loading from which on a model was loaded: a warm one reports a few, too."""

KEEP = 0.8
"""Weight of what was known against the newest."""

COUNTED = 1024
"""Beginnings of prompts whose tokens are remembered."""

MARGIN = 2
"""Answers that are not limited are taken to be at most so many times as long as the usual one."""


@dataclass(slots=True)
class Learned:
    """answer: seconds from the first token of an answer to its end; load: that loading takes; completion: tokens of an
    answer; counted: tokens of beginnings of prompts, by their last node; strange: that a prompt reuses which has no node
    in common with what is held, by whether it is a side request: the first words of templates and tasks are alike."""

    ratio: Ratio = field(default_factory=Ratio)
    answer: float = 5.0
    load: float = 10.0
    completion: float = 256.0
    counted: dict[bytes, int] = field(default_factory=dict)
    strange: dict[bool, int] = field(default_factory=dict)

    def ended(self, usage: Usage, characters: int, answer: float | None) -> None:
        """Take the reply to a prompt of so many characters; answer: seconds from its first token, None if there was none."""
        if usage.prompt is not None:
            self.ratio.learn(usage.prompt, characters)
        if answer is not None:
            self.answer = KEEP * self.answer + (1 - KEEP) * answer
        if usage.completion:
            self.completion = KEEP * self.completion + (1 - KEEP) * usage.completion
        if usage.load_ms is not None and usage.load_ms >= LOADED:
            self.load = usage.load_ms / 1000

    def count(self, node: bytes, tokens: int) -> None:
        """A reply has told how many tokens a prompt has up to a node."""
        self.counted.pop(node, None)
        self.counted[node] = tokens
        while len(self.counted) > COUNTED:
            del self.counted[next(iter(self.counted))]

    @property
    def tokens(self) -> int:
        """Tokens that an answer may take that is not limited."""
        return round(MARGIN * self.completion)
