"""Rule `list_order`: reported by default; as a rule it gives a permuted bullet list its first-seen order."""

from __future__ import annotations

from gateway.canonical.settings import Settings
from tests.canonical.desk import Desk, chat, system_of

USER = [("user", "Hello")]
ON = Settings(rules=frozenset({"list_order"}), observe=frozenset())
ONE = "You are Pelle.\nSkills:\n- read files\n- write files\n- list trays\nStay calm."
TWO = "You are Pelle.\nSkills:\n- list trays\n- read files\n- write files\nStay calm."


def test_by_default_it_is_reported_with_what_lies_behind() -> None:
    desk = Desk()
    assert desk.send(chat(ONE, USER)).findings == ()
    result = desk.send(chat(TWO, USER))
    assert system_of(result) == TWO
    found = [one for one in result.findings if one.edit.rule == "list_order"]
    assert [one.edit.before for one in found] == ["- list trays\n- read files\n- write files"]
    assert found[0].behind == len(TWO) - TWO.index("- list trays") + len("Hello")


def test_as_a_rule_it_restores_the_first_order() -> None:
    desk = Desk(ON)
    desk.send(chat(ONE, USER))
    result = desk.send(chat(TWO, USER))
    assert system_of(result) == ONE
    assert result.notes == {}


def test_numbered_lists_and_other_sets_stay() -> None:
    for one, two in (
        (ONE.replace("- ", "1. "), TWO.replace("- ", "1. ")),
        (ONE, TWO.replace("list trays", "list gears")),
        (ONE.replace("- write", "  - write"), TWO.replace("- write", "  - write")),
        (f"```\n{ONE}\n```", f"```\n{TWO}\n```"),
    ):
        desk = Desk(ON)
        desk.send(chat(one, USER))
        assert system_of(desk.send(chat(two, USER))) == two
