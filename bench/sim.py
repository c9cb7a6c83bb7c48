"""A simulated llama.cpp server with slots that keep what they hold, token by token, and the time that it runs in.

What is modelled, as measured on the real server: a request takes the idle slot that shares most of its prompt, if that is more
than a tenth of it, else the one that was idle for longest; with `pin` that slot; without an idle slot it waits in order of
arrival. All slots share one loop: in each round every answer grows by one token, and up to 2,048 tokens of prompts are read,
those of the first slots first. There is no cache besides the slots.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.prefix.chain import Chain
from gateway.routing.match import shared

BATCH = 2048
"""Tokens of prompts that are read in one round."""

SIMILAR = 0.1
"""Share of the prompt above which a slot is taken for its prefix."""


class Time:
    """Simulated seconds, and what is to happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (max(when, self.now), next(self._count), what))

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self.at(self.now + seconds, what)

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, what = heapq.heappop(self._due)
            what()


@dataclass(eq=False)
class Task:
    """A request at a server. chain: of its prompt, one character for each token; answer: tokens; first, done, failed: told when
    its first token comes, when it is over, when the server dies."""

    chain: Chain
    answer: int
    first: Callable[[], None]
    done: Callable[[], None]
    failed: Callable[[], None]
    pin: int | None = None
    unread: int = 0
    unsaid: int = 0
    cached: int = 0


@dataclass(eq=False)
class SimSlot:
    """said: tokens of the answer that are held behind the chain."""

    number: int
    chain: Chain | None = None
    said: int = 0
    used: float = -1.0
    task: Task | None = None


@dataclass(eq=False)
class Server:
    """rate: tokens of prompts that it reads in a second; pace: seconds for each token of an answer."""

    time: Time
    name: str
    count: int
    rate: float
    pace: float
    slots: list[SimSlot] = field(init=False)
    queue: deque[Task] = field(default_factory=deque)
    up: bool = True
    read: int = 0
    _round: tuple[float, int, int] | None = None  # when it began, tokens for each answer, its number
    _reading: list[tuple[SimSlot, int]] = field(default_factory=list)
    _rounds: int = 0

    def __post_init__(self) -> None:
        self.slots = [SimSlot(number) for number in range(self.count)]

    @property
    def load(self) -> int:
        return len(self.queue) + sum(slot.task is not None for slot in self.slots)

    def submit(self, task: Task) -> None:
        if not self.up:
            self.time.after(0.01, task.failed)
            return
        self.queue.append(task)
        self._start_tasks()
        if self._round is None:
            self._next_round()
        elif not self._reading:
            self._cut_short()

    def fail(self) -> None:
        """The process dies: all requests with it, and all that it held."""
        tasks = [slot.task for slot in self.slots if slot.task] + list(self.queue)
        self.queue.clear()
        self._round, self._reading, self.up = None, [], False
        self._rounds += 1
        self.__post_init__()
        for task in tasks:
            task.failed()

    def _start_tasks(self) -> None:
        waiting = list(self.queue)
        self.queue.clear()
        for task in waiting:
            slot = self._slot_for(task)
            if slot is None:
                self.queue.append(task)
            else:
                self._take(slot, task)

    def _slot_for(self, task: Task) -> SimSlot | None:
        if task.pin is not None:
            return self.slots[task.pin] if self.slots[task.pin].task is None else None
        idle = [slot for slot in self.slots if slot.task is None]
        if not idle:
            return None
        best = max(idle, key=lambda slot: reuse(slot, task.chain))
        if reuse(best, task.chain) > SIMILAR * task.chain.size:
            return best
        return min(idle, key=lambda slot: slot.used)

    def _take(self, slot: SimSlot, task: Task) -> None:
        task.cached = min(reuse(slot, task.chain), task.chain.size - 1)
        task.unread, task.unsaid = task.chain.size - task.cached, task.answer
        self.read += task.unread
        slot.task, slot.chain, slot.said = task, task.chain, 0

    def _next_round(self) -> None:
        busy = [slot for slot in self.slots if slot.task is not None]
        if not busy or not self.up:
            self._round = None
            return
        room, self._reading = BATCH, []
        for slot in busy:
            assert slot.task is not None
            if slot.task.unread and room:
                tokens = min(slot.task.unread, room)
                self._reading.append((slot, tokens))
                room -= tokens
        saying = [slot.task.unsaid for slot in busy if slot.task and not slot.task.unread]
        tokens = 1 if self._reading else min(saying)
        self._begin(self.time.now, tokens, (BATCH - room) / self.rate + (tokens * self.pace if saying else 0.0))

    def _begin(self, began: float, tokens: int, seconds: float) -> None:
        self._rounds += 1
        number = self._rounds
        self._round = (began, tokens, number)
        self.time.at(began + seconds, lambda: self._end_round(number))

    def _cut_short(self) -> None:
        """A new request is heard at the next token."""
        assert self._round is not None
        began, tokens, _ = self._round
        passed = int((self.time.now - began) / self.pace) + 1
        if passed < tokens:
            self._begin(began, passed, passed * self.pace)

    def _end_round(self, number: int) -> None:
        if self._round is None or self._round[2] != number:
            return
        _, tokens, _ = self._round
        told: list[Callable[[], None]] = []
        reading = {slot.number for slot, _ in self._reading}
        for slot in self.slots:
            task = slot.task
            if task is not None and slot.number not in reading and not task.unread:
                task.unsaid -= tokens
                slot.said += tokens
                if task.unsaid <= 0:
                    slot.task, slot.used = None, self.time.now
                    told.append(task.done)
        for slot, count in self._reading:
            assert slot.task is not None
            slot.task.unread -= count
            if not slot.task.unread:
                told.append(slot.task.first)
        self._reading = []
        self._start_tasks()
        for tell in told:
            tell()
        if self._round is not None and self._round[2] == number:
            self._next_round()


def reuse(slot: SimSlot, chain: Chain) -> int:
    """Tokens of a prompt that the slot holds, its own last answer among them."""
    if slot.chain is None:
        return 0
    nodes = shared(slot.chain, chain)
    tokens = chain.size_at(nodes)
    if nodes == len(slot.chain.digests):
        answer = chain.part_at(nodes)
        if answer is not None and answer.reply:
            tokens += min(slot.said, answer.size)
    return tokens
