from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Span

from gateway.cli._diff import LONG, Line, diff, styled

TEXTS = st.lists(st.sampled_from(["red", "green", "blue one", "blue two", ""]), max_size=12).map("\n".join)


def shown(before: str, after: str) -> list[str]:
    return [styled(line).plain for line in diff(before, after)]


def test_a_changed_line_knows_its_changed_words() -> None:
    assert list(diff("it is nine o'clock", "it is ten o'clock")) == [
        Line("-", "it is nine o'clock", (6, 10)),
        Line("+", "it is ten o'clock", (6, 9)),
    ]
    old, new = (styled(line) for line in diff("it is nine o'clock", "it is ten o'clock"))
    assert (old.style, old.spans) == ("red", [Span(8, 12, "bold")])
    assert new.plain[8:11] == "ten"


def test_lines_between_changes_are_left_out() -> None:
    lines = [str(number) for number in range(20)]
    assert shown("\n".join(lines), "\n".join([*lines[:3], *lines[4:16], *lines[17:]])) == [
        *("  2", "- 3", "  4", "… "),
        *("  15", "- 16", "  17"),
    ]


def test_long_lines_are_cut_around_what_changed() -> None:
    head, tail = "a " * 300, " z" * 300
    old, new = shown(head + "nine" + tail, head + "ten" + tail)
    assert (old.startswith("- …"), old.endswith("…"), "a nine z" in old, "a ten z" in new) == (True, True, True, True)
    assert len(old) < LONG
    whole = styled(next(iter(diff(head + "nine" + tail, head + "ten" + tail))))
    (span,) = whole.spans
    assert whole.plain[span.start : span.end] == "nine"


def test_nothing_in_it_can_steer_a_terminal() -> None:
    lines = shown("a\x1b[2J\tb\r\u202e", "a\x07")
    assert lines == ["- a?[2J   b??", "+ a?"]


@given(TEXTS, TEXTS)
def test_applying_a_diff_gives_both_texts_back(before: str, after: str) -> None:
    kept = [line for line in diff(before, after) if line.sign != "…"]
    old = [line.text for line in kept if line.sign in "- "]
    new = [line.text for line in kept if line.sign in "+ "]
    assert (before == after) == (not kept)
    assert len(before.split("\n")) - len(old) == len(after.split("\n")) - len(new), "what is left out is in both"
    assert _is_within(old, before.split("\n"))
    assert _is_within(new, after.split("\n"))


def _is_within(some: list[str], lines: list[str]) -> bool:
    """Whether `some` are among the lines, in this order."""
    rest = iter(lines)
    return all(line in rest for line in some)
