from __future__ import annotations

import pytest

from gateway.routing.place import Unmeasured
from gateway.routing.worth import LEAST_PATIENCE, ONCE, USUAL, chance_of_loss, loss, need, reading
from tests.routing.boards import chain, engine, held, snapshot

A = [("a", 2000), ("asks", 100)]


def test_each_use_makes_the_next_one_likelier() -> None:
    chances = [need(held(*A, hits=hits), 0.0) for hits in range(4)]
    assert chances == sorted(chances)
    assert chances[0] == 0.5


def test_the_last_use_says_nothing_until_it_is_long_ago() -> None:
    assert need(held(*A), 1.0) == need(held(*A), ONCE)
    assert need(held(*A, gap=1.0), LEAST_PATIENCE) == 0.5
    assert need(held(*A, gap=100.0), USUAL * 100.0) == 0.5


@pytest.mark.parametrize("gap", [None, 1.0, 100.0])
def test_what_is_idle_for_many_of_its_usual_gaps_is_doubted(gap: float | None) -> None:
    content = held(*A, hits=9, gap=gap)
    chances = [need(content, idle) for idle in (600.0, 2000.0, 6000.0)]
    assert chances[0] >= chances[1] > chances[2] > 0
    assert chances[2] < 0.1


def test_what_a_side_request_left_is_hardly_needed() -> None:
    assert need(held(*A, side=True, hits=9), 0.0) == 0.1


def test_a_loss_is_what_reading_it_again_takes() -> None:
    one = engine("one")
    assert loss(one, held(*A), 0) == pytest.approx(2.1)
    assert loss(one, held(*A), 2000) == pytest.approx(0.1)
    assert loss(one, held(*A, answer=50), 2100) == pytest.approx(0.05)


def test_what_is_saved_comes_back_by_a_restore() -> None:
    one = engine("one")
    found = snapshot(chain(*A), 20, seconds=0.05)
    one.snapshots = {found.node: found}
    assert loss(one, held(*A), 0) == pytest.approx(0.15)
    assert loss(one, held(*A), 2050) == pytest.approx(0.05), "what is kept is more than what is saved"
    assert loss(one, held(("b", 2000)), 0) == 2.0


def test_a_server_with_a_cache_copies_what_it_overwrites_unless_half_of_it_stays() -> None:
    content = held(("a", 1000))
    assert chance_of_loss(engine("one", cache=True), content, 499) < chance_of_loss(engine("one"), content, 499) < 1
    assert chance_of_loss(engine("one", cache=False), content, 0) == 1
    assert chance_of_loss(engine("one", cache=True), content, 500) == 1


def test_before_anything_is_measured_reading_takes_time_as_well() -> None:
    assert reading(engine("one", rate=Unmeasured()), 0, 1000) == 1.0
    assert reading(engine("one"), 1000, 1000) == 0.0
