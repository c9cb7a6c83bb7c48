"""Notes: where they stand, that they stick, and that everything moved is told."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.canonical.ledger import Ledger, Nothing
from gateway.canonical.settings import Settings
from tests.canonical.desk import (
    CONVERSING,
    DIALECTS,
    MIRA,
    NOTE,
    TOVIK,
    Desk,
    Dialect,
    Turns,
    anthropic,
    chat,
    generate,
    parsed,
    responses,
    system_of,
    users_of,
)


def at(clock: str, folder: str = "/home/mira/lab") -> str:
    return f"You are Pelle.\nNow: 2026-03-04 {clock}\nWorking directory: {folder}\nStay calm."


FIRST: Turns = [("user", "List the parts in tray 4.")]
SECOND: Turns = [*FIRST, ("assistant", "Tray 4 holds 12 gears."), ("user", "And tray 5?")]
THIRD: Turns = [*SECOND, ("assistant", "Tray 5 is empty."), ("user", "Thanks.")]
LOOP: Turns = [*FIRST, ("call", "tray_list"), ("tool", "12 gears")]


def messages_of(result: Any) -> list[Any]:
    prompt = parsed(result.prompt.path, result.body)
    return [message.data for message in prompt.messages]


@pytest.mark.parametrize("dialect", CONVERSING)
@pytest.mark.parametrize("seen", [True, False])
def test_turn_by_turn_each_request_extends_the_one_before(dialect: Dialect, seen: bool) -> None:
    desk, before = Desk(), None
    for clock, turns, reply in (("10:15:07", FIRST, SECOND[1][1]), ("10:16:41", SECOND, THIRD[3][1]), ("10:18:02", THIRD, "")):
        result = desk.send(dialect(at(clock), turns))
        desk.now += 90
        if seen:
            desk.answer(result, reply)
        assert clock in users_of(result)[-1]
        if before is not None:
            assert system_of(result) == system_of(before)
            told = messages_of(before)
            if isinstance(told[0].get("content"), str) and not isinstance(messages_of(result)[0]["content"], str):
                told[0]["content"] = [
                    {"type": "input_text", "text": told[0]["content"]}
                ]  # a string input becomes a list of items
                told[0]["type"] = "message"
            assert messages_of(result)[: len(told)] == told
        before = result


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_note_stands_at_the_start_of_the_newest_users_first_text(dialect: Dialect) -> None:
    result = Desk().send(dialect(at("10:15:07"), FIRST))
    assert users_of(result) == [
        "<context>\nNow: 2026-03-04 10:15:07\nWorking directory: /home/mira/lab\n</context>\n\nList the parts in tray 4."
    ]


def test_only_what_differs_from_what_was_told_is_told_again() -> None:
    desk = Desk()
    desk.answer(desk.send(chat(at("10:15:07"), FIRST)), SECOND[1][1])
    users = users_of(desk.send(chat(at("10:16:41"), SECOND)))
    assert users[1] == "<context>\nNow: 2026-03-04 10:16:41\n</context>\n\nAnd tray 5?"
    same = users_of(desk.send(chat(at("10:16:41"), SECOND)))
    assert same == users


def test_equal_values_need_no_second_note_and_a_retry_is_the_same_bytes() -> None:
    desk = Desk()
    first = desk.send(chat(at("10:15:07"), FIRST))
    assert desk.send(chat(at("10:15:07"), FIRST)).body == first.body
    assert users_of(desk.send(chat(at("10:15:07"), SECOND)))[1] == "And tray 5?"


def test_a_value_that_disappeared_is_told_as_no_longer_given() -> None:
    desk = Desk()
    text = "You are Pelle.\nOne.\nTwo.\nThree.\nFour.\n"
    desk.answer(desk.send(chat(text + "Ticket state: /srv/a\nWorking directory: /srv/a/b", FIRST)), SECOND[1][1])
    users = users_of(desk.send(chat(text + "Ticket state: /srv/a", SECOND)))
    assert users[1] == "<context>\nWorking directory: no longer given\n</context>\n\nAnd tray 5?"


@pytest.mark.parametrize("dialect", CONVERSING)
def test_inside_a_tool_loop_the_first_note_stands(dialect: Dialect) -> None:
    desk = Desk()
    first = desk.send(dialect(at("10:15:07"), FIRST))
    desk.now += 60
    loop = desk.send(dialect(at("10:16:07"), LOOP))
    assert users_of(loop)[0] == users_of(first)[0]
    assert "10:16:07" not in loop.body.decode()
    assert [type(message) for message in messages_of(loop)] == [dict, dict, dict]


def test_inside_a_tool_loop_a_clock_is_at_most_max_age_old() -> None:
    desk = Desk(Settings(max_age=300))
    desk.send(chat(at("10:15:07"), FIRST))
    desk.now += 301
    late = desk.send(chat(at("10:20:08"), LOOP))
    assert "10:20:08" in users_of(late)[0]
    desk.now += 20
    later = desk.send(chat(at("10:20:28"), [*LOOP, ("call", "tray_count"), ("tool", "12")]))
    assert users_of(later)[0] == users_of(late)[0]


def test_inside_a_tool_loop_a_place_is_never_stale() -> None:
    desk = Desk()
    desk.send(chat(at("10:15:07"), FIRST))
    desk.now += 5
    moved = desk.send(chat(at("10:15:12", "/srv/tovik"), LOOP))
    assert "Working directory: /srv/tovik" in users_of(moved)[0]
    assert "/home/mira/lab" not in moved.body.decode()
    assert "10:15:07" in users_of(moved)[0]  # the clock is young, so it stays as it was told
    again = desk.send(chat(at("10:15:14", "/srv/tovik"), [*LOOP, ("call", "tray_count"), ("tool", "12")]))
    assert users_of(again)[0] == users_of(moved)[0]


def test_nothing_stands_between_a_tool_call_and_its_result() -> None:
    result = Desk().send(anthropic(at("10:15:07"), LOOP))
    kinds = [[part["type"] for part in message["content"]] for message in messages_of(result)]
    assert kinds == [["text"], ["tool_use"], ["tool_result"]]
    assert "10:15:07" in users_of(result)[0]


def test_a_lost_ledger_costs_a_prefix_and_no_value() -> None:
    desk = Desk()
    desk.answer(desk.send(chat(at("10:15:07"), FIRST)), SECOND[1][1])
    lost = Desk(ledger=Nothing())
    users = users_of(lost.send(chat(at("10:15:07"), SECOND)))
    assert users[0] == "List the parts in tray 4."
    assert "10:15:07" in users[1]
    assert "/home/mira/lab" in users[1]


def test_a_conversation_first_seen_in_a_tool_loop_gets_its_note_now() -> None:
    users = users_of(Desk().send(chat(at("10:15:07"), LOOP)))
    assert "10:15:07" in users[0]


def test_a_sliding_window_and_compaction_lose_no_value() -> None:
    desk = Desk()
    desk.answer(desk.send(chat(at("10:15:07"), FIRST)), SECOND[1][1])
    desk.answer(desk.send(chat(at("10:15:07"), SECOND)), THIRD[3][1])
    slid = users_of(desk.send(chat(at("10:15:07"), THIRD[2:])))
    assert "/home/mira/lab" in "".join(slid)
    compacted: Turns = [("user", "Summary: two trays."), ("assistant", "Good."), ("user", "Thanks.")]
    assert "/home/mira/lab" in users_of(desk.send(chat(at("10:15:07"), compacted)))[-1]


def test_hi_today_never_says_yesterdays_date() -> None:
    desk = Desk()
    hi: Turns = [("user", "hi")]
    desk.answer(desk.send(chat(at("10:15:07"), hi)), "Hello Mira!")
    desk.now += 86_400
    today: Turns = [*hi, ("assistant", "Good morning!"), ("user", "What day is it?")]
    users = users_of(desk.send(chat(at("09:00:00"), today)))
    assert users[0] == "hi"
    assert "09:00:00" in users[1]


def test_more_than_one_candidate_is_none() -> None:
    desk = Desk()
    hi: Turns = [("user", "hi")]
    for clock in ("10:15:07", "11:00:00"):
        desk.answer(desk.send(chat(at(clock), hi)), "Hello!")
        desk.now += 3600
    users = users_of(desk.send(chat(at("12:00:00"), [*hi, ("assistant", "Hello!"), ("user", "What time is it?")])))
    assert users[0] == "hi"
    assert "12:00:00" in users[1]


def test_branches_get_the_note_that_was_sent_with_their_own_reply() -> None:
    desk = Desk()
    hi: Turns = [("user", "hi")]
    notes = {}
    for clock, reply in (("10:15:07", "Hello!"), ("10:16:07", "Good day!")):
        result = desk.send(chat(at(clock), hi))
        notes[reply] = users_of(result)[0]
        desk.answer(result, reply)
        desk.now += 60
    for reply, note in notes.items():
        assert users_of(desk.send(chat(at("10:17:07"), [*hi, ("assistant", reply), ("user", "more")])))[0] == note


def test_items_of_reasoning_belong_to_no_history() -> None:
    """The Responses API has items of their own for it, which clients send back for one turn, for all, or not at all."""
    desk = Desk()
    first = desk.send(responses(at("10:15:07"), FIRST))
    desk.answer(first, "Tray 4 holds 12 gears.")
    desk.now += 3600
    for kept in (True, False):
        path, body = responses(at("10:16:41"), SECOND)
        if kept:
            body["input"].insert(1, {"type": "reasoning", "id": "r", "summary": []})
        assert users_of(desk.send((path, body)))[0] == users_of(first)[0]


def test_a_note_nobody_saw_the_reply_to_is_recognised_alone_and_for_a_while() -> None:
    for age, found in ((60, True), (601, False)):
        desk = Desk(Settings(unheard=600))
        desk.send(chat(at("10:15:07"), FIRST))
        desk.now += age
        assert users_of(desk.send(chat(at("10:30:00"), SECOND)))[0].startswith("<context>") is found


def test_two_people_with_the_same_words_never_see_each_others_values() -> None:
    desk = Desk()
    desk.answer(desk.send(chat(at("10:15:07"), FIRST), MIRA), SECOND[1][1])
    body = desk.send(chat(at("10:16:41", "/srv/tovik"), SECOND), TOVIK).body.decode()
    assert "/home/mira/lab" not in body
    assert "10:15:07" not in body


def test_a_context_block_that_the_user_typed_stays_hers() -> None:
    typed: Turns = [("user", "<context>\nNow: never\n</context>\n\nWhat is this?")]
    users = users_of(Desk().send(chat(at("10:15:07"), typed)))
    assert users[0].endswith("</context>\n\n<context>\nNow: never\n</context>\n\nWhat is this?")
    untouched = Desk().send(chat("You are Pelle.", typed))
    assert users_of(untouched) == [typed[0][1]]


def test_without_a_user_message_the_original_goes_out() -> None:
    result = Desk().send(chat(at("10:15:07"), [("assistant", "Hello?")]))
    assert result.reason == "no message to carry a note"
    assert "10:15:07" in system_of(result)


def test_a_user_message_of_images_only_carries_no_note() -> None:
    path, body = chat(at("10:15:07"), FIRST)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}
    body["messages"] += [{"role": "assistant", "content": "Show me."}, image]
    result = Desk().send((path, body))
    assert messages_of(result)[-1] == image
    assert "10:15:07" in users_of(result)[0]
    body["messages"] = [body["messages"][0], image]
    assert Desk().send((path, body)).reason == "no message to carry a note"


def test_assistant_prefill_keeps_its_place() -> None:
    result = Desk().send(chat(at("10:15:07"), [*FIRST, ("assistant", "Tray 4 holds")]))
    assert messages_of(result)[-1] == {"role": "assistant", "content": "Tray 4 holds"}
    assert "10:15:07" in users_of(result)[0]


def test_generate_and_string_input_carry_their_note_in_the_prompt() -> None:
    for dialect in (generate, responses):
        assert users_of(Desk().send(dialect(at("10:15:07"), FIRST)))[0].endswith("</context>\n\nList the parts in tray 4.")


def test_what_a_ledger_remembers_survives_its_store() -> None:
    desk = Desk()
    desk.answer(desk.send(chat(at("10:15:07"), FIRST)), SECOND[1][1])
    copy = Ledger()
    for row, seen in desk.ledger.rows():  # type: ignore[attr-defined]
        copy.load(row.kind, row.key, row.dump(), seen)
    restarted = Desk(ledger=copy)
    restarted.now = desk.now + 60
    assert restarted.send(chat(at("10:16:41"), SECOND)).body == desk.send(chat(at("10:16:41"), SECOND)).body
    assert NOTE.match(users_of(restarted.send(chat(at("10:16:41"), SECOND)))[0])


@pytest.mark.parametrize(("mode", "found"), [("off", 0), ("observe", 2)])
def test_observe_and_off_send_the_clients_bytes(mode: str, found: int) -> None:
    path, body = chat(at("10:15:07"), FIRST)
    desk = Desk(Settings(mode=mode))  # type: ignore[arg-type]
    result = desk.send((path, body), raw=b'{"n": 1.10, ' + __import__("json").dumps(body)[1:].encode())
    assert result.body.startswith(b'{"n": 1.10, "model"')
    assert "10:15:07" in system_of(result)
    assert len(result.findings) == found
    assert all(one.behind > len(FIRST[0][1]) for one in result.findings)
    assert desk.canonicalizer.canonicalize(result.body, result.prompt, MIRA, desk.ledger, desk.now, "rewrite").notes
    assert result.sent is None


def test_a_system_text_above_the_limit_is_not_touched() -> None:
    result = Desk(Settings(limit=1000)).send(chat(at("10:15:07") + "x" * 1000, FIRST))
    assert result.reason == "system text too long"
    assert "10:15:07" in system_of(result)
