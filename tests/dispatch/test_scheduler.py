"""The waiting list: who is woken by what, who goes first, what bounds it; with a stand-in for what decides."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends import KINDS
from gateway.clock import SystemClock
from gateway.dispatch import scheduler as module
from gateway.dispatch.evictions import Evictions
from gateway.dispatch.scheduler import Scheduler
from gateway.errors import Busy
from gateway.events import BoardChanged, Bus
from gateway.routing.board import Ask, Board, Choice
from gateway.values import Target
from tests.dispatch import standin
from tests.dispatch.standin import Seats, ask


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time


class Desk:
    """A scheduler and its board. choose: what decides, and may be replaced."""

    def __init__(self, clock: Any = None, **capacities: int | None):
        self.bus, self.clock = Bus(), clock or SystemClock()
        self.seats, self.choose = Seats(self.bus, capacities), standin.choose
        self.looks: list[Ask] = []
        evictions = Evictions(self.seats.board, lambda backend: KINDS["lmstudio"], self.clock)
        self.scheduler = Scheduler(self.seats, evictions, self.bus, self.clock, self._choose, standin.order)
        self._numbers = 0

    def _choose(self, board: Board, ask: Ask, now: float) -> Choice:
        self.looks.append(ask)
        return self.choose(board, ask, now)

    def start(self, asked: Ask, queue: int = 8) -> asyncio.Task[Choice]:
        """Numbers count from 1."""
        self._numbers += 1
        return asyncio.create_task(self.scheduler.place(asked, self._numbers, queue))

    @property
    def taken(self) -> list[int]:
        return [number for number, _ in self.seats.taken]

    @property
    def idle(self) -> bool:
        """Whether nobody waits, nobody is counted, and no timer runs."""
        engines = self.seats.board.engines.values()
        return not self.scheduler._waiting and self.scheduler._timer is None and not any(one.waiting for one in engines)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_free_place_is_taken_at_once() -> None:
    desk = Desk(a=1)
    choice = await desk.start(ask("a"))
    assert (choice.target, choice.hold, desk.seats.taken) == (Target("a", None), False, [(1, "a")])
    assert desk.idle


async def test_first_come_first_served_and_the_main_conversation_before_a_side_request() -> None:
    desk = Desk(a=1)
    asked = [desk.start(ask("a")), desk.start(ask("a", side=True)), desk.start(ask("a")), desk.start(ask("a"))]
    await settle()
    assert (desk.taken, desk.scheduler.waiting("a"), desk.seats.engine("a", "").waiting) == ([1], 3, 3)
    for number in (1, 3, 4, 2):
        desk.seats.leave(number)
        await settle()
    assert desk.taken == [1, 3, 4, 2]
    await asyncio.gather(*asked)
    assert desk.idle


async def test_who_waits_goes_before_who_comes() -> None:
    """Even where a place becomes free and somebody comes in the same turn of the loop."""
    desk = Desk(a=1)
    first, second = desk.start(ask("a")), desk.start(ask("a"))
    await settle()
    third = desk.start(ask("a"))
    desk.seats.leave(1)
    await settle()
    assert desk.taken == [1, 2]
    desk.seats.leave(2)
    await asyncio.gather(first, second, third)


async def test_only_those_are_woken_who_could_go_there() -> None:
    desk = Desk(a=0, b=0)
    waiting = [desk.start(ask("a")), desk.start(ask("b")), desk.start(ask("a", "b"))]
    await settle()
    desk.looks.clear()
    desk.seats.resize("b", 2)
    await settle()
    assert desk.taken == [2, 3]
    assert all("b" in {target.backend for target in asked.targets} for asked in desk.looks)
    desk.seats.resize("c", 1)
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert desk.idle


async def test_capacity_is_for_each_model_on_each_backend() -> None:
    desk = Desk(a=1, b=1)
    asked = [desk.start(ask("a", model="m")), desk.start(ask("a", model="n")), desk.start(ask("b", model="m"))]
    await asyncio.gather(*asked)
    assert desk.taken == [1, 2, 3]


async def test_more_capacity_wakes_those_who_wait() -> None:
    desk = Desk(a=1)
    asked = [desk.start(ask("a")) for _ in range(4)]
    await settle()
    desk.seats.resize("a", 3)
    await settle()
    assert desk.taken == [1, 2, 3]
    desk.seats.resize("a", None)
    await asyncio.gather(*asked)


async def test_a_bound_on_those_who_wait_and_when_to_come_again() -> None:
    clock = Clock()
    clock.time = 1.0
    desk = Desk(clock, a=1, b=1)
    first = [desk.start(ask("a")), desk.start(ask("b"))]
    await asyncio.gather(*first)
    waiting = desk.start(ask("a"), queue=1)
    await settle()
    with pytest.raises(Busy, match=r"1 requests already wait for a; .* routing\.queue") as refused:
        await desk.start(ask("a"), queue=1)
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (429, "queue_full", 7), "free at 7.5 s"
    elsewhere = desk.start(ask("a", "b"), queue=1)  # another backend has its own bound
    await settle()
    assert desk.scheduler.waiting("b") == 1
    with pytest.raises(Busy, match="wait for"):
        await desk.start(ask("a", "b"), queue=1)
    for number in (1, 2):
        desk.seats.leave(number)
    await asyncio.gather(waiting, elsewhere)
    assert desk.idle


async def test_who_may_not_wait_for_something_better_takes_what_there_is() -> None:
    def picky(board: Board, ask: Ask, now: float) -> Choice:
        return Choice(ask.targets[0], "wait_warm" if ask.hold else "order", hold=ask.hold > 0)

    desk = Desk(a=4)
    desk.choose = picky
    assert (await desk.start(ask("a"), queue=0)).decision == "order"


async def test_who_leaves_gives_up_no_place() -> None:
    desk = Desk(a=1)
    first, second, third = (desk.start(ask("a")) for _ in range(3))
    await settle()
    second.cancel()
    await settle()
    assert desk.scheduler.waiting("a") == 1, "gone at once"
    desk.seats.leave(1)
    await asyncio.gather(first, third)
    assert desk.taken == [1, 3]
    assert desk.idle


async def test_who_leaves_just_as_the_place_is_given_gives_it_back() -> None:
    desk = Desk(a=1)
    first, second, third = (desk.start(ask("a")) for _ in range(3))
    await settle()
    desk.seats.leave(1)
    desk.scheduler._look()
    assert desk.taken == [1, 2]
    second.cancel()
    results = await asyncio.gather(first, second, third, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert desk.taken == [1, 2, 3]
    assert desk.idle


async def test_a_choice_says_when_to_look_again() -> None:
    clock = Clock()
    desk = Desk(clock, a=1)

    def until_later(board: Board, ask: Ask, now: float) -> Choice:
        return Choice(ask.targets[0], "wait_warm", hold=now < 100.05, until=100.05)

    desk.choose = until_later
    asked = desk.start(ask("a"))
    await settle()
    clock.time = 100.06
    async with asyncio.timeout(2):
        await asked
    assert desk.looks[-1].held == pytest.approx(0.06)
    assert desk.idle


async def test_a_choice_that_looks_into_the_past_does_not_spin() -> None:
    desk = Desk(a=1)
    desk.choose = lambda board, ask, now: Choice(ask.targets[0], "wait_warm", hold=True, until=now - 1)
    asked = desk.start(ask("a"))
    await asyncio.sleep(0.1)
    assert len(desk.looks) <= 0.1 / module.LEAST_PAUSE + 2
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert desk.idle


async def test_patience_ends_though_nothing_changes() -> None:
    desk = Desk(a=4)
    desk.choose = lambda board, ask, now: Choice(ask.targets[0], "wait_warm", hold=ask.held < ask.hold)
    began = asyncio.get_running_loop().time()
    await desk.start(ask("a", hold=0.1))
    assert 0.1 <= asyncio.get_running_loop().time() - began < 1


async def test_what_was_learned_meanwhile_counts() -> None:
    desk, known = Desk(a=1), {"a": 3}
    await desk.start(ask("a"))
    waiting = asyncio.create_task(desk.scheduler.place(ask("a"), 2, 8, lambda: known))
    await settle()
    known = {"a": 9}
    desk.seats.leave(1)
    await waiting
    assert desk.looks[-1].warm == {"a": 9}


def one_model_at_a_time(board: Board, ask: Ask, now: float) -> Choice:
    """As `choose` does where models push each other out."""
    (target,) = ask.targets
    engine = board.engines[target.backend, target.model or ""]
    if engine.exclusive and not engine.resident:
        return Choice(target, "wait_model", hold=True)
    return Choice(target, "only")


async def test_models_that_push_each_other_out_take_turns() -> None:
    """A model waits until the other's answers end, and not for ever if more and more of those begin."""
    clock = Clock()
    desk = Desk(clock)
    desk.choose = one_model_at_a_time
    for model in "mn":
        desk.seats.engine("a", model).resident = False
    first, other = desk.start(ask("a", model="m", hold=20.0)), desk.start(ask("a", model="n", hold=20.0))
    await first
    clock.time += 19
    more = desk.start(ask("a", model="m", hold=20.0))
    await more
    assert desk.taken == [1, 3], "a model that is loaded goes on meanwhile"
    clock.time += 2
    late = desk.start(ask("a", model="m", hold=20.0))
    await settle()
    assert desk.taken == [1, 3], "for twenty seconds"
    for number in (1, 3):
        assert desk.taken == [1, 3]
        desk.seats.leave(number)
        await settle()
    assert desk.taken == [1, 3, 2]
    clock.time += 30
    desk.seats.leave(2)
    await asyncio.gather(other, late)
    assert desk.idle


async def test_a_choice_that_fails_costs_nobody_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    def broken(board: Board, ask: Ask, now: float) -> Choice:
        raise ZeroDivisionError

    desk = Desk(a=1, b=1)
    desk.choose = broken
    desk.seats.engine("a", "").up = False
    with caplog.at_level(logging.ERROR):
        choices = [await desk.start(ask("a", "b")) for _ in range(2)]
    assert [choice.target.backend for choice in choices] == ["b", "b"]
    assert len([record for record in caplog.records if "choice of a backend" in record.message]) == 1


STEPS = st.lists(
    st.tuples(st.sampled_from(["come", "come", "side", "finish", "leave", "narrow", "widen"]), st.integers(0, 30)), max_size=50
)


@given(STEPS, st.integers(1, 3), st.integers(1, 2))
def test_no_place_is_lost_or_given_twice_and_everybody_is_served(steps: list[tuple[str, int]], one: int, other: int) -> None:
    asyncio.run(play(steps, one, other))


async def play(steps: list[tuple[str, int]], one: int, other: int) -> None:
    desk, tasks = Desk(a=one, b=other), dict[int, asyncio.Task[Choice]]()
    choices = [("a",), ("b",), ("a", "b")]
    for step, pick in steps:
        running = [number for number in desk.taken if number in tasks]
        if step in ("come", "side"):
            task = desk.start(ask(*choices[pick % 3], side=step == "side"), queue=99)
            tasks[desk._numbers] = task
        elif step == "finish" and running:
            finish(desk, tasks, running[pick % len(running)])
        elif step == "leave" and (waiting := [number for number in tasks if number not in running]):
            tasks.pop(waiting[pick % len(waiting)]).cancel()
        elif step in ("narrow", "widen"):
            desk.seats.resize("a", one if step == "narrow" else one + 1)
        await settle()
        free = {name: not desk.seats.engine(name, "").full for name in "ab"}
        for waiter in desk.scheduler._waiting.values():
            assert not any(free[target.backend] for target in waiter.ask.targets), "one waits beside a free place"
    for _ in range(len(steps) + 1):  # each turn ends one request at least, so that all come to their end
        for number in [number for number in desk.taken if number in tasks]:
            finish(desk, tasks, number)
        await settle()
    assert not tasks
    assert len(desk.taken) == len(set(desk.taken))
    assert desk.idle


def finish(desk: Desk, tasks: dict[int, asyncio.Task[Choice]], number: int) -> None:
    assert tasks.pop(number).done()
    desk.seats.leave(number)


async def test_a_change_without_anybody_who_waits_costs_nothing() -> None:
    desk = Desk(a=1)
    desk.bus.publish(BoardChanged("a"))
    assert desk.scheduler._changed == set()
