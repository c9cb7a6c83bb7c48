"""The index: what is warm where, what is lost and why, and that it stays small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.prefix.chain import Chain
from gateway.prefix.index import Index, Place
from tests.prefix.test_chain import of

HERE, THERE = Place("one", "m"), Place("two", "m")


def talk(name: str, turns: int) -> Chain:
    return of(f"You are {name}.", [("user", f"{name} {number}") for number in range(turns)])


def keep(index: Index, chain: Chain, now: float, place: Place = HERE, prompt: int | None = 100) -> None:
    index.keep(chain, place, now, prompt, 5)


def test_a_prompt_that_goes_on_finds_the_one_before() -> None:
    index = Index()
    keep(index, talk("a", 2), 1.0)
    warm = index.match(talk("a", 4), "m")["one"]
    assert (warm.nodes, warm.ever, warm.cause) == (3, 3, None)
    assert warm.home is not None
    assert (warm.home.tokens, warm.home.after) == (100, 5)
    assert index.match(talk("a", 4), "other model") == {}
    assert index.match(talk("b", 4), "m") == {}


def test_a_backend_that_was_restarted_has_nothing_and_it_is_known_why() -> None:
    index = Index()
    keep(index, talk("a", 2), 1.0)
    keep(index, talk("a", 2), 1.0, THERE)
    index.drop("one", "backend_restarted", 1.5)
    found = index.match(talk("a", 4), "m")
    assert (found["one"].nodes, found["one"].ever, found["one"].cause) == (0, 3, "backend_restarted")
    assert found["two"].nodes == 3
    keep(index, talk("a", 1), 2.0)
    again = index.match(talk("a", 4), "m")["one"]
    assert (again.nodes, again.ever, again.cause) == (2, 3, "backend_restarted")


def test_what_was_used_after_a_loss_that_is_known_late_is_still_there() -> None:
    index = Index()
    keep(index, talk("a", 2), 1.0)
    keep(index, talk("b", 2), 3.0)
    old = index.match(talk("a", 2), "m")["one"]
    assert index.cause(old) is None
    index.drop("one", "backend_restarted", 2.0)
    assert index.cause(old) == "backend_restarted"
    found = {name: index.match(talk(name, 2), "m")["one"] for name in "ab"}
    assert {name: (warm.nodes, warm.cause) for name, warm in found.items()} == {"a": (0, "backend_restarted"), "b": (3, None)}


def test_what_was_not_used_since_something_evicted_was_is_gone_too() -> None:
    index = Index()
    for now, name in enumerate("abc"):
        keep(index, talk(name, 2), float(now))
    index.evicted(index.match(talk("b", 2), "m")["one"])
    found = {name: index.match(talk(name, 2), "m")["one"] for name in "abc"}
    assert [found[name].nodes for name in "abc"] == [0, 0, 3]
    assert found["a"].cause == "evicted"


def test_a_model_that_was_unloaded() -> None:
    index = Index()
    keep(index, talk("a", 2), 1.0)
    keep(index, talk("a", 2), 1.0, Place("one", "n"))
    index.drop("one", "model_loaded", 1.5, "m")
    assert index.match(talk("a", 2), "m")["one"].cause == "model_loaded"
    assert index.match(talk("a", 2), "n")["one"].cause is None


def test_what_is_unused_for_too_long_is_dropped() -> None:
    index = Index(expiry=10.0)
    keep(index, talk("a", 2), 0.0)
    keep(index, talk("b", 2), 11.0)
    assert index.match(talk("a", 2), "m") == {}
    assert len(index) == 3


def test_the_oldest_go_first_but_for_what_newer_ones_use() -> None:
    index = Index(most=8)
    keep(index, talk("a", 3), 0.0)
    keep(index, talk("b", 3), 1.0)
    keep(index, talk("a", 1), 2.0)
    assert len(index) == 8
    keep(index, talk("c", 1), 3.0)
    assert len(index) == 4
    assert {name: index.match(talk(name, 3), "m")["one"].nodes for name in "ac"} == {"a": 2, "c": 2}
    assert index.match(talk("b", 3), "m") == {}


def test_a_count_holds_for_all_nodes_of_its_prompt() -> None:
    index = Index()
    keep(index, talk("a", 4), 1.0, prompt=200)
    half = talk("a", 2)
    home = index.match(half, "m")["one"].home
    assert home is not None
    assert home.tokens == round(200 * half.size / talk("a", 4).size)
    assert home.after == 0
    keep(index, half, 2.0, prompt=None)
    again = index.match(half, "m")["one"].home
    assert again is not None
    assert (again.tokens, again.after) == (home.tokens, 5)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 6), st.sampled_from((HERE, THERE))), max_size=40))
def test_it_stays_bounded_and_never_holds_a_node_without_those_before(uses: list[tuple[str, int, Place]]) -> None:
    index = Index(most=20)
    for now, (name, turns, place) in enumerate(uses):
        chain = talk(name, turns)
        keep(index, chain, float(now), place)
        assert len(index) <= 20
        assert index.match(chain, "m")[place.backend].nodes == len(chain.digests)
        for other in "abcdef":
            whole = talk(other, 6)
            for backend, warm in index.match(whole, "m").items():
                held = index._places[Place(backend, "m")].stays
                assert all(digest in held for digest in whole.digests[: warm.ever])
                assert not any(digest in held for digest in whole.digests[warm.ever :])
    assert len(index) == sum(len(held.stays) for held in index._places.values())
    for place, characters in index.characters().items():
        nodes: dict[bytes, int] = {}
        for name in "abcdef":
            whole = talk(name, 6)
            nodes |= {digest: whole.size_at(at + 1) - whole.size_at(at) for at, digest in enumerate(whole.digests)}
        assert characters == sum(nodes[digest] for digest in index._places[place].stays)


def test_forgetting_and_a_backend_that_left() -> None:
    index = Index()
    keep(index, talk("a", 2), 1.0)
    keep(index, talk("a", 2), 1.0, THERE)
    index.gone("one")
    assert (len(index), set(index.match(talk("a", 2), "m"))) == (3, {"two"})
    index.forget()
    assert (len(index), index.characters()) == (0, {})
