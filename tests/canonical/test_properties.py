"""What holds for every prompt, found by search: nothing is lost, nothing crosses, twice is once, and time does not matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.canonical.ledger import Ledger, Nothing
from gateway.canonical.result import Result
from gateway.canonical.settings import Settings
from gateway.dialects.prompt import Text
from tests.canonical.desk import CONVERSING, DIALECTS, MIRA, NOTE, TOVIK, Desk, Turns, chat, parsed

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

VOLATILE = [
    "Now: 2026-03-04 {h:02}:{m:02}:07",
    "Today is March {d}, 2026, and it rains.",
    "Working directory: /home/mira/lab{d}",
    "- **Branch:** trays-{d}",
    "Session ID: a1b2c3{d:02}",
    "Tokens remaining: {m}00",
    "<env>\nPlatform: linux\nShell: /bin/zsh\nToday's date: 2026-03-{d:02}\n</env>",
    "Status:\n M gear{d}.py\n?? notes.txt\nRecent commits:\n1a2b3c{d:02} add gear",
    "Memory:\n- Gear {d} is metric.\n- Trays too.",
    "Known facts:\n- b\n- a\n- c",
    "2026-03-{d:02} {h:02}:{m:02}",
    '```json\n{{"message_id": "66{d:02}", "chat": "x"}}\n```',
    "今天是2026年3月{d}日。",
    "| Root | /srv/app{d} |",
]
FIXED = [
    "You are Pelle.",
    "Never push to the main branch.",
    "Read /home/mira/lab3/notes.md and -home-mira-lab3.",
    "# Rules",
    "## Examples",
    "",
    "```\nNow: 10:15\n```",
    "- read files\n- write files\n- list trays",
    "[see context]",
    "Answer in this format:",
    "<context>\nx\n</context>",
    "x-anthropic-billing-header: cch=1;",
    "> Date: 2024-01-01",
]


@st.composite
def systems(draw: st.DrawFn) -> str:
    """System texts of volatile and fixed lines, and of wild ones."""
    lines = []
    for _ in range(draw(st.integers(0, 7))):
        kind = draw(st.integers(0, 9))
        if kind < 5:
            d, h, m = draw(st.integers(1, 28)), draw(st.integers(0, 23)), draw(st.integers(0, 59))
            lines.append(draw(st.sampled_from(VOLATILE)).format(d=d, h=h, m=m))
        elif kind < 9:
            lines.append(draw(st.sampled_from(FIXED)))
        else:
            lines.append(draw(st.text(max_size=30)))
    return "\n".join(lines)


WORDS = st.sampled_from(["hi", "List the trays.", "Now: 10:15", "", "<context>\nNow: x\n</context>\n\nhi"])


@st.composite
def talks(draw: st.DrawFn) -> Turns:
    """Conversations that end with a user message or a tool result."""
    turns: Turns = [("user", draw(WORDS))]
    for _ in range(draw(st.integers(0, 3))):
        for _ in range(draw(st.integers(0, 2))):
            turns += [("call", draw(st.sampled_from(["look", "count"]))), ("tool", draw(WORDS))]
        turns += [("assistant", draw(st.sampled_from(["Yes.", "No."]))), ("user", draw(WORDS))]
    if draw(st.booleans()):
        turns += [("call", "look"), ("tool", "12 gears")]
    return turns


dialects = st.sampled_from(CONVERSING)


def check_told(result: Result, current: Result, now: float) -> None:
    """All that was moved is told by a note in this request: as `current` has it, or a clock at most five minutes old."""
    told = {line.key: (line.tells, note.made) for _, note in sorted(result.notes.items()) for line in note.lines}
    for note in current.notes.values():
        for line in note.lines:
            if line.key not in told:  # told as a part of a memory block that moved meanwhile
                assert str(line.tells).rpartition(": ")[2] in "".join(str(tells) for tells, _ in told.values())
                continue
            tells, made = told[line.key]
            assert tells == line.tells or (line.key.startswith(("clock:", "ids:", "counters:")) and tells and now - made <= 300)
    for edit in result.edits:
        if edit.rule == "memory" and edit.after == "":
            assert any(edit.before.strip("\n") in (tells or "") for tells, _ in told.values())


@QUICK
@given(systems(), talks(), st.sampled_from(DIALECTS))
def test_twice_is_once(system: str, turns: Turns, dialect: Any) -> None:
    Desk().send(dialect(system, turns))  # the desk sends every canonical body a second time


@QUICK
@given(systems(), talks(), st.sampled_from(DIALECTS))
def test_text_of_users_and_tools_is_unchanged_but_for_notes(system: str, turns: Turns, dialect: Any) -> None:
    path, body = dialect(system, turns)
    body["unknown"] = {"deep": [1.5, None, {"a": 1}]}
    result = Desk().send((path, body))
    after = orjson.loads(result.body)
    assert after["unknown"] == body["unknown"]
    old, new = parsed(path, orjson.dumps(body)), parsed(path, result.body)
    assert len(new.messages) == len(old.messages)
    for at, (was, now) in enumerate(zip(old.messages, new.messages, strict=True)):
        note = result.notes[at].text if at in result.notes else ""
        assert now.role == was.role
        assert [text.text for text in now.texts] == [
            note + text.text if not n else text.text for n, text in enumerate(was.texts)
        ]
    for key in body.keys() - {"messages", "system", "instructions", "input", "prompt"}:
        assert after[key] == body[key]


@QUICK
@given(st.lists(systems(), min_size=2, max_size=4), talks(), dialects, st.data())
def test_everything_moved_is_told_whatever_the_ledger_lost(
    texts: list[str], turns: Turns, dialect: Any, data: st.DataObject
) -> None:
    """Random turns of one conversation, with ledgers lost, windows slid, gateways swapped and time passing."""
    desks = [Desk(Settings()), Desk(Settings())]
    for _ in range(data.draw(st.integers(1, 6))):
        desk = desks[data.draw(st.integers(0, 1))]
        if data.draw(st.integers(0, 5)) == 0 and isinstance(desk.ledger, Ledger):
            desk.ledger.forget()
        desk.now += data.draw(st.sampled_from([0.0, 20.0, 400.0, 90_000.0]))
        start = data.draw(st.integers(0, len(turns) - 1))
        end = data.draw(st.integers(start + 1, len(turns)))
        text = data.draw(st.sampled_from(texts))
        path, body = dialect(text, turns[start:end])
        raw = orjson.dumps(body)
        result = desk.send((path, body), raw=raw)
        if result.body != raw:
            check_told(result, Desk(ledger=Nothing()).send((path, body)), desk.now)
        else:
            assert not result.notes
        if data.draw(st.booleans()):
            desk.answer(result, data.draw(st.sampled_from(["Yes.", "No."])))


@QUICK
@given(systems(), talks(), dialects, st.integers(0, 3600))
def test_turn_after_turn_extends_the_one_before(system: str, turns: Turns, dialect: Any, seconds: int) -> None:
    """With the same system text but for its clock, every request begins with the one before it."""
    desk = Desk()
    before: list[Any] | None = None
    for end in range(1, len(turns) + 1):
        if turns[end - 1][0] in ("assistant", "call") or len({tuple(turns[:end])}) != 1:
            continue
        minute, second = divmod(seconds % 3600 + 10 * end, 60)
        result = desk.send(dialect(f"Clock: 10:{minute % 60:02}:{second:02}.\n{system}", turns[:end]))
        desk.now += 10
        if end < len(turns):
            role, text = turns[end]
            desk.answer(result, text if role == "assistant" else "", [(text, {})] if role == "call" else None)
        prompt = parsed(result.prompt.path, result.body)
        now = [
            [text.text for text in prompt.system],
            *[[message.role, *[t.text for t in message.texts]] for message in prompt.messages],
        ]
        if before is not None:
            assert now[: len(before)] == before
        before = now


@QUICK
@given(systems(), systems(), talks(), dialects)
def test_two_people_with_the_same_words_never_see_each_others_values(one: str, two: str, turns: Turns, dialect: Any) -> None:
    shared, apart = Desk(), Desk()
    for end in range(1, len(turns) + 1):
        shared.answer(shared.send(dialect(one, turns[:end]), TOVIK), "Yes.")
        mixed = shared.send(dialect(two, turns[:end]), MIRA)
        alone = apart.send(dialect(two, turns[:end]), MIRA)
        assert mixed.body == alone.body
        shared.answer(mixed, "Yes.")
        apart.answer(alone, "Yes.")


@QUICK
@given(systems(), talks(), dialects)
def test_the_same_input_and_state_give_the_same_bytes(system: str, turns: Turns, dialect: Any) -> None:
    bodies = set()
    for _ in range(2):
        desk = Desk()
        bodies.add(tuple(desk.send(dialect(system, turns[:end])).body for end in range(1, len(turns) + 1)))
    assert len(bodies) == 1


def test_another_hash_seed_gives_the_same_bytes() -> None:
    script = (
        "import json, sys\n"
        "from tests.canonical.desk import Desk, chat\n"
        "from tests.canonical.test_properties import FIXED, VOLATILE\n"
        "text = '\\n'.join(FIXED[:2] + [one.format(d=3, h=4, m=5) for one in VOLATILE])\n"
        "path, body = chat(text, [('user', 'hi'), ('assistant', 'Yes.'), ('user', 'more')])\n"
        "schema = {'properties': {'b': {}, 'a': {}}, 'type': 'object'}\n"
        "tool = lambda name: {'type': 'function', 'function': {'name': name, 'parameters': schema}}\n"
        "body['tools'] = [tool(name) for name in 'cab']\n"
        "desk = Desk()\n"
        "first = desk.send((path, body))\n"
        "print(first.body.decode(), [(row.kind, row.key.hex(), row.dump().decode()) for row in first.remember])\n"
    )
    seen = set()
    for seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        seen.add(subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout)
    assert len(seen) == 1
    assert "see context" in seen.pop()


@QUICK
@given(
    st.recursive(
        st.none() | st.booleans() | st.sampled_from(["1.10", "1e5", "-0.0", "12345678901234567890123"]) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["", " ", "\n  "]),
)
def test_unknown_fields_and_number_spellings_survive(value: Any, space: str) -> None:
    spelled = json.dumps(value, ensure_ascii=False).encode()
    for number in (b"1.10", b"1e5", b"-0.0", b"12345678901234567890123"):
        spelled = spelled.replace(b'"' + number + b'"', number)
    path, body = chat("You are Pelle.\nNow: 10:15:07", [("user", "hi")])
    raw = b'{"x":' + space.encode() + spelled + b"," + space.encode() + orjson.dumps(body)[1:]
    result = Desk().send((path, body), raw=raw)
    assert b'{"x":' + space.encode() + spelled + b"," in result.body
    assert b"10:15:07" in result.body.split(b'"role":"user"')[1]


def test_a_note_is_recognised_by_this_file() -> None:
    result = Desk().send(chat("Now: 10:15:07", [("user", "hi")]))
    assert NOTE.fullmatch(result.notes[0].text)
    assert isinstance(result.prompt.system[0], Text)
