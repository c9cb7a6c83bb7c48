"""Request pairs rebuilt from public bug reports, with invented names: what the second request may reuse of the first.

`cases.json`: same_prefix (tools and system equal, and the first request's messages, apart from notes, are a prefix of the
second's), system_lacks, system_keeps (in both requests), tail_has (in the newest user message of the second), unchanged
(paths). Where the default configuration does less than the ideal, DEFAULT says what must hold instead.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.canonical.canonicalize import Canonicalizer
from gateway.canonical.ledger import Nothing
from gateway.canonical.result import Result
from gateway.canonical.settings import Settings
from tests.canonical.desk import MIRA, NOTE, Desk, parsed, system_of, users_of

CASES = {case["id"]: case for case in json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))}
DEFAULT = {"A09", "A17", "A23", "B06", "B10", "C01", "C03", "C04", "C06", "C08", "C10"}
"""Cases whose ideal needs more than the default configuration; each has a test of its own below."""


def play(case: dict[str, Any], replies: bool = True) -> tuple[Result, Result]:
    desk = Desk()
    one, two = ((case[name]["path"], case[name]["body"]) for name in ("req1", "req2"))
    first = desk.send(one)
    if replies:
        followed = [message for message in two[1]["messages"] if message["role"] == "assistant"]
        calls = [
            (call["function"]["name"], call["function"]["arguments"]) for call in (followed or [{}])[-1].get("tool_calls", [])
        ]
        desk.answer(first, "Tray 4 holds 12 gears.", calls)
    desk.now += 30
    return first, desk.send(two)


def tools(result: Result) -> str:
    return json.dumps(orjson.loads(result.body).get("tools"))


def messages(result: Result, notes: bool = True) -> list[Any]:
    out = []
    for message in parsed(result.prompt.path, result.body).messages:
        texts = [text.text if notes else NOTE.sub("", text.text) for text in message.texts]
        out.append((message.role, texts, message.data.get("tool_calls")))
    return out


@pytest.mark.parametrize("name", sorted(CASES))
def test_message_count_roles_and_parts_stay(name: str) -> None:
    case = CASES[name]
    for sent, result in zip((case["req1"], case["req2"]), play(case), strict=True):
        before, after = sent["body"]["messages"], orjson.loads(result.body)["messages"]
        assert [message["role"] for message in before] == [message["role"] for message in after]
        assert [type(message["content"]) for message in before] == [type(message["content"]) for message in after]


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_the_system_text_lacks_keeps_and_the_tail_tells(name: str) -> None:
    expected = CASES[name]["expected"]
    first, second = play(CASES[name])
    for result in (first, second):
        assert not [word for word in expected.get("system_lacks", []) if word in system_of(result)]
        assert not [word for word in expected.get("system_keeps", []) if word not in system_of(result)]
    if name not in DEFAULT:
        assert not [word for word in expected.get("tail_has", []) if word not in users_of(second)[-1]]


@pytest.mark.parametrize("name", sorted(CASES.keys() - DEFAULT))
@pytest.mark.parametrize("replies", [True, False])
def test_the_prefix_is_the_same(name: str, replies: bool) -> None:
    first, second = play(CASES[name], replies)
    assert system_of(first) == system_of(second)
    assert tools(first) == tools(second)
    if name == "A11":  # another conversation with the same system text
        return
    plain = messages(first, notes=False)
    assert messages(second, notes=False)[: len(plain)] == plain
    if name != "A02":  # both requests are the same first turn
        assert messages(second)[: len(plain)] == messages(first)


@pytest.mark.parametrize("name", ["A02", "A15"])
def test_what_must_not_change_does_not(name: str) -> None:
    case = CASES[name]
    for sent, result in zip((case["req1"], case["req2"]), play(case), strict=True):
        users = [message["content"] for message in sent["body"]["messages"] if message["role"] == "user"]
        assert users_of(result) == users


def test_a09_reordered_sections_stay_and_are_reported() -> None:
    first, second = play(CASES["A09"])
    assert tools(first) == tools(second)
    assert "## ext: memory\nSave only facts.\n## ext: files\nRead before write." in system_of(second)
    assert {one.edit.rule for one in second.findings} == {"learned"}


def test_a17_within_the_loop_the_first_note_stands_and_the_memory_moves() -> None:
    first, second = play(CASES["A17"])
    assert "Memory:\n- Gears are metric." in system_of(first)
    assert "Memory:" not in system_of(second)
    assert "Minute: 10:15" in users_of(second)[0]
    assert "Tray 4 counted today." in users_of(second)[0]
    assert [role for role, _, _ in messages(second)] == ["user", "assistant", "tool"]
    assert tools(first) == tools(second)


def test_a23_changing_lines_are_reported_and_nothing_moves() -> None:
    case = CASES["A23"]
    _, second = play(case)
    assert orjson.loads(second.body) == case["req2"]["body"]
    assert {one.edit.before for one in second.findings} == {
        "Scene: a quiet harbour. Mood: tense.",
        "[Lore] The pier was built by the Tovik family.",
    }
    assert all(one.behind > 200 for one in second.findings)


def test_b06_a_tool_that_left_stays_away() -> None:
    first, second = play(CASES["B06"])
    names = [[tool["function"]["name"] for tool in orjson.loads(result.body)["tools"]] for result in (first, second)]
    assert names == [["bash", "grep", "plan_exit", "read"], ["bash", "grep", "read"]]


def test_b10_descriptions_and_numbers_are_untouched() -> None:
    case = CASES["B10"]
    for sent, result in zip((case["req1"], case["req2"]), play(case), strict=True):
        assert tools(result) == json.dumps(sent["body"]["tools"])
        assert b'"default":1.0' in result.body


@pytest.mark.parametrize("name", ["C01", "C03", "C04", "C06", "C08", "C10", "C14"])
def test_history_is_passed_through_as_sent(name: str) -> None:
    case = CASES[name]
    for sent, result in zip((case["req1"], case["req2"]), play(case), strict=True):
        assert result.body == orjson.dumps(sent["body"])


def test_a_prompt_without_system_text_and_tools_is_not_looked_at() -> None:
    class Unread(Nothing):
        def get(self, kind: str, key: bytes) -> object:
            raise AssertionError("the ledger was read")

    body = {"model": "m", "messages": [{"role": "user", "content": "Current time: 10:15"}]}
    raw = orjson.dumps(body)
    prompt = parsed("/v1/chat/completions", raw)
    result = Canonicalizer(Settings()).canonicalize(raw, prompt, MIRA, Unread(), 0.0)
    assert result.body is raw
    assert (result.reason, result.remember) == ("", ())
