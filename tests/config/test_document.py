from __future__ import annotations

import pytest

from gateway.config import InvalidConfig
from gateway.config.document import read
from gateway.config.problems import Mark


def problems(text: str) -> list[tuple[int, int, str]]:
    return [(p.mark.line + 1, p.mark.column + 1, p.message) for p in read("x.yaml", text, {}).problems]


def test_nodes_know_their_place_and_their_key() -> None:
    root = read("x.yaml", "a:\n  - b: one\n    c: two\n", {}).root
    node, path = root.at(("a", 0, "c", "deeper"))
    assert (node.value, node.mark, node.key, path) == ("two", Mark(2, 7), Mark(2, 4), ("a", 0, "c"))


def test_a_position_is_passed_over_where_one_value_stands_for_a_list() -> None:
    node, path = read("x.yaml", "a: { b: one }\n", {}).root.at(("a", 0, "b"))
    assert (node.value, path) == ("one", ("a", "b"))


def test_variables_are_expanded_after_parsing_so_that_they_change_no_structure() -> None:
    root = read("x.yaml", "a: ${X}\nb: '${X}'\nc: |\n  <${X}>\n${X}: d\n", {"X": '{x: [1]} # "'}).root
    assert root.plain() == {"a": '{x: [1]} # "', "b": '{x: [1]} # "', "c": '<{x: [1]} # ">\n', "${X}": "d"}


def test_a_variable_is_text_whatever_it_looks_like() -> None:
    assert read("x.yaml", "a: ${X}", {"X": "123"}).root.plain() == {"a": "123"}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, 1), "this key is given twice, first in line 1"),
        ("? [a]\n: b", (1, 3), "a key must be text"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", (3, 3), "merge keys (<<) are not part of YAML 1.2"),
        ("a: !mine b", (1, 4), "tags (!name) have no meaning here; put a value that begins with ! in quotes"),
        ("a: !mine [b]", (1, 4), "tags (!name) have no meaning here"),
        ("a: !!int b", (1, 4), "the value does not fit its tag"),
        ("a: " + "9" * 5000, (1, 4), "this number is too long"),
        ("a:\n - ${NONE}", (2, 4), "the variable NONE is not set; set it, or write ${NONE:-} if it may be empty"),
        ('a: "\\ud800"', (1, 4), "this is not UTF-8 text"),
        ('"\\ud800": a', (1, 1), "this key is not UTF-8 text"),
    ],
)
def test_what_cannot_be_taken_is_a_problem_at_its_place(text: str, place: tuple[int, int], message: str) -> None:
    assert problems(text) == [(*place, message)]


def test_aliases_may_be_used() -> None:
    assert read("x.yaml", "a: &x {b: [1]}\nc: *x\n", {}).root.plain() == {"a": {"b": [1]}, "c": {"b": [1]}}


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]", "a: &a {b: *a}"])
def test_aliases_cannot_explode_or_go_in_circles(text: str) -> None:
    with pytest.raises(InvalidConfig, match="aliases make this too large or contain themselves"):
        read("x.yaml", text, {})
