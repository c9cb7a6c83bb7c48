from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.prefix.chain import common
from gateway.routing.match import reusable, saved, shared, tokens_at
from tests.routing.boards import chain, engine, held, snapshot

words = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([100, 250])), min_size=1, max_size=4)


@given(words, words, st.integers(-1, 12))
def test_the_guess_and_the_short_cuts_change_nothing(
    one: list[tuple[str, int]], other: list[tuple[str, int]], guess: int
) -> None:
    first, second = chain(*one), chain(*other)
    assert shared(first, second, guess) == common(first, second)


def test_tokens_go_by_characters() -> None:
    of = chain(("a", 250), ("asks", 100))
    assert [tokens_at(of, nodes, 0.5) for nodes in range(5)] == [0, 50, 100, 125, 175]


def test_a_conversation_that_goes_on_finds_the_answer_too() -> None:
    talk = [("a", 1000), ("asks", 100)]
    content = held(*talk, answer=80)
    of = chain(*talk, ("hears", 60), ("asks again", 100))
    assert reusable(content, of, 11, 1.0) == 1160, "no more of it than came back"
    longer = chain(*talk, ("hears", 200))
    assert reusable(content, longer, 11, 1.0) == 1180, "no more of it than is held"
    assert reusable(content, of, 10, 1.0) == 1000


def test_the_longest_snapshot_that_is_part_of_the_prompt() -> None:
    of, one = chain(("a", 1000), ("asks", 500)), engine("one")
    short, long, other = snapshot(of, 4), snapshot(of, 12), snapshot(chain(("b", 900)), 9)
    assert saved(one, of) is None
    one.snapshots = {each.node: each for each in (long, short, other)}
    assert saved(one, of) is long
    assert saved(one, chain(("a", 1000))) is short
