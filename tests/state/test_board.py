"""The board as requests come and go, and as the servers tell: what routing may rely on."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.config import Backend
from gateway.events import BackendGone, BackendProbed, BackendRefused, BoardChanged, Bus, CircuitChanged
from gateway.routing.board import Ask, Choice, Snapshot
from gateway.state import engines
from gateway.state.board import Seats
from gateway.state.trust import FOREIGN
from gateway.values import ModelInfo, Probe, Target, Usage
from tests.state.llama import Front, Llama, Rate, talk
from tests.support.clock import ManualClock


def backend(**fields: Any) -> Backend:
    return Backend(**{"url": "http://127.0.0.1:1", **fields})


def front(count: int = 2, config: Backend | None = None, **kind: Any) -> Front:
    return Front(Llama(count, **kind), ManualClock(), config)


def known(count: int = 2, config: Backend | None = None, **kind: Any) -> Front:
    """One whose mode is known, with `ada` in the last slot and `bo` in the one before."""
    one = front(count, config, **kind)
    for name in ("ada", "bo"):
        one.ask(talk(name))
        one.clock.advance(3)
    one.look()
    return one


def held(one: Front) -> list[int]:
    return [slot.held.tokens if slot.held else 0 for slot in one.engine.slots]


# requests


def test_a_request_has_a_slot_while_it_runs_and_leaves_its_prompt_and_answer_there() -> None:
    one = front()
    flight = one.begin(talk("ada"))
    [running] = one.engine.running.values()
    assert (running.slot, one.engine.slots[1].flight, one.engine.slots[1].idle) == (1, flight.number, False)
    usage = one.end(flight)
    assert not one.engine.running
    assert one.engine.slots[1].idle
    assert held(one) == [0, (usage.prompt or 0) + (usage.completion or 0) - 1]


def test_times_of_a_request_go_by_the_rate_and_are_put_right_by_its_first_token() -> None:
    one = known()
    one.clock.advance(10)
    flight = one.begin(talk("cy", 4000))
    [running] = one.engine.running.values()
    now = one.clock.now()
    assert running.warm_at == pytest.approx(now + 1.0, rel=0.1), "1,000 tokens at 1,000 a second"
    assert running.free_at == pytest.approx(running.warm_at + one.engine.answer)
    one.clock.advance(5)
    one.seats.first(flight.number)
    assert running.warm_at == one.clock.now()
    assert one.engine.slots[running.slot or 0].free_at == running.free_at == one.clock.now() + one.engine.answer


def test_a_request_that_was_never_sent_leaves_everything_as_it_was() -> None:
    one = known()
    before = held(one)
    flight = one.place(talk("cy"), 0)
    assert one.engine.full is False
    one.seats.drop(flight.number)
    assert held(one) == before
    assert not one.engine.running
    assert all(slot.idle for slot in one.engine.slots)


def test_ending_twice_or_without_having_begun_does_nothing() -> None:
    one = known()
    one.seats.first(99)
    one.seats.leave(99, None, finished=True)
    one.seats.drop(99)
    flight = one.begin(talk("cy"))
    one.end(flight)
    one.seats.leave(flight.number, Usage(1, 1, 1), finished=True)
    assert len(one.engine.slots) == 2


def test_a_conversation_that_goes_on_keeps_its_history_and_the_gap_between_its_turns() -> None:
    one = known()
    prompt = talk("ada")
    for turn in range(3):
        one.clock.advance(20)
        prompt = prompt.answered("well, yes.", f"And {turn}?")
        one.ask(prompt, 1)
    content = one.engine.slots[1].held
    assert content is not None
    assert content.hits == 3
    assert content.gap == pytest.approx(20, abs=4)
    one.ask(talk("cy"), 1)
    content = one.engine.slots[1].held
    assert content is not None
    assert (content.hits, content.gap) == (0, None), "that is another one"


def test_changes_are_told_once_each_and_not_when_a_request_is_taken() -> None:
    one = known()
    one.told.clear()
    flight = one.begin(talk("ada"), 1)
    assert one.told == []
    one.seats.first(flight.number)
    one.seats.leave(flight.number, Usage(500, 499, 4), finished=True)
    assert one.told == ["llama", "llama"]


def test_what_is_learned() -> None:
    one = known()
    assert one.engine.ratio == pytest.approx(0.25, abs=0.01)
    before = one.engine.answer
    flight = one.begin(talk("ada"))
    one.seats.first(flight.number)
    one.clock.advance(60)
    one.seats.leave(flight.number, Usage(500, 499, 4, load_ms=2500.0), finished=True)
    assert before < one.engine.answer < 60
    assert one.engine.load == 2.5


def test_the_session_is_remembered_and_not_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.state.board.SESSIONS", 2)
    one = front()
    target = Target("llama", None)
    for number, session in enumerate(("a", "b", "a", "", "c")):
        one.seats.take(number, Ask((target,), None, {}, session=session), Choice(target, "only"), ("llama", "m"))
        one.seats.drop(number)
    assert one.seats.board.sessions == {"a": "llama", "c": "llama"}


# slots


def test_no_pin_before_the_mode_is_known() -> None:
    one = front()
    assert not one.engine.pins
    one.look()
    one.ask(talk("ada"))
    one.look()
    assert (one.engine.mode, one.engine.pins) == ("unknown", False)
    one.ask(talk("bo"))
    one.clock.advance(1)
    one.look()
    assert (one.engine.mode, one.engine.pins) == ("kept", True)


def test_one_slot_can_be_emptied_by_no_other() -> None:
    one = front(1)
    assert not one.engine.pins
    one.look()
    assert (one.engine.mode, one.engine.pins) == ("kept", True)


def test_a_server_that_empties_slots_is_never_pinned_to_and_shares_one_context() -> None:
    one = known(4, cache=True, unified=True)
    assert (one.engine.mode, one.engine.pins, one.engine.context) == ("emptied", False, 100_000)
    assert held(one) == [0, 0, len(one.llama.slots[2].tokens), 0]


def test_answers_that_overlap_prove_nothing_about_the_mode() -> None:
    one = front(2, cache=True, unified=True)
    one.look()
    first, second = one.begin(talk("ada")), one.begin(talk("bo"))
    one.end(first)
    one.end(second)
    one.clock.advance(1)
    one.look()
    assert [len(slot.tokens) > 0 for slot in one.llama.slots] == [True, True]
    assert one.engine.mode == "unknown"


def test_pins_that_find_nothing_are_given_up_until_a_restart() -> None:
    one = known()
    for found in (False, True, True, False, True, False):
        assert one.engine.pins
        if not found:
            one.llama.slots[1].tokens = ()  # nobody knows why
        one.ask(talk("ada"), 1)
    assert not one.engine.pins
    assert "did not find" in one.seats.why_no_pins("llama")
    one.probed(mark="two")
    assert "not known yet" in one.seats.why_no_pins("llama")


def test_a_cache_in_ram_is_found_by_what_it_brings_back_and_missed_by_what_it_does_not() -> None:
    with_cache, without = known(2, cache=True), known(2)
    for one in (with_cache, without):
        for name in ("cy", "ada", "bo", "cy", "ada"):
            assert one.engine.cache is not (one is without)
            one.ask(talk(name))
    assert with_cache.engine.cache is True
    assert without.engine.cache is False


def test_given_up_the_slot_drains_until_it_is_seen_idle_and_what_was_read_is_still_there() -> None:
    one = known()
    prompt = talk("cy", 9000)
    flight = one.begin(prompt, 0)
    one.give_up(flight)
    one.clock.advance(1)
    one.look()
    slot = one.engine.slots[0]
    assert slot.draining
    assert not slot.idle
    assert flight.task is not None
    one.llama.stop(flight.task, 0.6)
    one.clock.advance(2)
    one.look()
    assert slot.idle
    expected, usage = one.seats.expected("llama", "m", prompt.chain), one.ask(prompt, 0)
    assert expected is not None
    assert 0.4 * (usage.prompt or 0) < expected <= (usage.cached or 0)


def test_a_slot_that_is_never_seen_idle_counts_as_free_after_half_a_minute() -> None:
    one = known()
    one.give_up(one.begin(talk("cy"), 0))
    for seconds, draining in ((29, True), (2, False)):
        one.clock.advance(seconds)
        one.probed()
        assert one.engine.slots[0].draining is draining


def test_a_request_that_went_to_another_slot_than_was_believed_is_found_there() -> None:
    """As when a template puts the tools, which two prompts have in common, before the system text."""
    one = front()
    one.ask(talk("ada"))
    flight = one.place(talk("bo", 3000))
    assert one.engine.slots[0].flight == flight.number
    flight.pinned = 1  # where the server puts it
    assert one.send(flight)
    one.end(flight)
    one.clock.advance(1)
    one.look()
    assert held(one) == [0, len(one.llama.slots[1].tokens)]
    content = one.engine.slots[1].held
    assert content is not None
    assert content.chain == talk("bo", 3000).chain


# other people's use


def test_more_at_work_than_ours_is_somebody_else_for_ten_minutes() -> None:
    one = known()
    assert one.engine.pins
    one.seats.set_snapshots("llama", "", {}, True)
    stranger = one.llama.start(talk("stranger").tokens)
    one.look()
    assert not one.engine.pins
    assert not one.engine.saves
    assert one.seats.why_no_pins("llama") == "somebody else uses its slots"
    assert [slot.foreign for slot in one.engine.slots].count(True) == 1
    assert stranger is not None
    one.llama.finish(stranger, ("x",))
    one.clock.advance(3)
    one.look()
    assert not any(slot.foreign for slot in one.engine.slots)
    one.clock.advance(FOREIGN + 1)
    one.probed()
    assert one.engine.pins
    assert one.engine.saves


def test_tasks_that_are_nobody_s_of_ours_are_seen_when_they_are_over() -> None:
    one = known(4)
    for name in ("x", "y"):
        stranger = one.llama.start(talk(name).tokens)
        assert stranger is not None
        one.llama.finish(stranger, ("x",))
    one.ask(talk("ada"))
    one.clock.advance(1)
    one.look()
    assert not one.engine.pins


def test_with_slots_of_its_own_a_gateway_minds_nobody_else() -> None:
    one = known(2, backend(kind="llamacpp", slots=[1]))
    assert [slot.number for slot in one.engine.slots] == [1]
    assert one.engine.capacity == 1
    one.look()
    one.llama.start(talk("stranger").tokens, 0)
    one.look()
    assert one.engine.pins


def test_slots_of_its_own_that_are_not_there_are_not_pinned_to() -> None:
    one = known(2, backend(kind="llamacpp", slots=[1, 7]))
    assert not one.engine.pins
    assert "slots that are not there" in one.seats.why_no_pins("llama")


def test_a_gateway_s_own_work_for_a_snapshot_is_not_somebody_else_s() -> None:
    one = known(4)
    flight = one.place(talk("cy"), 0, lead=1)
    one.llama.start(talk("cy").tokens, 1)
    one.look()
    assert one.engine.pins
    one.seats.drop(flight.number)


# servers come and go


@pytest.mark.parametrize(
    "gone",
    [
        {"mark": "two"},
        {"sleeping": True},
        {"up": False},
    ],
)
def test_a_restart_a_sleep_and_a_crash_leave_nothing(gone: dict[str, Any]) -> None:
    one = known()
    one.give_up(one.begin(talk("ada"), 1))
    one.probed(**gone)
    assert held(one) == [0, 0]
    assert not one.engine.slots[1].draining
    assert one.seats.expected("llama", "m", talk("ada").chain) == 0


def test_a_refused_connection_leaves_nothing_and_without_a_mark_the_next_process_is_a_new_one() -> None:
    one = front()
    one.probed(mark=None)
    for name in ("ada", "bo"):
        one.ask(talk(name))
    one.clock.advance(1)
    one.look()
    assert one.engine.mode == "kept"
    one.bus.publish(BackendRefused("llama"))
    assert held(one) == [0, 0]
    one.probed(mark=None)
    assert one.engine.mode == "unknown"


def test_health_capacity_and_residency_are_the_server_s() -> None:
    one = front()
    assert (one.engine.up, one.engine.capacity, one.engine.resident) == (True, 2, True)
    one.probed(up=False)
    assert not one.engine.up
    one.bus.publish(CircuitChanged("llama", open=True))
    assert one.engine.circuit_open
    one.probed(slots=4)
    assert one.engine.up
    assert one.engine.capacity == len(one.engine.slots) == 4


def test_an_engine_that_was_met_before_its_server_was_seen_is_the_one_without_a_name_then() -> None:
    bus, clock = Bus(), ManualClock()
    seats = Seats(bus, clock, lambda backend, model: Rate())
    bus.subscribe(seats.on_event, *seats.hears)
    seats.configure({"llama": backend()})
    seats.engine("llama", "m")
    bus.publish(BackendProbed("llama", Probe("llamacpp", True, slots=2, single_model=True), 0.1))
    assert seats.engine("llama", "m") is seats.engine("llama", "other")
    assert list(seats.board.engines) == [("llama", "")]
    bus.publish(BackendGone("llama"))
    assert not seats.board.engines


def other_kind(kind: str, config: Backend | None = None, *models: ModelInfo) -> Seats:
    bus = Bus()
    seats = Seats(bus, ManualClock(), lambda backend, model: Rate())
    bus.subscribe(seats.on_event, *seats.hears)
    seats.configure({"one": config or backend(kind=kind)})
    bus.publish(BackendProbed("one", Probe(kind, True, models=models), 0.1))
    return seats


def serve(seats: Seats, number: int, model: str, name: str = "ada") -> None:
    target = Target("one", model)
    seats.take(number, Ask((target,), talk(name).chain, {}), Choice(target, "only"), ("one", model))


def test_a_server_without_slots_has_a_capacity_from_the_configuration_and_remembers_what_came_last() -> None:
    seats = other_kind("ollama", backend(kind="ollama", parallel=2), ModelInfo("m:latest", resident=True))
    for number, name in enumerate(("ada", "bo", "cy", "bo")):
        serve(seats, number, "m", name)
        seats.leave(number, Usage(500, 0, 4), finished=True)
    engine = seats.engine("one", "m")
    assert (engine.capacity, engine.slots, engine.resident) == (2, [], True)
    assert [content.chain for content in engine.recent] == [talk("cy").chain, talk("bo").chain]
    assert seats.expected("one", "m", talk("ada").chain) is None
    assert seats.why_no_pins("one") != ""


def test_loading_what_would_push_out_a_model_in_use_is_marked() -> None:
    seats = other_kind("lmstudio", None, ModelInfo("a", resident=True), ModelInfo("b", resident=False))
    a, b = seats.engine("one", "a"), seats.engine("one", "b")
    serve(seats, 1, "a")
    assert (a.exclusive, b.exclusive) == (False, True)
    seats.leave(1, None, finished=True)
    assert b.exclusive is False


def test_engines_are_not_without_limit_and_busy_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "ENGINES", 3)
    seats = other_kind("ollama")
    serve(seats, 1, "busy")
    for number in range(10):
        seats.engine("one", f"m{number}")
    assert len(seats.board.engines) == 3
    assert ("one", "busy") in seats.board.engines


def test_a_prefill_rate_of_the_configuration_wins() -> None:
    one = front(2, backend(kind="llamacpp", prefill_rate="300/s"))
    assert one.engine.rate.seconds(100, 400) == 1.0
    assert front().engine.rate.seconds(100, 400) == 0.3


def test_snapshots_are_offered_unless_the_configuration_says_never() -> None:
    saved = {b"node": Snapshot("s0", b"node", 3, 900, 5000, 0.01, 0.0)}
    for wanted, offered in (("auto", True), ("never", False)):
        one = front(2, backend(kind="llamacpp", snapshots=wanted))
        one.told.clear()
        one.seats.set_snapshots("llama", "", saved, True)
        assert one.engine.snapshots == saved
        assert one.engine.saves is offered
        assert one.told == ["llama"]


def test_what_comes_from_the_bus_and_is_not_ours_is_let_pass() -> None:
    one = front()
    one.bus.publish(BoardChanged("other"))
    one.seats.on_event(object())
    one.seats.saw_slots("other", [])
    one.seats.cannot_look("other", "why")
    assert not one.seats.watches("other")


def test_what_people_are_shown() -> None:
    one = known()
    target, prompt = Target("llama", None), talk("cy")
    one.seats.take(
        50, Ask((target,), prompt.chain, {}, session="abc"), Choice(target, "warm", slot=0, pin=True), ("llama", "m")
    )
    told = one.seats.shown("llama")
    assert told is not None
    assert (told["mode"], told["pins"], told["why_no_pins"], told["cache"]) == ("kept", True, None, None)
    busy, idle = told["slots"]
    assert busy == {
        "number": 0, "busy": True, "draining": False, "foreign": False, "tokens": 513, "session": "abc", "side": False,
        "used": one.clock.wall(), "hits": 0,
    }  # fmt: skip
    assert (idle["busy"], idle["session"], idle["tokens"]) == (False, None, 520)
    assert idle["used"] == pytest.approx(one.clock.wall() - 6, abs=1)
    assert other_kind("ollama").shown("one") is None
