"""Rule `clock`: what says when now is moves; dates in prose, examples, instructions and ranges stay."""

from __future__ import annotations

import pytest

from tests.canonical.desk import DIALECTS, Dialect, alone

HEAD = "You are Pelle, a careful helper.\nRules:\n- Answer in short sentences.\n- Never print secrets.\n"

MOVES = [
    ("Today: Tue Mar 03 2026", "Tue Mar 03 2026"),
    ("Now: 2026-03-04 10:15:07 (CET).", "10:15:07"),
    ("The clock reads 2025-09-11 08:59:58.", "08:59:58"),
    ("Clock: 20:37:19. Day: 2026-12-20.", "20:37:19"),
    ("Clock: 20:37:19. Day: 2026-12-20.", "2026-12-20"),
    ("Minute: 10:15", "10:15"),
    ("Built: 13:22", "13:22"),
    ("- **Current date:** March 4, 2026", "March 4, 2026"),
    ("3. Current Time: 10:15 AM PST", "10:15 AM"),
    ("**Current Time**: 3 PM", "3 PM"),
    ("<current_time>2026-03-04T10:15:07Z</current_time>", "10:15:07"),
    ("| Current date | 2026-03-04 |", "2026-03-04"),
    ('{"current_time": "2026-03-04T10:15:07+01:00", "style": "plain"}', "10:15:07"),
    ("CURRENT_DATETIME=2026-03-04T10:15:07.123456+01:00", "10:15:07"),
    ("currentTime: 2026-03-04 10:15", "10:15"),
    ("Current timestamp: 1772615707", "1772615707"),
    ("Unix time: 1772615707123", "1772615707123"),
    ("It is now 10:15 on Wednesday.", "10:15 on Wednesday"),
    ("Today is Wednesday.", "Wednesday"),
    ("Today is March 4, 2026, and you are helping Mira.", "March 4, 2026"),
    ("Today's date is 2026-03-04.", "2026-03-04"),
    ("The current date and time is Wednesday, March 4, 2026 at 10:15 AM.", "March 4, 2026"),
    ("The current time in Berlin is 10:15.", "10:15"),
    ("As of: 2026-03-04 10:15", "10:15"),
    ("Wed Mar  4 10:15:07 CET 2026", "10:15:07"),
    ("Current year: 2026", "2026"),
    ("## Current date\nWednesday, March 4, 2026", "March 4, 2026"),
    ("Session started: 2026-03-04 10:15", "10:15"),
    # German
    ("Heute ist Mittwoch, der 4. März 2026.", "4. März 2026"),
    ("Aktuelles Datum: 04.03.2026", "04.03.2026"),
    ("Uhrzeit: 10:15 Uhr", "10:15 Uhr"),
    ("Es ist jetzt 10:15 Uhr.", "10:15"),
    # French
    ("Nous sommes le mercredi 4 mars 2026.", "4 mars 2026"),
    ("Date actuelle : 4 mars 2026", "4 mars 2026"),
    ("Il est 10h15.", "10h15"),
    ("Heure actuelle : 10 h 15", "10 h 15"),
    # Spanish
    ("Hoy es miércoles, 4 de marzo de 2026.", "4 de marzo de 2026"),
    ("Fecha actual: 4 de marzo de 2026", "4 de marzo de 2026"),
    ("Son las 10:15.", "10:15"),
    # Chinese
    ("今天是2026年3月4日，星期三。", "2026年3月4日"),
    ("当前时间：2026年3月4日 10:15", "10:15"),
    ("现在是下午3点15分。", "下午3点15分"),
    # Japanese
    ("今日は2026年3月4日（水）です。", "2026年3月4日"),
    ("現在時刻：10時15分", "10時15分"),
    ("現在の日時は2026年3月4日 10:15です。", "10:15"),
    ("It's 7:42 PM on Thursday, May 14, and the household is in Dublin.", "7:42"),
    ("🕒 2026-05-14 19:42", "19:42"),
    ("[System note: local time for the user is Thursday 14 May 2026, 7:42 p.m. (BST)]", "7:42"),
    ("Week: 2026-W20", "W20"),
    ("Kalenderwoche: KW 21", "KW 21"),
    ("now=2026-05-14T19:42:10+01:00 tz=Europe/London", "19:42"),
    ('time: "19:42"', "19:42"),
    ("The prices below are as of 14 May 2026, 19:42.", "19:42"),
    ("(Server time at the start of this chat: 2026/05/14 19:42)", "19:42"),
    ("Generated at 2026-05-14T19:42:03Z", "19:42"),
    ("Current\u200b date: 14/05/2026", "14/05/2026"),
    ("Date du jour\u202f: 14/05/2026", "14/05/2026"),
    ("Heutiges Datum: Do., 14. Mai 2026 – Uhrzeit: 19.42 Uhr", "19.42"),
    ("Il est actuellement 19 h 42, nous sommes le jeudi 14 mai 2026.", "jeudi 14"),
    ("【当前时间】2026-05-14 19:42:10 星期四", "19:42"),
    ("今日：5月14日（周四）", "5月14日"),
]

STAYS = [
    "Never push to the main branch.",
    "Knowledge cutoff: June 2024",
    "Your knowledge cutoff is June 2024.",
    "Your training data ends on 2024-06-01.",
    "If today is Monday, greet the user.",
    "When the current time is 10:15, stop.",
    "Open: 10:00-18:00",
    "Store hours now: 10:00 - 18:00",
    "The deadline is now 2026-03-04.",
    "As of January 15, 2024, the policy requires two reviewers.",
    "Answer as if today is March 4, 2026.",
    "Assume today is 2024-01-01 in all examples.",
    'Say "Today is March 4, 2026" when asked.',
    "The current date is 2024-06-01 in this story.",
    "Date: March 4, 2026 is the deadline.",
    "2026-03-04 10:15:07 ERROR disk full",
    "Last updated: 2024-06-01",
    "Version: 1.2\nDate: 2024-05-01",
    "> Date: 2024-05-01",
    "Example:\nDate: 2024-05-01\nSubject: gears",
    "## Examples\n\nToday is March 4, 2026.",
    "Use this log format:\n\nTime: 10:15:07",
    "Write dates as 2026-03-04.",
    "Lunch: 12:30",
    "Release date: 2026-03-04",
    "Today is a good day.",
    "The war ended on May 8, 1945.",
    "```\nToday: 2026-03-04\n```",
    '```json\n{"date": "2024-01-01"}\n```' if False else "~~~\nNow: 10:15\n~~~",
    'Reply with JSON like:\n```json\n{"current_time": "10:15"}\n```',
    "Wenn heute Montag ist, grüße.",
    "Wissensstand: Juni 2024",
    "Le magasin ouvre à 10h15.",
    "La reunión es el 4 de marzo de 2026.",
    "知识截止日期：2024年6月",
    "締め切りは2026年3月4日です。",
    "2024-05-01\n- first release\n\n2024-06-01\n- second release",
    "The current date is Friday, 9 October\n2026.",
    "Current date: 9 October\n2026 is the year of the fox",
    "Support hours 🕒 09:30-17:45",
    "The rules are valid as of 2026-03-04 00:00.",
    "Generated on 2026-03-04",
    "Calendar week: 20 bis 22",
    "【当前时间】字段按格式输出。",
    "Son las 10:15 cuando empieza.",
]


@pytest.mark.parametrize(("statement", "value"), MOVES)
def test_a_statement_of_the_present_moves_and_is_told(statement: str, value: str) -> None:
    system, note = alone(HEAD + statement + "\nStay calm.")
    assert value not in system
    assert value in note
    assert "Never print secrets." in system
    assert "Stay calm." in system


@pytest.mark.parametrize("statement", STAYS)
def test_what_does_not_say_when_now_is_stays(statement: str) -> None:
    text = HEAD + "\n" + statement + "\n\nStay calm."
    assert alone(text) == (text, "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect(dialect: Dialect) -> None:
    system, note = alone(HEAD + "Now: 2026-03-04 10:15:07", dialect)
    assert "10:15:07" not in system
    assert note == "<context>\nNow: 2026-03-04 10:15:07\n</context>\n\n"


def test_a_moment_standing_alone_moves_only_if_it_is_the_only_one() -> None:
    system, note = alone("2026-03-04 10:15\n\nYou are Pelle.")
    assert (system, "10:15" in note) == ("[see context]\n\nYou are Pelle.", True)
    log = "Seen:\n\n2026-03-04 10:15\n\n2026-03-04 10:16\n\nEnd."
    assert alone(log) == (log, "")


def test_fields_of_a_json_fence_move_unless_it_is_an_example() -> None:
    fence = '```json\n{"current_time": "10:15:07", "zone": "CET"}\n```'
    system, note = alone(f"Inbound context:\n{fence}\nStyle guide.")
    assert '"zone": "CET"' in system
    assert "10:15:07" in note
    assert "10:15:07" not in system
