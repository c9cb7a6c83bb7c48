"""Rule `learned`: a line that changes while its neighbours stay is reported, and moved only if asked for."""

from __future__ import annotations

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
