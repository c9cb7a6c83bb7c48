from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.state.breaker import FIRST_PAUSE, LONGEST_PAUSE, THRESHOLD, Breaker


def test_it_opens_at_the_third_failure_in_a_row_and_pauses_longer_each_time() -> None:
    breaker, now = Breaker(), 100.0
    breaker.failed(now)
    breaker.succeeded()
    for _ in range(THRESHOLD - 1):
        breaker.failed(now)
        assert not breaker.is_open(now)
    pauses = []
    for _ in range(8):
        breaker.failed(now)
        assert breaker.is_open(now)
        pauses.append(breaker.open_until - now)
        now = breaker.open_until
        assert not breaker.is_open(now)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE


def test_failures_while_it_is_open_do_not_prolong_it() -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker.failed(0.0)
    assert breaker.open_until == FIRST_PAUSE


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 200)), max_size=40))
def test_one_answer_forgets_everything(steps: list[tuple[bool, float]]) -> None:
    breaker, now = Breaker(), 0.0
    for good, seconds in steps:
        now += seconds
        breaker.succeeded() if good else breaker.failed(now)
        assert breaker.open_until <= now + LONGEST_PAUSE
    breaker.succeeded()
    assert breaker == Breaker()
