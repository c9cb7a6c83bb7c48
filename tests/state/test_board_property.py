"""Whatever comes and goes, and in whatever order the server takes it: after a look, a slot holds at least what is believed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.llama import Flight, Front, Llama, Prompt, common, talk
from tests.support.clock import ManualClock

NAMES = ("ada", "bo", "cy", "dot", "eli")
MODES = ((1, False, False), (2, False, False), (2, True, False), (4, True, True), (4, False, False), (3, True, False))

STEPS = ("place", "ask", "turn", "turn", "send", "end", "give up", "look", "look")

steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 4), st.integers(0, 10)), min_size=20, max_size=40)


class World:
    """waiting: placed and not sent; running: at work in the server. Written by the test that plays it."""

    def __init__(self, count: int, cache: bool, unified: bool) -> None:
        self.front = Front(Llama(count, cache, unified), ManualClock())
        self.talks: dict[str, Prompt] = {name: talk(name, 900 + 700 * at) for at, name in enumerate(NAMES)}
        self.waiting: list[Flight] = []
        self.running: list[Flight] = []
        self.prompts: list[Prompt] = []

    def play(self, step: str, one: int, two: int) -> None:
        self.front.clock.advance(0.4)
        getattr(self, step.replace(" ", "_"))(one, two)
        self.front.clock.advance(0.4)

    def place(self, who: int, pin: int) -> None:
        prompt = self.talks[NAMES[who]]
        idle = [slot.number for slot in self.front.engine.slots if slot.idle]
        if not idle:
            return
        pinned = idle[pin % len(idle)] if pin and self.front.engine.pins else None
        self.prompts.append(prompt)
        self.waiting.append(self.front.place(prompt, pinned))

    def ask(self, who: int, pin: int) -> None:
        self.place(who, pin)
        self.send(-1, 0)

    def turn(self, who: int, pin: int) -> None:
        running = len(self.running)
        self.ask(who, pin)
        if len(self.running) > running:
            self.end(-1, 3 + who + pin)

    def send(self, at: int, _: int) -> None:
        if self.waiting and self.front.send(flight := self.waiting[at % len(self.waiting)]):
            self.waiting.remove(flight)
            self.running.append(flight)

    def end(self, at: int, words: int) -> None:
        if self.running:
            flight = self.running.pop(at % len(self.running))
            answer = "so it is " * words
            self.front.end(flight, answer)
            name = next(name for name in NAMES if self.talks[name].messages[0] == flight.prompt.messages[0])
            if self.talks[name] == flight.prompt:
                self.talks[name] = flight.prompt.answered(answer, f"And then {words}?")

    def give_up(self, at: int, tenths: int) -> None:
        if self.running:
            flight = self.running.pop(at % len(self.running))
            self.front.give_up(flight)
            assert flight.task is not None
            self.front.llama.stop(flight.task, tenths / 10)

    def look(self, *_: Any) -> None:
        self.front.look()
        self.check()

    def check(self) -> None:
        for slot in self.front.llama.slots:
            content = self.front.held()[slot.number]
            if slot.busy is not None or content is None or self.front.engine.slots[slot.number].flight is not None:
                continue
            last = content.chain.digests[-1]
            nodes = len(content.chain.digests)
            of = next(prompt for prompt in self.prompts if prompt.chain.digests[nodes - 1 : nodes] == (last,))
            there = common(slot.tokens, of.tokens)
            assert there >= content.chain.size // 4 - nodes, (slot.number, content.tokens, len(slot.tokens))
            assert content.tokens <= len(slot.tokens) + 2

    def finish(self) -> None:
        while self.waiting:
            self.front.clock.advance(1)
            while self.running:
                self.end(0, 3)
            self.send(0, 0)
        while self.running:
            self.end(0, 3)
        self.front.clock.advance(1)
        self.look()


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(MODES), steps)
def test_nothing_is_believed_that_is_not_there(mode: tuple[int, bool, bool], played: list[tuple[str, int, int]]) -> None:
    world = World(*mode)
    for step in played:
        world.play(*step)
    world.finish()
    assert not any(slot.draining or slot.foreign for slot in world.front.engine.slots)
    assert not world.front.seats._engines.servers["llama"].trust.foreign(world.front.clock.now())
    modes = {"emptied" if mode[2] else "kept", "unknown"}
    assert world.front.engine.mode in modes
