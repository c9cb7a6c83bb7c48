"""Situations, and where a request goes in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.routing.board import Ask, Board, Choice, Engine, Running
from gateway.routing.decisions import DECISIONS
from gateway.routing.place import choose
from gateway.routing.words import HOLDS
from tests.routing.boards import Rate, ask, board, chain, engine, held, run, slot, snapshot

A, B, C = [("a", 2000), ("a asks", 100)], [("b", 2000), ("b asks", 100)], [("c", 2000), ("c asks", 100)]
A2 = [*A, ("a hears", 50), ("a asks again", 50)]
SIDE = [("title", 200), ("a said", 400)]
NOW = 100.0


def placed(where: Board | Engine, what: Ask, now: float = NOW) -> Choice:
    choice = choose(where if isinstance(where, Board) else board(where), what, now)
    assert choice.decision in DECISIONS
    assert choice.reasons
    assert not (choice.hold and (choice.pin or choice.save or choice.restore or choice.lead))
    assert (choice.until is not None) == choice.hold
    return choice


def where(choice: Choice) -> tuple[str, int | None, str]:
    return choice.target.backend, choice.slot, choice.decision


# slots that keep what they hold


def test_a_conversation_goes_back_to_its_slot() -> None:
    choice = placed(engine("one", held(*B), held(*A, answer=60)), ask(*A2))
    assert (where(choice), choice.pin) == (("one", 1, "warm"), True)
    assert choice.reused == 2150, "the answer that was generated behind the prompt is held as well"
    assert choice.costs == {"prefill": 50.0}, "going on in its own slot overwrites nothing"


def test_an_empty_slot_before_one_that_holds_something() -> None:
    choice = placed(engine("one", held(*A), None), ask(*B))
    assert (where(choice), choice.pin) == (("one", 1, "least_worth"), True)


def test_another_conversation_with_the_same_head_takes_an_empty_slot_if_more_is_lost_than_read() -> None:
    head = ("shared", 1000)
    first = [head, ("long talk", 4000)]
    assert placed(engine("one", held(*first, hits=9, gap=5.0, used=NOW), None), ask(head, ("other", 100))).slot == 1
    short = [head, ("short talk", 100)]
    assert where(placed(engine("one", held(*short), None), ask(head, ("other", 100)))) == ("one", 0, "warm")


def test_the_prefix_of_least_worth_is_overwritten() -> None:
    small, big = held(("s", 500), used=NOW), held(("b", 5000), used=NOW - 50)
    choice = placed(engine("one", big, small), ask(*C))
    assert where(choice) == ("one", 1, "least_worth")
    assert choice.replaced is small
    assert any("a prefix of 500 tokens is overwritten" in reason for reason in choice.reasons)


def test_what_was_used_often_stays_before_what_was_used_once() -> None:
    often, once = held(*A, used=NOW - 30, hits=5, gap=20.0), held(*B, used=NOW - 1)
    assert placed(engine("one", often, once), ask(*C)).slot == 1


def test_what_was_used_often_and_is_long_idle_gives_way() -> None:
    often, once = held(*A, used=NOW - 1000, hits=5, gap=10.0), held(*B, used=NOW - 1)
    assert placed(engine("one", often, once), ask(*C)).slot == 0


@pytest.mark.parametrize("size", [2000, 1900, 2100])
def test_of_prefixes_that_are_worth_the_same_the_last_used_one_is_overwritten(size: int) -> None:
    older, newer = held(*A, used=NOW - 60), held(("b", size), ("b asks", 100), used=NOW - 20)
    assert placed(engine("one", older, newer), ask(*C)).slot == 1


def test_what_a_side_request_left_behind_is_overwritten_first() -> None:
    left = held(("side", 9000), used=NOW - 1, side=True)
    assert placed(engine("one", held(*A, used=NOW - 90), left), ask(*B)).slot == 1


def test_a_busy_warm_slot_is_waited_for_as_long_as_that_costs_less() -> None:
    one = engine("one", held(*A), held(*B, hits=3, used=NOW))
    run(one, 1, chain(*A), warm_at=NOW - 1, free_at=NOW + 2, slot=0)
    choice = placed(one, ask(*A2))
    assert (where(choice), choice.hold, choice.until) == (("one", 0, "wait_warm"), True, NOW + 2)
    run(one, 1, chain(*A), warm_at=NOW - 1, free_at=NOW + 9, slot=0)
    assert (where(placed(one, ask(*A2))), placed(one, ask(*A2)).hold) == (("one", 1, "spread"), False)


def test_an_answer_that_is_overdue_is_believed_to_take_as_long_again() -> None:
    one = engine("one", None, None)
    run(one, 1, chain(*A), warm_at=NOW - 9, free_at=NOW - 1, slot=0)
    assert placed(one, ask(*A2)).decision == "wait_warm"
    run(one, 1, chain(*A), warm_at=NOW - 9, free_at=NOW - 8, slot=0)
    assert placed(one, ask(*A2)).slot == 1


def test_nothing_better_is_waited_for_when_it_has_waited_long_enough() -> None:
    one = engine("one", None, None)
    run(one, 1, chain(*A), warm_at=NOW - 1, free_at=NOW + 1, slot=0)
    assert placed(one, ask(*A2, held=29.9)).hold
    assert placed(one, ask(*A2, held=29.9)).until == pytest.approx(NOW + 0.1)
    assert not placed(one, ask(*A2, held=30.0)).hold
    assert not placed(one, ask(*A2, hold=0.0)).hold


def test_when_all_slots_are_busy_it_waits_however_long_that_takes() -> None:
    one = engine("one", None)
    run(one, 1, chain(*A), warm_at=NOW, free_at=NOW + 3, slot=0)
    choice = placed(one, ask(*B, held=500.0))
    assert (choice.hold, choice.decision, choice.until) == (True, "full", NOW + 3)


@pytest.mark.parametrize("state", [{"draining": True}, {"foreign": True}, {"flight": 7}])
def test_a_slot_in_use_is_never_pinned(state: dict[str, Any]) -> None:
    one = engine("one", held(*A), held(*B))
    one.slots[0] = slot(0, held(*A), free_at=NOW + 99, **state)
    assert where(placed(one, ask(*A2)))[1] == 1


def test_an_empty_slot_is_not_pinned_where_the_servers_cache_may_hold_the_prompt() -> None:
    of = chain(*A)
    for cache, warm, pin in (
        (True, len(of.digests), False),
        (None, len(of.digests), False),
        (True, 0, True),
        (False, 21, True),
    ):
        one = engine("one", None, None, cache=cache)
        choice = placed(one, ask(*A, warm={"one": warm}))
        assert (choice.slot, choice.pin) == (0 if pin else 1, pin), (cache, warm)


def test_the_servers_cache_is_found_in_a_slot_that_holds_something_else() -> None:
    choice = placed(engine("one", held(*B), cache=True), ask(*A, warm={"one": 21}))
    assert (choice.pin, choice.reused, choice.costs["prefill"]) == (True, 2100, 1.0)
    assert choice.costs["overwrite"] < 150, "the server copies what it overwrites to its cache"


def test_what_is_held_in_a_busy_slot_is_not_in_the_cache() -> None:
    one = engine("one", None, None, cache=True)
    run(one, 1, chain(*A), warm_at=NOW + 1, free_at=NOW + 60, slot=0)
    assert placed(one, ask(*A, warm={"one": 21})).reused == 0


# without a pin the server chooses


@pytest.mark.parametrize("more", [{"pins": False}, {}])
def test_without_a_pin_the_servers_own_choice_is_foreseen(more: dict[str, Any]) -> None:
    one = engine("one", held(*A, used=NOW - 50), held(*B, used=NOW - 90), **more)
    unpinned = {"pinnable": bool(more)}
    choice = placed(one, ask(*A2, **unpinned))
    assert (choice.slot, choice.pin, choice.reused) == (0, False, 2100)
    choice = placed(one, ask(*C, **unpinned))
    assert (choice.slot, choice.pin, choice.reused) == (1, False, 0), "the one that was idle for longest"


def test_of_slots_that_were_never_used_the_server_takes_the_last() -> None:
    assert placed(engine("one", None, None, pins=False), ask(*A)).slot == 1


def test_the_server_takes_no_slot_that_shares_a_tenth_of_the_prompt_or_less() -> None:
    head = ("shared", 300)
    one = engine("one", held(head, ("x", 100), used=NOW), held(*B, used=NOW - 90), pins=False)
    assert placed(one, ask(head, ("y", 2000))).slot == 0
    assert placed(one, ask(head, ("y", 3000))).slot == 1


def test_a_backend_where_it_would_overwrite_much_is_avoided() -> None:
    one = engine("one", held(("big", 9000), hits=9, gap=5.0, used=NOW), pins=False)
    two = engine("two", held(*B, used=NOW - 9), pins=False)
    assert where(placed(board(one, two), ask(*A, to="one two"))) == ("two", 0, "least_worth")


# idle slots that are emptied, and servers whose slots are not told apart


def test_slots_that_are_emptied_are_not_pinned_and_their_cache_tells_what_is_reused() -> None:
    choice = placed(engine("one", None, None, mode="emptied", pins=False, cache=True), ask(*A2, warm={"one": 21}))
    assert (choice.pin, choice.reused, choice.decision) == (False, 2100, "only")


def test_what_one_request_uses_another_does_not_find() -> None:
    one = engine("one", capacity=2)
    run(one, 1, chain(*A), warm_at=NOW - 5, free_at=NOW + 1)
    choice = placed(one, ask(*A2, warm={"one": 21}))
    assert (choice.hold, choice.decision, choice.reused) == (True, "wait_warm", 2100)
    run(one, 1, chain(*A), warm_at=NOW - 5, free_at=NOW + 9)
    choice = placed(one, ask(*A2, warm={"one": 21}))
    assert (choice.hold, choice.reused) == (False, 0)


def test_pages_can_be_shared_while_they_are_in_use() -> None:
    one = engine("one", shares=True)
    run(one, 1, chain(*A), warm_at=NOW - 5, free_at=NOW + 9)
    choice = placed(one, ask(*A2))
    assert (choice.hold, choice.reused) == (False, 2100)


def test_a_prefix_that_is_just_computed_is_waited_for_until_it_can_be_reused() -> None:
    one = engine("one", shares=True, settle=0.5)
    run(one, 1, chain(*A), warm_at=NOW + 1, free_at=NOW + 9)
    choice = placed(one, ask(*A2))
    assert (choice.hold, choice.decision, choice.until) == (True, "wait_prefix", NOW + 1.5)


def test_a_prefix_that_was_finished_just_now_is_waited_for_until_it_is_published() -> None:
    of = chain(*A)
    one = engine("one", shares=True, settle=0.5)
    one.settling = [Running(of, False, True, 2200, NOW - 3, NOW - 0.1)]
    choice = placed(one, ask(*A2, warm={"one": len(of.digests)}))
    assert (choice.hold, choice.decision, choice.until) == (True, "wait_prefix", pytest.approx(NOW + 0.4))
    assert not placed(one, ask(*A2, warm={"one": len(of.digests)}), NOW + 0.5).hold


def test_ollama_with_one_place_keeps_what_it_was_last_given() -> None:
    one = engine("one", capacity=1, cache=False, recent=[held(*A, hits=3, used=NOW)])
    two = engine("two", capacity=1, cache=False)
    assert where(placed(board(one, two), ask(*B, to="one two"))) == ("two", None, "least_worth")
    assert placed(board(one, two), ask(*A2, to="one two", warm={"one": 21})).target.backend == "one"


# stampedes


def test_requests_with_one_beginning_run_one_after_another_where_waiting_is_cheaper() -> None:
    one = engine("one", None, None, None, None)
    run(one, 1, chain(*A), warm_at=NOW + 2.1, free_at=NOW + 3, slot=0)
    choice = placed(one, ask(A[0], ("another question", 100)))
    assert (choice.hold, choice.slot) == (True, 0)
    run(one, 1, chain(*A), warm_at=NOW + 2.1, free_at=NOW + 30, slot=0)
    assert not placed(one, ask(A[0], ("another question", 100))).hold


def test_a_hot_prefix_spreads_to_another_backend_when_waiting_costs_more_than_reading() -> None:
    one, two = engine("one", None), engine("two", None)
    run(one, 1, chain(*A), warm_at=NOW, free_at=NOW + 9, slot=0)
    assert where(placed(board(one, two), ask(*A2, to="one two"))) == ("two", 0, "spread")
    run(one, 1, chain(*A), warm_at=NOW, free_at=NOW + 1, slot=0)
    assert where(placed(board(one, two), ask(*A2, to="one two"))) == ("one", 0, "wait_warm")


# side requests


def test_a_side_request_takes_a_scratch_slot() -> None:
    one = engine("one", held(*A, used=NOW), held(("scratch", 100), used=NOW - 5))
    choice = placed(one, ask(*SIDE, side=True))
    assert where(choice) == ("one", 1, "side")


def test_a_side_request_comes_with_the_newest_conversation_and_leaves_it_its_slot() -> None:
    """Even where another one is worth more: a dead agent's prefix would make each title read its own agent's again."""
    dead, alive = held(("dead", 9000), used=NOW - 20, hits=9, gap=5.0), held(("alive", 1500), used=NOW - 5)
    assert placed(engine("one", dead, alive), ask(*SIDE, side=True)).slot == 0
    assert placed(engine("one", alive, dead), ask(*SIDE, side=True)).slot == 1


def test_a_side_request_takes_another_backend_before_the_slot_of_a_conversation() -> None:
    one, two = engine("one", held(*A, used=NOW)), engine("two", None)
    assert placed(board(one, two), ask(*SIDE, to="one two", side=True)).target.backend == "two"


def test_a_side_request_counts_a_conversation_as_needed_for_sure() -> None:
    first = held(*A, used=NOW)
    main, side = (placed(engine("one", first), ask(*SIDE, side=is_side)) for is_side in (False, True))
    assert side.costs["overwrite"] == 2 * main.costs["overwrite"]


def test_a_side_request_waits_while_the_next_turn_is_due_but_no_longer_than_it_saves() -> None:
    one = engine("one", held(*A, used=NOW - 0.2, hits=3, gap=0.5))
    choice = placed(one, ask(*SIDE, side=True))
    assert (choice.hold, choice.decision, choice.until) == (True, "wait_side", pytest.approx(NOW + 0.8))
    assert not placed(one, ask(*SIDE, side=True, held=2.2)).hold, "reading it again takes 2.1 s"
    assert not placed(one, ask(*SIDE, side=True), NOW + 2).hold, "the conversation has paused"


def test_a_side_request_waits_for_no_conversation_that_comes_back_later_than_it_is_worth() -> None:
    assert not placed(engine("one", held(*A, used=NOW, hits=3, gap=20.0)), ask(*SIDE, side=True)).hold


# snapshots


def with_snapshots(one: Engine, *found: Any, saves: bool = True) -> Engine:
    one.snapshots, one.saves = {each.node: each for each in found}, saves
    return one


def test_a_snapshot_is_restored_where_that_takes_less_than_reading() -> None:
    of = chain(*A)
    one = with_snapshots(engine("one", held(*B), held(("s", 300))), snapshot(of, 21), saves=False)
    choice = placed(one, ask(*A2))
    assert (where(choice), choice.pin, choice.reused) == (("one", 1, "snapshot"), True, 2100)
    assert choice.restore is one.snapshots[of.digests[20]]
    assert choice.costs["disk"] == 50.0


def test_a_snapshot_that_holds_no_more_than_a_slot_is_not_restored() -> None:
    one = with_snapshots(engine("one", held(*A), None), snapshot(chain(*A), 20))
    assert placed(one, ask(*A2)).restore is None


def test_a_slow_snapshot_is_not_restored() -> None:
    one = with_snapshots(engine("one", None, saves=False), snapshot(chain(*A), 21, seconds=3.0), saves=False)
    assert placed(one, ask(*A2)).restore is None


def test_a_snapshot_is_not_restored_into_a_slot_that_is_worth_more_than_it_saves() -> None:
    dear = held(("dear", 9000), used=NOW, hits=9, gap=5.0)
    one = with_snapshots(engine("one", dear, None), snapshot(chain(*A), 21), saves=False)
    assert placed(one, ask(*A2)).slot == 1
    one.slots[1].foreign = True
    two = engine("two", None)
    assert where(placed(board(one, two), ask(*A2, to="one two")))[0] == "two"


@pytest.mark.parametrize("mode", ["emptied", "unknown"])
def test_where_slots_are_all_alike_it_is_restored_and_sent_without_a_pin(mode: str) -> None:
    one = with_snapshots(engine("one", None, None, mode=mode, pins=False, cache=False), snapshot(chain(*A), 21))
    choice = placed(one, ask(*A2))
    assert (choice.decision, choice.pin, choice.slot, choice.reused) == ("snapshot", False, 0, 2100)


def test_a_conversation_is_saved_before_its_slot_is_taken() -> None:
    choice = placed(with_snapshots(engine("one", held(*A, hits=3, used=NOW))), ask(*B))
    assert (choice.save, choice.slot) == (True, 0)
    assert "it is saved before" in choice.reasons


def test_what_is_saved_already_is_not_saved_again_and_is_worth_little() -> None:
    of = chain(*A)
    one = with_snapshots(engine("one", held(*A, hits=3, used=NOW)), snapshot(of, len(of.digests)))
    choice = placed(one, ask(*B))
    assert not choice.save
    assert choice.costs["overwrite"] < 50


def test_nothing_is_saved_while_somebody_streams() -> None:
    one = with_snapshots(engine("one", held(*A, hits=3, used=NOW), None))
    run(one, 1, chain(*C), warm_at=NOW - 1, free_at=NOW + 1, slot=1)
    assert not placed(one, ask(*B, hold=0.0)).save


def test_a_restore_while_others_stream_costs_their_time() -> None:
    costs = []
    for others in (False, True):
        one = with_snapshots(engine("one", None, None), snapshot(chain(*A), 21, seconds=0.3), saves=False)
        if others:
            run(one, 1, None, warm_at=NOW - 1, free_at=NOW + 1, slot=1)
        costs.append(placed(one, ask(*A2)).costs.get("stall", 0.0))
    assert costs[1] - costs[0] >= 300


def test_a_head_that_is_held_nowhere_is_led() -> None:
    choice = placed(with_snapshots(engine("one", None)), ask(*A))
    assert (choice.decision, choice.lead) == ("lead", 20)
    assert any("2000 tokens" in reason for reason in choice.reasons)


@pytest.mark.parametrize("mode", ["emptied", "unknown"])
def test_where_slots_are_all_alike_the_head_is_led_in_an_empty_one(mode: str) -> None:
    choice = placed(with_snapshots(engine("one", held(*B), None, mode=mode, pins=False)), ask(*A))
    assert (choice.decision, choice.lead, choice.slot, choice.pin) == ("lead", 20, 1, False)


def test_which_slot_it_gets_is_not_claimed_where_that_is_not_known() -> None:
    assert placed(engine("one", None, None, mode="unknown", pins=False), ask(*A)).slot is None


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (engine("one", held(*A)), ask(*A2)),
        (engine("one", None), ask(*A, side=True)),
        (engine("one", None), ask(("short", 900), ("asks", 900))),
        (engine("one", capacity=1), ask(*A)),
    ],
    ids=["held in a slot", "a side request", "a short head", "no slots"],
)
def test_nothing_is_led(one: Engine, what: Ask) -> None:
    assert placed(with_snapshots(one), what).lead == 0


def test_nothing_is_led_without_the_means_to_save_or_when_it_is_saved() -> None:
    assert placed(engine("one", None), ask(*A)).lead == 0
    assert placed(with_snapshots(engine("one", None), snapshot(chain(*A), 20)), ask(*A)).lead == 0


def test_who_begins_alike_waits_for_the_leader_and_restores() -> None:
    one = with_snapshots(engine("one", None, None))
    run(one, 1, chain(*A), warm_at=NOW + 2, free_at=NOW + 40, slot=0, lead=20)
    other = ask(A[0], ("another question", 100))
    choice = placed(one, other)
    assert (choice.hold, choice.decision, choice.until, choice.lead) == (True, "wait_prefix", NOW + 2, 0)
    one.snapshots = {chain(*A).digests[19]: snapshot(chain(*A), 20)}
    assert where(placed(one, other, NOW + 2)) == ("one", 1, "snapshot")


def test_a_leader_whose_snapshot_does_not_come_is_not_waited_for() -> None:
    one = with_snapshots(engine("one", None, None))
    run(one, 1, chain(*A), warm_at=NOW - 3, free_at=NOW + 40, slot=0, lead=20)
    assert not placed(one, ask(A[0], ("another question", 100))).hold


# several backends


def test_the_warm_backend_then_the_resident_one_then_the_idle_one_then_the_first() -> None:
    def fleet(first: dict[str, Any], second: dict[str, Any]) -> Board:
        return board(engine("one", capacity=4, **first), engine("two", capacity=4, **second))

    both = ask(*A, to="one two")
    assert where(placed(fleet({}, {}), both)) == ("one", None, "order")
    assert where(placed(fleet({}, {}), replace(both, warm={"two": 21}))) == ("two", None, "warm")
    assert where(placed(fleet({"resident": False}, {}), both)) == ("two", None, "resident")
    assert where(placed(fleet({"resident": False, "load": 9.0}, {"resident": False, "load": 3.0}), both))[0] == "two"
    busy = fleet({}, {})
    run(next(iter(busy.engines.values())), 1, chain(*B), warm_at=NOW - 1, free_at=NOW + 3)
    assert where(placed(busy, both)) == ("two", None, "least_busy")


def test_a_model_is_loaded_rather_than_waiting_long_and_not_for_a_little() -> None:
    one, two = engine("one", capacity=1), engine("two", capacity=1, resident=False, load=5.0)
    both = board(one, two)
    run(one, 1, chain(*B), warm_at=NOW - 1, free_at=NOW + 2)
    assert placed(both, ask(*A, to="one two")).hold
    run(one, 1, chain(*B), warm_at=NOW - 1, free_at=NOW + 9)
    choice = placed(both, ask(*A, to="one two"))
    assert (choice.target.backend, choice.hold) == ("two", False)
    assert any("loaded" in reason for reason in choice.reasons)


def test_a_session_breaks_a_tie_and_nothing_more() -> None:
    fleet = board(engine("one", capacity=4), engine("two", capacity=4), sessions={"s": "two"})
    assert where(placed(fleet, ask(*A, to="one two", session="s"))) == ("two", None, "session")
    assert placed(fleet, ask(*A, to="one two", session="s", warm={"one": 21})).target.backend == "one"


def test_a_faster_backend_is_preferred() -> None:
    assert placed(board(engine("one", rate=Rate(2e-3)), engine("two")), ask(*A, to="one two")).target.backend == "two"


@pytest.mark.parametrize("sick", [{"up": False}, {"circuit_open": True}])
def test_a_sick_backend_is_left_out_while_another_one_can_serve(sick: dict[str, Any]) -> None:
    one, two = engine("one", **sick), engine("two", capacity=1, resident=False)
    assert placed(board(one, two), ask(*A, to="one two", warm={"one": 21})).target.backend == "two"
    run(two, 1, chain(*B), warm_at=NOW, free_at=NOW + 60)
    choice = placed(board(one, two), ask(*A, to="one two"))
    assert (choice.target.backend, choice.hold) == ("two", True)


def test_the_first_is_tried_when_all_are_sick() -> None:
    choice = placed(board(engine("one", up=False), engine("two", circuit_open=True)), ask(*A, to="one two"))
    assert (where(choice), choice.hold) == (("one", None, "unhealthy"), False)


# limits


def test_requests_share_a_context_and_wait_for_room_in_it() -> None:
    one = engine("one", None, None, context=4096)
    run(one, 1, chain(*B), warm_at=NOW - 1, free_at=NOW + 2, slot=0)
    one.running[1].tokens = 2000
    assert not placed(one, ask(("x", 1000), limit=1000)).hold
    choice = placed(one, ask(("x", 1000), limit=1200, held=500.0))
    assert (choice.hold, choice.decision, choice.until) == (True, "wait_context", NOW + 2)
    one.running.clear()
    assert not placed(one, ask(("x", 9000))).hold, "nothing is gained by waiting"


def test_a_model_waits_for_the_answers_of_the_one_that_it_would_push_out() -> None:
    one = engine("one", capacity=4)
    other = replace(engine("one", capacity=4, resident=False, exclusive=True), model="other")
    run(one, 1, chain(*B), warm_at=NOW - 1, free_at=NOW + 2)
    choice = placed(board(one, other), ask(*A, label="other", held=60.0))
    assert (choice.hold, choice.decision, choice.until) == (True, "wait_model", NOW + 2)
    one.running.clear()
    assert not placed(board(one, other), ask(*A, label="other")).hold


# the client's own wish, and the rest


def test_the_clients_own_slot_is_respected() -> None:
    one = engine("one", held(*A), held(*B))
    assert where(placed(one, ask(*A2, asked_slot=1))) == ("one", 1, "asked")
    assert placed(one, ask(*A2, asked_slot=3)).slot == 1, "the server takes it modulo the number of slots"
    run(one, 1, chain(*B), warm_at=NOW, free_at=NOW + 5, slot=1)
    choice = placed(one, ask(*A2, asked_slot=1, held=99.0))
    assert (choice.hold, choice.pin, choice.decision) == (True, False, "asked")


def test_a_call_without_a_prompt_goes_to_the_least_busy() -> None:
    one, two = engine("one", None, None), engine("two", None, None)
    run(one, 1, None, warm_at=NOW - 1, free_at=NOW + 1, slot=0)
    assert placed(board(one, two), ask(to="one two")).target.backend == "two"


def test_a_backend_that_was_not_met_yet_is_tried() -> None:
    assert where(placed(Board(), ask(*A))) == ("one", None, "only")


def test_every_way_to_wait_has_its_words() -> None:
    waits = {decision for decision in DECISIONS if decision.startswith("wait_") or decision in ("full", "asked")}
    assert waits == HOLDS.keys()
