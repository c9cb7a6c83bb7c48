"""Rule `learned`: a line that changes while its neighbours stay is reported, and moved only if asked for."""

from __future__ import annotations

import pytest

from gateway.canonical.settings import Settings
from tests.canonical.desk import TOVIK, Desk, chat, system_of, users_of

USER = [("user", "Hello")]
ON = Settings(rules=frozenset({"learned"}), observe=frozenset())


def scene(mood: str) -> str:
    rules = "Answer in short sentences.\nNever print secrets.\nStay calm."
    return f"Scene: a quiet harbour.\nMood is {mood}.\nYou are Pelle.\n{rules}"


def test_by_default_a_change_is_reported_and_nothing_moves() -> None:
    desk = Desk()
    assert desk.send(chat(scene("calm"), USER)).findings == ()
    result = desk.send(chat(scene("tense"), USER))
    assert system_of(result) == scene("tense")
    assert [one.edit.before for one in result.findings] == ["Mood is tense."]


def test_as_a_rule_it_moves_a_line_that_changed_twice() -> None:
    desk = Desk(ON)
    for mood in ("calm", "tense"):
        assert system_of(desk.send(chat(scene(mood), USER))) == scene(mood)
    result = desk.send(chat(scene("stormy"), USER))
    assert system_of(result) == scene("x").replace("Mood is x.", "[see context]")
    assert "Mood is stormy." in users_of(result)[0]
    assert system_of(desk.send(chat(scene("calm"), USER))) == system_of(result)


def test_what_one_client_changes_is_not_learned_for_another() -> None:
    desk = Desk(ON)
    for mood in ("calm", "tense", "stormy"):
        desk.send(chat(scene(mood), USER))
    assert system_of(desk.send(chat(scene("calm"), USER), TOVIK)) == scene("calm")


@pytest.mark.parametrize("rest", ["", "\nBe brief."])
def test_very_short_texts_are_one_route_too(rest: str) -> None:
    desk = Desk(ON)
    for mood in ("calm", "tense"):
        desk.send(chat(f"You are Pelle.\nMood is {mood}.{rest}", USER))
    result = desk.send(chat(f"You are Pelle.\nMood is stormy.{rest}", USER))
    assert system_of(result) == f"You are Pelle.\n[see context]{rest}"


def test_short_texts_without_a_line_in_common_are_strangers() -> None:
    desk = Desk(ON)
    results = [
        desk.send(chat(text, USER)) for text in ("You are Pelle.\nBe brief.", "You are Otter.\nBe kind.", "You are Hob.")
    ]
    assert len({result.route for result in results}) == 3
