"""A llama.cpp server in tokens, as far as its slots go, and the seats of a gateway in front of it.

Written from the same source as `gateway.state.shadow` (server-context.cpp `get_available_slot`, `server_prompt_cache`), but on
tokens: what is believed is held against what is.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from gateway.config import Backend
from gateway.dialects.prompt_read import read
from gateway.events import BackendProbed, BoardChanged, Bus, RequestLeft, RequestStarted
from gateway.prefix.chain import Chain, build
from gateway.routing.board import Ask, Choice, Engine
from gateway.state.board import Seats
from gateway.state.content import Content
from gateway.values import ModelInfo, Probe, Target, Usage
from tests.support.clock import ManualClock

Tokens = tuple[str, ...]

CHAT = "/v1/chat/completions"
SLOT_PROMPT_SIMILARITY = 0.1


def common(one: Tokens, other: Tokens) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages as (role, text); four characters of a text are one token, what stands around a message is five."""

    messages: tuple[tuple[str, str], ...]

    @property
    def chain(self) -> Chain:
        body = {"messages": [{"role": role, "content": text} for role, text in self.messages]}
        prompt = read(CHAT, body)
        assert prompt is not None
        return build(b"secret", prompt, "m")

    @property
    def tokens(self) -> Tokens:
        found: list[str] = []
        for role, text in self.messages:
            found += [f"<{role} {number}>" for number in range(5)]
            found += [text[at : at + 4] for at in range(0, len(text), 4)]
        return tuple(found)

    def answered(self, answer: str, then: str) -> Prompt:
        return Prompt((*self.messages, ("assistant", answer), ("user", then)))


@dataclass(slots=True)
class Task:
    id: int
    prompt: Tokens
    slot: SimSlot
    cached: int
    order: int


@dataclass(slots=True)
class SimSlot:
    number: int
    tokens: Tokens = ()
    task: int | None = None
    busy: Task | None = None
    used: int = -1


@dataclass
class Llama:
    """cache: it has one in RAM, without a limit; unified: it empties idle slots into it."""

    count: int
    cache: bool = False
    unified: bool = False
    slots: list[SimSlot] = field(default_factory=list)
    host: list[Tokens] = field(default_factory=list)
    clock: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.slots = [SimSlot(number) for number in range(self.count)]

    def start(self, prompt: Tokens, pinned: int | None = None) -> Task | None:
        """None: there is no slot for it now."""
        idle = [slot for slot in self.slots if slot.busy is None]
        if pinned is not None:
            idle = [slot for slot in idle if slot.number == pinned]
        if not idle:
            return None
        slot, update = idle[0], False
        best = max(idle, key=lambda one: common(one.tokens, prompt))
        if pinned is not None:
            update = bool(slot.tokens) and common(slot.tokens, prompt) < 0.5 * len(slot.tokens)
        elif common(best.tokens, prompt) > SLOT_PROMPT_SIMILARITY * len(prompt):
            slot, update = best, common(best.tokens, prompt) < 0.5 * len(best.tokens)
        else:
            for one in idle:
                if one.used <= slot.used:
                    slot = one
            update = True
        if update and self.cache:
            self._update(slot, prompt)
        cached = min(common(slot.tokens, prompt), len(prompt) - 1)
        slot.tokens = slot.tokens[:cached]
        slot.task = next(self.clock)
        slot.busy = Task(slot.task, prompt, slot, cached, 0)
        if self.unified:
            for other in self.slots:
                if other.busy is None and other.tokens:
                    self._save(other.tokens)
                    other.tokens = ()
        return slot.busy

    def finish(self, task: Task, answer: Tokens) -> Usage:
        task.slot.tokens = (*task.prompt, *answer)[: len(task.prompt) + len(answer) - 1]
        self._release(task.slot)
        return Usage(len(task.prompt), task.cached, len(answer), source="usage")

    def stop(self, task: Task, read: float) -> None:
        """Its client has left when such a share of its prompt had been read."""
        task.slot.tokens = task.prompt[: max(task.cached, int(read * len(task.prompt)))]
        self._release(task.slot)

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(slot) for slot in self.slots]

    def _row(self, slot: SimSlot) -> dict[str, Any]:
        row: dict[str, Any] = {"id": slot.number, "n_ctx": 100_000, "is_processing": slot.busy is not None}
        if slot.task is None:
            return row
        busy = slot.busy
        read = (busy.cached, len(busy.prompt) - busy.cached) if busy else (0, 0)
        held = len(busy.prompt) if busy else len(slot.tokens)
        counts = {"n_prompt_tokens": held, "n_prompt_tokens_cache": read[0], "n_prompt_tokens_processed": read[1]}
        return {**row, "id_task": slot.task, **counts}

    def _release(self, slot: SimSlot) -> None:
        slot.busy, slot.used = None, next(self.clock)

    def _save(self, tokens: Tokens) -> None:
        if tokens and not any(common(entry, tokens) == len(tokens) for entry in self.host):
            self.host = [*(entry for entry in self.host if common(entry, tokens) < len(entry)), tokens]

    def _update(self, slot: SimSlot, prompt: Tokens) -> None:
        self._save(slot.tokens)
        lcp = common(slot.tokens, prompt)
        share = lcp / len(slot.tokens) if slot.tokens else -1.0
        found = None
        for entry in self.host:
            here = common(entry, prompt)
            if here >= 0.25 * len(entry) and here / len(entry) > share and here > lcp:
                share, lcp, found = here / len(entry), here, entry
        if found is not None:
            self.host.remove(found)
            slot.tokens = found


class Rate:
    def seconds(self, cached: int, prompt: int) -> float | None:
        return max(0, prompt - cached) / 1000


@dataclass
class Flight:
    number: int
    prompt: Prompt
    pinned: int | None
    task: Task | None = None


class Front:
    """Seats in front of one such server, whose requests are started and ended by hand. told: backends that have changed."""

    def __init__(self, llama: Llama, clock: ManualClock, config: Backend | None = None, **probe: Any):
        self.llama, self.clock, self.bus = llama, clock, Bus()
        self.told: list[str] = []
        self.seats = Seats(self.bus, clock, lambda backend, model: Rate())
        self.bus.subscribe(self.seats.on_event)
        self.bus.subscribe(lambda event: self.told.append(event.backend) if isinstance(event, BoardChanged) else None)
        self.config = config or Backend(url="http://127.0.0.1:1", kind="llamacpp")
        self.seats.configure({"llama": self.config})
        self.probed(**probe)
        self.numbers = itertools.count(1)

    @property
    def engine(self) -> Engine:
        return self.seats.engine("llama", "m")

    def probed(self, **fields: Any) -> None:
        told = {"slots": self.llama.count, "single_model": True, "mark": "one", "models": (ModelInfo("m", resident=True),)}
        self.bus.publish(BackendProbed("llama", Probe("llamacpp", **{"up": True, **told, **fields}), 0.01))

    def place(self, prompt: Prompt, pin: int | None = None, **choice: Any) -> Flight:
        """Taken by the seats, not yet sent."""
        flight = Flight(next(self.numbers), prompt, pin)
        target = Target("llama", None)
        chosen = Choice(target, "warm", **{"slot": pin, "pin": pin is not None, **choice})
        self.seats.take(flight.number, Ask((target,), prompt.chain, {}, label="m"), chosen, ("llama", "m"))
        return flight

    def send(self, flight: Flight) -> bool:
        """Whether the server has a slot for it; if so it has begun."""
        if flight.task is None:
            flight.task = self.llama.start(flight.prompt.tokens, flight.pinned)
            if flight.task is not None:
                self.bus.publish(RequestStarted(str(flight.number), "llama", flight.number))
        return flight.task is not None

    def begin(self, prompt: Prompt, pin: int | None = None, **choice: Any) -> Flight:
        flight = self.place(prompt, pin, **choice)
        assert self.send(flight)
        return flight

    def end(self, flight: Flight, answer: str = "well, yes.") -> Usage:
        assert flight.task is not None
        usage = self.llama.finish(flight.task, Prompt((("assistant", answer),)).tokens)
        self.seats.first(flight.number)
        self.bus.publish(RequestLeft(str(flight.number), "llama", flight.number))
        self.seats.leave(flight.number, usage, finished=True)
        return usage

    def give_up(self, flight: Flight) -> None:
        """The client leaves; when the server stops is up to the test."""
        self.bus.publish(RequestLeft(str(flight.number), "llama", flight.number))
        self.seats.leave(flight.number, None, finished=False)

    def ask(self, prompt: Prompt, pin: int | None = None, answer: str = "well, yes.") -> Usage:
        return self.end(self.begin(prompt, pin), answer)

    def look(self) -> None:
        self.seats.saw_slots("llama", self.llama.rows(), self.clock.now())

    def held(self) -> dict[int, Content | None]:
        return {slot.number: slot.held for slot in self.engine.slots}  # type: ignore[misc]


def talk(name: str, size: int = 2000, then: str = "What next?") -> Prompt:
    """The first request of a conversation with a system text of so many characters, like no other."""
    words = " ".join(f"{name}{number}" for number in range(size))[:size]
    return Prompt((("system", words), ("user", then)))
