"""What simulated agents ask for: conversations that grow turn by turn, side requests between the turns, servers that die.

An agent has a head (system text and tools) that it may share with others, works through several tool calls quickly, then pauses
as long as a person thinks, and begins a new conversation in the end. All random numbers come from one seed, and each agent has
its own, so that every policy is asked for the same.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass

from bench.sim import Time
from gateway.prefix.chain import Chain

NODE = 256
"""Tokens of a node of a chain."""

KINDS = 4
"""Kinds of agents, each with its own head."""


@dataclass(eq=False)
class Request:
    """One request of an agent. ended: called when its answer is complete."""

    chain: Chain
    answer: int
    session: str
    side: bool
    came: float
    ended: Callable[[], None]
    ttft: float | None = None
    tries: int = 0


class Talk:
    """A conversation: its chain grows by one part at a time. A character is a token here. The first part is the head."""

    def __init__(self, name: str, head: str, tokens: int, node: int = NODE) -> None:
        self.name, self._node = name, node
        self._link = b"root"
        self._digests: list[bytes] = []
        self._sizes: list[int] = []
        self._ends: list[int] = []
        self._owns: list[int] = []
        self._replies = bytearray()
        self.add(head, tokens)

    def add(self, text: str, tokens: int, *, reply: bool = False) -> None:
        start = self.size
        for end in [*range(self._node, tokens, self._node), tokens]:
            self._link = hashlib.blake2b(self._link + f"{text}:{end}".encode(), digest_size=16).digest()
            self._digests.append(self._link)
            self._sizes.append(start + end)
        self._ends.append(len(self._digests))
        self._owns.append(hash(text))
        self._replies.append(reply)

    @property
    def size(self) -> int:
        return self._sizes[-1] if self._sizes else 0

    def chain(self) -> Chain:
        count = len(self._ends)
        return Chain(
            root=b"root",
            digests=tuple(self._digests),
            sizes=tuple(self._sizes),
            tools_first=False,
            kinds=("system",),
            ends=tuple(self._ends),
            owns=tuple(self._owns),
            numbers=(0, *range(count - 1)),
            spelled=(0,) * count,
            replies=bytes(self._replies),
        )


@dataclass(frozen=True)
class Habits:
    """How the agents of a fleet behave. heads: tokens, least and most; pause: mean seconds between tool calls, and of thinking;
    side: probability of a side request after a turn; length: mean turns of a conversation."""

    heads: tuple[int, int] = (1500, 6000)
    pause: tuple[float, float] = (1.0, 20.0)
    side: float = 0.3
    length: float = 15.0


class Agent:
    """Takes so many turns. Random numbers are drawn when a turn begins or ends, so that their order depends on nothing else."""

    def __init__(self, number: int, seed: int, habits: Habits, turns: int, time: Time, send: Callable[[Request], None]) -> None:
        self._random = random.Random(f"{seed}:agent:{number}")
        self._number, self._habits, self._time, self._send, self._turns = number, habits, time, send, turns
        self._head = f"head {seed} {self._random.randrange(KINDS)}"
        self._head_tokens = random.Random(self._head).randint(*habits.heads)
        self._talks = self._asked = 0
        self._begin()
        time.after(self._random.uniform(0, 10), self._turn)

    def _begin(self) -> None:
        self._talks += 1
        self._talk = Talk(f"{self._number}.{self._talks}", self._head, self._head_tokens)
        self._left = max(2, round(self._random.expovariate(1 / self._habits.length)))

    def _turn(self) -> None:
        if not self._turns:
            return
        self._turns -= 1
        self._asked += 1
        talk = self._talk
        talk.add(f"{talk.name} asks {self._asked}", self._random.randint(50, 600))
        answer = self._random.randint(40, 250)
        self._send(Request(talk.chain(), answer, talk.name, False, self._time.now, lambda: self._answered(answer)))

    def _answered(self, answer: int) -> None:
        draw, (short, long) = self._random, self._habits.pause
        self._talk.add(f"{self._talk.name} hears {self._asked}", answer, reply=True)
        if draw.random() < self._habits.side:
            self._aside()
        pause = draw.expovariate(1 / (long if draw.random() < 0.25 else short))
        self._left -= 1
        if self._left <= 0:
            self._begin()
            pause = draw.expovariate(1 / long)
        self._time.after(pause, self._turn)

    def _aside(self) -> None:
        """A title, or facts to remember: another head, and a part of the conversation that nobody sends again."""
        draw, talk = self._random, self._talk
        aside = Talk(f"{talk.name} aside", f"side head {draw.randrange(2)}", 300)
        aside.add(f"{talk.name} told {self._asked}", draw.choice((400, 800, min(6000, talk.size))))
        answer, chain = draw.randint(10, 80), aside.chain()

        def ask() -> None:
            self._send(Request(chain, answer, talk.name, True, self._time.now, lambda: None))

        self._time.after(draw.uniform(0, 0.5), ask)
