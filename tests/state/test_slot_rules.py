"""The server's own rules, as tables: which slot a request gets, what it finds there, and what two looks tell of the mode."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.prefix.chain import Chain
from gateway.routing.board import Slot
from gateway.state.content import Content, agreed, cut, following, kept, reused
from gateway.state.shadow import Shadow
from gateway.state.slot_rows import Evidence, evidence, read
from tests.state.llama import Prompt, talk

ADA, BO, CY = talk("ada", 4000), talk("bo", 4000), talk("cy", 4000)


def content(prompt: Prompt, answer: int = 0, used: float = 0.0, **fields: Any) -> Content:
    tokens = len(prompt.tokens)
    return Content(prompt.chain, tokens + answer, used, used, prompt=tokens, **fields)


def shadow(*held: Content | None, busy: tuple[int, ...] = (), used: dict[int, float] | None = None) -> Shadow:
    slots = [Slot(number, one, flight=1 if number in busy else None) for number, one in enumerate(held)]
    return Shadow(slots, used or {})


def chain(prompt: Prompt) -> tuple[Chain, int]:
    return prompt.chain, len(prompt.tokens)


# what is reused


def test_what_is_reused_of_a_prompt() -> None:
    answered = ADA.answered("yes, and no." * 3, "Go on?")
    assert reused(None, *chain(ADA)) == 0
    assert reused(content(BO), *chain(ADA)) == 0
    assert reused(content(ADA), *chain(ADA)) == len(ADA.tokens) - 1, "one token is always computed"
    assert reused(content(ADA, answer=9), *chain(answered)) == len(ADA.tokens) + 9
    assert reused(content(ADA, answer=900), *chain(answered)) < len(answered.tokens), "no more than comes back of the answer"
    assert reused(content(ADA, answer=900), *chain(ADA)) == len(ADA.tokens) - 1
    assert kept(content(ADA, answer=len(ADA.tokens)), *chain(ADA)) == pytest.approx(0.5, abs=0.01)


def test_counts_of_beginnings_win_over_their_share_of_the_characters() -> None:
    node = ADA.chain.digests[1]
    one = content(ADA, counted={node: 800})
    assert one.tokens_at(2) == 800
    assert 800 < one.tokens_at(3) < one.prompt == one.tokens_at(len(ADA.chain.digests))
    assert content(ADA).tokens_at(2) == 512


def test_what_is_left_of_what_was_cut() -> None:
    one = content(ADA, answer=50)
    assert cut(one, one.tokens + 1) is one
    assert (left := cut(one, one.prompt + 7)) is not None
    assert (left.tokens, left.chain) == (one.prompt + 7, one.chain)
    assert (left := cut(one, 600)) is not None
    assert (left.tokens, len(left.chain.digests), left.chain.head, left.chain.parts) == (512, 2, 0, ())
    assert cut(one, 100) is None


def test_what_is_certain_of_several() -> None:
    one, other = ADA.answered("a", "b"), ADA.answered("a", "c")
    left = agreed(content(one), [content(other)])
    assert left is not None
    assert left.chain.digests == ADA.answered("a", "").chain.digests[: len(left.chain.digests)]
    assert agreed(content(ADA), []) == content(ADA)
    assert agreed(content(ADA), [content(BO)]) is None


def test_history_is_taken_over_by_what_goes_on_and_by_nothing_else() -> None:
    old = content(ADA, used=10.0, hits=2, gap=30.0)
    more = following(old, *chain(ADA.answered("yes", "And?")), 50.0, False, "s")
    assert (more.came, more.used, more.hits, more.session) == (10.0, 50.0, 3, "s")
    assert more.gap == pytest.approx(0.7 * 30 + 0.3 * 40)
    assert following(old, *chain(BO), 50.0, True, "").hits == 0


# which slot

PICKS = {
    "the one that holds it": (shadow(content(BO), content(ADA), content(CY)), ADA, 1),
    "the one that was idle for longest": (shadow(content(BO), content(CY), used={0: 2.0, 1: 1.0}), ADA, 1),
    "one that was never used, before those that were": (shadow(content(BO), None, used={0: 1.0}), ADA, 1),
    "the last of several that were never used": (shadow(None, None, None), ADA, 2),
    "no busy one, whatever it holds": (shadow(content(ADA), content(CY), busy=(0,)), ADA, 1),
    "none if all are busy": (shadow(content(ADA), None, busy=(0, 1)), ADA, None),
}


@pytest.mark.parametrize("case", PICKS)
def test_the_slot_that_the_server_takes(case: str) -> None:
    one, prompt, number = PICKS[case]
    slot = one.pick(*chain(prompt))
    assert (slot.number if slot else None) == number


@pytest.mark.parametrize(("share", "number"), [(0.08, 0), (0.13, 1)])
def test_a_tenth_of_the_request_decides(share: float, number: int) -> None:
    text = ADA.messages[0][1]
    size = int(1024 / share)
    longer = Prompt((("system", text[:1024] + "x" * (size - 1024)),))
    one = shadow(content(BO), content(Prompt((("system", text),))), used={0: 1.0, 1: 2.0})
    slot = one.pick(*chain(longer))
    assert slot is not None
    assert slot.number == number


# the cache in RAM


def test_what_is_overwritten_goes_to_the_cache_and_comes_back_once() -> None:
    one = shadow(content(ADA))
    one.start(*chain(BO), None, caches=True, emptied=False)
    one.slots[0].held = content(BO)
    assert [entry.chain for entry in one.host] == [ADA.chain]
    start = one.start(*chain(ADA), None, caches=True, emptied=False)
    assert start.reused == len(ADA.tokens) - 1
    assert start.cached is not None
    assert [entry.chain for entry in one.host] == [BO.chain], "it was moved, and what it replaced was copied"


def test_without_a_cache_what_is_overwritten_is_gone() -> None:
    one = shadow(content(ADA))
    one.start(*chain(BO), None, caches=False, emptied=False)
    assert one.host == []
    assert one.foresee(*chain(CY), None, caches=True).reused == 0


def test_a_pin_to_an_empty_slot_does_not_look_into_the_cache() -> None:
    one = shadow(None, content(CY))
    one.save(content(ADA))
    assert one.foresee(*chain(ADA), 0, caches=True).reused == 0
    assert one.foresee(*chain(ADA), 1, caches=True).reused == len(ADA.tokens) - 1
    assert one.foresee(*chain(ADA), None, caches=True).reused == len(ADA.tokens) - 1


def test_little_of_a_large_entry_is_not_worth_moving() -> None:
    long = Prompt((*ADA.messages, ("user", "y" * 20000)))
    one = shadow(None)
    one.save(content(long))
    assert one.foresee(*chain(ADA), None, caches=True).cached is None


def test_idle_slots_are_emptied_into_the_cache_where_the_server_does_so() -> None:
    one = shadow(content(ADA), content(BO), None)
    start = one.start(*chain(CY), None, caches=True, emptied=True)
    assert start.slot is one.slots[2]
    assert [slot.held for slot in one.slots] == [None, None, None]
    assert {entry.chain.digests[-1] for entry in one.host} == {ADA.chain.digests[-1], BO.chain.digests[-1]}


def test_a_cache_that_had_less_than_was_believed() -> None:
    one = shadow(content(CY))
    for prompt, used in ((ADA, 1.0), (BO, 2.0)):
        one.save(content(prompt, used=used))
    start = one.start(*chain(BO), None, caches=True, emptied=False)
    assert start.cached is not None
    one.forget_older(start.cached)
    assert all(entry.chain != ADA.chain for entry in one.host), "the oldest goes first"


# what two looks tell


def row(number: int, task: int | None = None, tokens: int = 0, *, busy: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"id": number, "is_processing": busy, "n_ctx": 4096}
    return found if task is None else {**found, "id_task": task, "n_prompt_tokens": tokens}


KEPT, EMPTIED, NOTHING = Evidence(kept=True), Evidence(emptied=True), Evidence()

LOOKS = {
    "an idle slot keeps what it held when another works": (
        [row(0, 1, 500), row(1)],
        [row(0, 1, 500), row(1, 9, 300, busy=True)],
        KEPT,
    ),
    "an idle slot loses it": ([row(0, 1, 500), row(1)], [row(0, 1, 0), row(1, 9, 300, busy=True)], EMPTIED),
    "one loses it for want of room, another does not": (
        [row(0, 1, 500), row(1, 2, 500), row(2)],
        [row(0, 1, 0), row(1, 2, 500), row(2, 9, 300)],
        Evidence(kept=True, emptied=True),
    ),
    "nothing has happened": ([row(0, 1, 500), row(1)], [row(0, 1, 500), row(1)], NOTHING),
    "the same slot works again": ([row(0, 1, 500), row(1)], [row(0, 9, 700), row(1)], NOTHING),
    "it was at work when the other began": (
        [row(0, 1, 500, busy=True), row(1)],
        [row(0, 1, 500), row(1, 9, 300)],
        NOTHING,
    ),
}


@pytest.mark.parametrize("case", LOOKS)
def test_what_two_looks_tell(case: str) -> None:
    before, after, told = LOOKS[case]
    old, new = read(before), read(after)
    assert old is not None
    assert new is not None
    assert evidence(old, new, in_turn=False) == told
    assert evidence(old, new, in_turn=False, own=range(3)) == NOTHING, "the gateway itself has put something there, or nothing"


@pytest.mark.parametrize(("tokens", "told"), [(500, KEPT), (0, EMPTIED)])
def test_one_look_is_enough_where_requests_came_in_turn(tokens: int, told: Evidence) -> None:
    rows = read([row(0, 9, 300), row(1, 1, tokens)])
    assert rows is not None
    assert evidence({}, rows, in_turn=True) == told
    assert evidence({}, rows, in_turn=False) == NOTHING


@pytest.mark.parametrize("rows", [[{}], [{"id": "0", "is_processing": False}], [{"id": 0}], [{"id": 0, "is_processing": 1}]])
def test_rows_of_something_else_are_not_read(rows: list[dict[str, Any]]) -> None:
    assert read(rows) is None
