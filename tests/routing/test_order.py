from __future__ import annotations

from dataclasses import dataclass

from gateway.routing.board import Ask, Board
from gateway.routing.order import AGEING, SIDE, order, work
from tests.routing.boards import Rate, ask, board, engine, held

A = [("a", 3000), ("asks", 100)]
SHORT = [("short", 200)]
NOW = 100.0


@dataclass(frozen=True)
class Waiting:
    name: str
    ask: Ask
    since: float = NOW


def names(where: Board, *waiting: Waiting) -> str:
    return " ".join(one.name for one in order(where, waiting, NOW))


def test_the_least_uncached_work_goes_first() -> None:
    where = board(engine("one", held(*A)), engine("two"))
    long, warm, short = (Waiting("long", ask(("b", 2000))), Waiting("warm", ask(*A)), Waiting("short", ask(*SHORT)))
    assert names(where, long, short, warm) == "warm short long"


def test_what_a_backend_is_believed_to_hold_counts() -> None:
    where = board(engine("one"), engine("two"))
    assert work(where, ask(*A, to="one two")) == 3.1
    assert work(where, ask(*A, to="one two", warm={"two": 30})) == 0.1
    assert work(where, ask(*A, to="one", warm={"two": 30})) == 3.1


def test_a_request_for_an_answer_goes_before_a_side_request() -> None:
    side, main = Waiting("side", ask(*SHORT, side=True)), Waiting("main", ask(("b", 3000)))
    assert names(board(engine("one")), side, main) == "main side"


def test_nobody_waits_for_ever() -> None:
    where = board(engine("one"))
    needed = (3.1 - 0.2) / AGEING
    old = Waiting("old", ask(*A), NOW - needed - 1)
    assert names(where, Waiting("short", ask(*SHORT)), old) == "old short"
    side = Waiting("side", ask(*SHORT, side=True), NOW - SIDE / AGEING - 1)
    assert names(where, Waiting("short", ask(*SHORT)), side) == "side short"


def test_those_who_need_as_much_go_as_they_came() -> None:
    waiting = [Waiting(name, ask(*SHORT)) for name in "abc"]
    assert names(board(engine("one")), *waiting) == "a b c"


def test_a_call_without_a_prompt_and_a_backend_that_was_not_met() -> None:
    assert work(Board(), ask(*A)) > 0
    assert work(board(engine("one", rate=Rate())), ask()) == 0
