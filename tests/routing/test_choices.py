"""What is true of every choice, whatever the board."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.routing.board import Ask, Board, Engine, Held, Running, Slot
from gateway.routing.decisions import DECISIONS
from gateway.routing.place import choose
from gateway.routing.slots import ALIKE
from tests.routing.boards import Rate, ask, board, chain, engine, held, snapshot

NOW = 1000.0
PIECES = [("head", 600), ("asks", 200), ("hears", 100), ("asks again", 300)]
TALKS = [PIECES[:size] for size in range(1, 5)] + [[("head", 600), ("other", 900)], [("another", 2000)], [("small", 50)]]
CHAINS = [chain(*talk) for talk in TALKS]

talks = st.sampled_from(TALKS)
seconds = st.floats(0, 60)
prefixes = st.builds(
    lambda talk, idle, hits, gap, side, answer: held(*talk, used=NOW - idle, hits=hits, gap=gap, side=side, answer=answer),
    talks, seconds, st.integers(0, 9), st.none() | seconds, st.booleans(), st.integers(0, 200),
)  # fmt: skip
seats = st.builds(
    lambda content, state, left: Slot(0, content, free_at=NOW + left, **{state: True} if state else {}),
    st.none() | prefixes, st.sampled_from(["", "", "", "draining", "foreign", "flight"]), st.floats(-9, 60),
)  # fmt: skip
runs = st.builds(
    lambda of, side, warm, rest, lead: Running(of, side, True, of.size + 100, NOW + warm, NOW + warm + rest, lead=lead),
    st.sampled_from(CHAINS), st.booleans(), st.floats(-9, 9), seconds, st.sampled_from([0, 0, 6]),
)  # fmt: skip
snapshots = st.builds(
    lambda of, share, cost: snapshot(of, max(1, round(len(of.digests) * share)), cost),
    st.sampled_from(CHAINS), st.floats(0, 1), st.floats(0, 3),
)  # fmt: skip


@st.composite
def engines(draw: st.DrawFn) -> Engine:
    slots = draw(st.lists(seats, max_size=3))
    one = engine("", rate=Rate(draw(st.floats(0, 1e-2))))
    one.slots = [replace(slot, number=number) for number, slot in enumerate(slots)]
    for number, slot in enumerate(one.slots):
        slot.flight = 100 + number if slot.flight else None
        if slot.flight:
            of = slot.held.chain if slot.held else None
            one.running[slot.flight] = Running(of, False, True, 500, NOW, slot.free_at, number)
    one.running |= dict(enumerate(draw(st.lists(runs, max_size=2)))) if not slots else {}
    one.capacity = len(slots) or draw(st.none() | st.integers(1, 3))
    one.mode = draw(st.sampled_from(["kept", "kept", "emptied", "unknown"]))
    one.pins = one.mode == "kept" and draw(st.booleans())
    one.cache = draw(st.sampled_from([True, False, None]))
    one.snapshots = {found.node: found for found in draw(st.lists(snapshots, max_size=2))} if slots else {}
    one.saves = draw(st.booleans()) if slots else False
    one.up, one.circuit_open = draw(st.sampled_from([(True, False)] * 3 + [(False, False), (True, True)]))
    one.resident, one.exclusive = draw(st.none() | st.booleans()), draw(st.booleans())
    one.context = draw(st.none() | st.integers(500, 4000))
    one.waiting, one.shares, one.settle = draw(st.integers(0, 3)), draw(st.booleans()), draw(st.floats(0, 1))
    one.settling, one.recent = draw(st.lists(runs, max_size=1)), draw(st.lists(prefixes, max_size=2))
    return one


@st.composite
def situations(draw: st.DrawFn) -> tuple[Board, Ask]:
    found = draw(st.lists(engines(), min_size=1, max_size=3))
    for number, one in enumerate(found):
        one.backend = f"b{number}"
    names = [one.backend for one in found]
    what = ask(
        *draw(talks | st.just([])),
        to=" ".join(names),
        warm={name: draw(st.integers(0, 12)) for name in names},
        side=draw(st.booleans()),
        pinnable=draw(st.booleans()),
        asked_slot=draw(st.none() | st.integers(0, 5)),
        limit=draw(st.none() | st.integers(1, 3000)),
        held=draw(seconds),
    )
    return board(*found), what


def of(where: Board, backend: str) -> Engine:
    return where.engines[backend, "m"]


@settings(max_examples=150, deadline=None)
@given(situations())
def test_what_is_true_of_every_choice(situation: tuple[Board, Ask]) -> None:
    where, what = situation
    before = deepcopy(where)
    choice = choose(where, what, NOW)
    chosen = of(where, choice.target.backend)
    healthy = [one for one in where.engines.values() if one.up and not one.circuit_open]

    assert choice == choose(before, what, NOW), "the same situation, the same choice"
    assert where == before, "nothing is written"
    assert choice.decision in DECISIONS
    assert choice.target in what.targets
    assert choice.reasons
    assert chosen in healthy or not healthy, "none that is sick while a healthy one can serve"
    assert all(math.isfinite(cost) and cost >= 0 for cost in choice.costs.values())
    assert (choice.until is not None and choice.until > NOW) if choice.hold else choice.until is None
    if choice.pin or choice.restore or choice.save or choice.lead:
        assert not choice.hold
        assert choice.slot is not None
        assert chosen.slots[choice.slot].idle, "never into a slot that is in use"
    if choice.pin:
        assert what.asked_slot is not None or (chosen.pins and what.pinnable)
    if choice.save:
        assert chosen.saves
        assert not any(one.running for one in where.engines.values() if one.backend == chosen.backend)
    if choice.slot is not None and not choice.hold:
        assert chosen.slots[choice.slot].idle


def has_room(one: Engine) -> bool:
    """Nothing but its own wish for something better keeps a request from it."""
    idle = any(slot.idle for slot in one.slots) if one.slots else not one.full
    return idle and not one.full and one.context is None and not one.exclusive


@settings(max_examples=100, deadline=None)
@given(situations())
def test_nothing_better_is_waited_for_beyond_the_limit(situation: tuple[Board, Ask]) -> None:
    where, what = situation
    what = replace(what, held=what.hold, asked_slot=None)
    choice = choose(where, what, NOW)
    healthy = [one for one in where.engines.values() if one.up and not one.circuit_open]
    if any(has_room(one) for one in healthy):
        assert not choice.hold


@settings(max_examples=100, deadline=None)
@given(situations())
def test_an_empty_slot_is_pinned_only_where_the_servers_cache_cannot_hold_the_prompt(situation: tuple[Board, Ask]) -> None:
    where, what = situation
    what = replace(what, asked_slot=None)
    choice = choose(where, what, NOW)
    if choice.pin and choice.slot is not None and choice.restore is None:
        chosen = of(where, choice.target.backend)
        warm = what.warm[chosen.backend]
        assert chosen.slots[choice.slot].held is not None or chosen.cache is False or not warm


@given(
    shares=st.lists(st.integers(0, 20), min_size=2, max_size=2).map(sorted),
    hits=st.integers(0, 5),
    each=st.floats(1e-5, 1e-2),
)
def test_a_longer_common_prefix_never_makes_a_slot_dearer(shares: list[int], hits: int, each: float) -> None:
    whole = chain(("x", 2000))
    totals = []
    for nodes in shares:
        mixed = replace(
            whole, digests=tuple(digest if at < nodes else bytes(16) + bytes([at]) for at, digest in enumerate(whole.digests))
        )
        content = Held(mixed, 2000, 0.0, NOW, hits)
        totals.append(sum(choose(board(engine("one", content, rate=Rate(each))), ask(("x", 2000)), NOW).costs.values()))
    assert totals[1] <= totals[0] + 0.2, "costs are rounded to tenths of milliseconds"


@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4), last=st.integers(0, 3))
def test_the_slot_that_is_overwritten_is_never_worth_much_more_than_another(sizes: list[int], last: int) -> None:
    contents = [held((f"talk {at}", size * 100), used=NOW - at - 1) for at, size in enumerate(sizes)]
    contents[last % len(sizes)].used = NOW
    choice = choose(board(engine("one", *contents)), ask(("new", 500)), NOW)
    assert choice.replaced is not None
    assert choice.replaced.tokens <= min(content.tokens for content in contents) * ALIKE
