"""The simulated servers follow the real one's rules, and Warmgate's routing does in them what it is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from bench import decision, routing
from bench.sim import BATCH, Server, Task, Time
from bench.sim_policies import LeastBusy, Policy, Warmgate
from bench.sim_work import Request, Talk

RATE = 1000.0
"""Tokens a second, of the servers here and as it is believed."""


def nothing() -> None:
    pass


def server(time: Time, slots: int = 1) -> Server:
    return Server(time, "s", slots, RATE, 0.02)


def task(head: str, tokens: int = 1000, answer: int = 10, **more: Callable[[], None] | int) -> Task:
    return Task(Talk(head, head, tokens).chain(), answer, **({"first": nothing, "done": nothing, "failed": nothing} | more))  # type: ignore[arg-type]


# the simulated server


def test_a_prompt_is_read_at_the_servers_rate_and_an_answer_comes_token_by_token() -> None:
    time, heard = Time(), []
    server(time).submit(task("a", first=lambda: heard.append(time.now), done=lambda: heard.append(time.now)))
    time.run(99)
    assert heard == pytest.approx([1.0, 1.2])


def test_the_same_prompt_again_costs_one_token() -> None:
    time = Time()
    one = server(time, 2)
    for _ in range(2):
        one.submit(task("a"))
        time.run(time.now + 9)
    assert one.read == 1001


def test_without_a_pin_the_slot_that_was_idle_for_longest_is_taken_and_with_one_that_slot() -> None:
    time = Time()
    one = server(time, 2)
    for head in ("a", "b", "c"):
        one.submit(task(head))
        time.run(time.now + 9)
    assert [slot.chain.digests[0] if slot.chain else None for slot in one.slots] == [
        Talk(head, head, 1000).chain().digests[0] for head in ("c", "b")
    ]
    one.submit(Task(Talk("d", "d", 1000).chain(), 1, nothing, nothing, nothing, pin=1))
    assert one.slots[1].task is not None


def test_two_prompts_share_the_servers_loop() -> None:
    time, heard = Time(), []
    one = server(time, 2)
    for head in ("a", "b"):
        one.submit(task(head, BATCH, first=lambda head=head: heard.append((head, round(time.now, 2)))))  # type: ignore[misc]
    time.run(99)
    assert heard == [("a", 2.05), ("b", pytest.approx(4.1, abs=0.05))]


def test_who_finds_no_slot_waits_and_who_comes_during_an_answer_is_heard_at_its_next_token() -> None:
    time, heard = Time(), []
    one = server(time, 2)
    one.submit(task("a", answer=100))
    time.at(1.51, lambda: one.submit(task("b", answer=5, first=lambda: heard.append("b"))))
    time.at(1.6, lambda: one.submit(task("c", first=lambda: heard.append("c"))))
    time.run(1.7)
    assert [slot.task is not None for slot in one.slots] == [True, True]
    assert len(one.queue) == 1
    time.run(2.6)
    assert heard == ["b"]
    time.run(99)
    assert heard == ["b", "c"]


def test_a_server_that_dies_fails_what_it_has_and_holds_nothing() -> None:
    time, failed = Time(), []
    one = server(time)
    for head in ("a", "b"):
        one.submit(task(head, failed=partial(failed.append, head)))
    time.at(0.5, one.fail)
    time.run(9)
    assert failed == ["a", "b"]
    assert one.slots[0].chain is None
    one.submit(task("c", failed=partial(failed.append, "c")))
    time.run(19)
    assert failed == ["a", "b", "c"]


# agents that take turns


def share_read(
    slots: int, agents: int, rounds: int, tokens: Callable[[int], int], grows: int, policy: str = "warmgate"
) -> float:
    """The share of all prompt tokens that is read when so many agents ask one after another."""
    time = Time()
    one = Server(time, "s0", slots, 300.0, 0.02)
    router: Policy = Warmgate(time, [one], {"s0": 300.0}) if policy == "warmgate" else LeastBusy(time, [one])
    talks = [Talk(f"agent {number}", f"head {number}", tokens(number)) for number in range(agents)]
    turns = [(turn, number) for turn in range(rounds) for number in range(agents)]
    sent = 0

    def ask() -> None:
        nonlocal sent
        if turns:
            turn, number = turns.pop(0)
            if turn and grows:
                talks[number].add(f"hears {turn}", 20, reply=True)
                talks[number].add(f"asks {turn}", grows)
            chain = talks[number].chain()
            sent += chain.size
            router.send(Request(chain, 20, f"{number}", False, time.now, lambda: time.after(0.5, ask)))

    ask()
    time.run(100_000)
    assert not turns
    return one.read / sent


@pytest.mark.parametrize("grows", [0, 100])
@pytest.mark.parametrize("step", [0, 40, -40])
@pytest.mark.parametrize(("slots", "most"), [(2, 0.75), (4, 0.54)])
def test_one_more_agent_than_slots_settles_on_one_slot_to_sacrifice(slots: int, most: float, step: int, grows: int) -> None:
    """Recomputed every time, as without a gateway, it is 1.0; with one slot sacrificed 11 of 15 prompts, or 13 of 25."""
    read = share_read(slots, slots + 1, 5, lambda number: 2000 + step * number, grows)
    assert read <= most
    assert share_read(slots, slots + 1, 5, lambda number: 2000 + step * number, grows, "direct") == pytest.approx(1.0)


def test_as_many_agents_as_slots_read_their_prompts_once() -> None:
    assert share_read(4, 4, 5, lambda number: 2000, 0) == pytest.approx(0.2, abs=0.001)


def test_four_at_once_with_one_beginning_run_one_after_another() -> None:
    time = Time()
    one = Server(time, "s0", 4, 300.0, 0.02)
    router = Warmgate(time, [one], {"s0": 300.0})
    for number in range(4):
        talk = Talk(f"{number}", "the same head", 2000)
        talk.add(f"asks {number}", 50)
        router.send(Request(talk.chain(), 20, f"{number}", False, 0.0, nothing))
    time.run(1000)
    assert one.read / 2050 < 1.1


# the bench


def test_a_quick_run_of_the_smallest_fleets_beats_the_others() -> None:
    cells = [cell for cell in routing.CELLS if cell.backends * cell.slots == 4 and cell.agents < 2]
    shown: list[str] = []
    found = routing.compare(2, shown.append, cells)
    assert len(shown) == len(cells) == 4
    assert routing.lost(found) == []


def test_what_speaks_against_warmgate_is_said() -> None:
    row = {"round robin": 3.0, "least busy": 2.0, "session pin": 2.0, "prefix tree": 1.0, "warmgate": 0.9}
    assert routing.lost({"a": row}) == []
    assert routing.lost({"a": row | {"warmgate": 0.97}}) == ["not 5% below prefix tree over all"]
    worse = {"a": row, "b": row | {"warmgate": 1.03, "round robin": 30.0, "prefix tree": 1.0}, "c": row | {"prefix tree": 9.0}}
    assert routing.lost(worse) == ["b: above prefix tree"]


def test_all_policies_are_asked_for_the_same() -> None:
    runs = [routing.run(routing.CELLS[0], 1, policy) for policy in routing.POLICIES]
    assert len({len(one.ttft) for one in runs}) == len({len(one.main) for one in runs}) == 1
    assert all(one.read > 0 for one in runs)


def test_a_decision_is_measured_on_a_full_fleet() -> None:
    board, index = decision.fleet(True)
    assert len(index) >= 49_000
    assert sum(slot.held is not None for engine in board.engines.values() for slot in engine.slots) == 64
    assert len(decision.talk("one", "head").chain().digests) == decision.NODES
    assert 0 < decision.decide("one head") < 0.01
