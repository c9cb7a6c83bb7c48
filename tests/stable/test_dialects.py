"""The kinds of the public cases in every dialect: other spellings, other places, several turns, streamed and not.

A conversation of three turns goes through the real process, each with other values in its system text, then another one begins.
Every turn must begin with all of the turn before it, and must tell its own values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.canonical.desk import CONVERSING, DIALECTS, Dialect, Turns, anthropic, anthropic_blocks, responses, responses_items
from tests.stable.seen import extends
from tests.stable.stand import MODELS, SAID, Stand
from tests.support.kvcache import tokenize
from tests.support.replies import ToolCall

LAB = (
    "You are Pelle, a careful helper for a small lab.\nRules:\n- Answer in short sentences.\n- Ask before you delete a file.\n"
    "- Prefer the tools to guessing.\n- Never push to the main branch."
)
QUESTIONS = ("List the parts in tray 4.", "And tray 5?", "And tray 6?")


@dataclass(frozen=True, slots=True)
class Kind:
    """system: the text at turn n; values: what of it must be told at turn n; keeps: what must stay in the system text."""

    system: Callable[[int], str]
    values: Callable[[int], list[str]]
    keeps: tuple[str, ...] = ("Never push to the main branch.",)


def git(n: int) -> str:
    files = "".join(f"\n M src/part{at}.py" for at in range(n + 1))
    return (
        f"{LAB}\n\nGit advice: write commit messages in the imperative.\n\ngitStatus: snapshot at start of session.\n"
        f"Branch: trays-{n}\nStatus:{files}\nRecent commits:\n1a2b3c{n} add gear table\n"
    )


def place(n: int) -> str:
    return (
        f"{LAB}\n<env>\nWorking directory: /home/mira/lab{n}\nPlatform: linux\nToday's date: 2026-03-0{n + 1}\n</env>\n"
        f"Read /home/mira/lab{n}/NOTES.md first."
    )


def inbound(n: int) -> str:
    fence = f'```json\n{{"schema":"inbound.v1","channel":"chat-x","message_id":"667{n}","sender_id":"mh-204"}}\n```'
    return f"{LAB}\n\nInbound context:\n{fence}\nStyle guide:\n- Metric units."


def languages(n: int) -> str:
    return (
        f"Aktuelle Uhrzeit: 10:15:0{n}\n{LAB}\nDate actuelle : {n + 1} mars 2026\nFecha actual: {n + 1} de marzo de 2026\n"
        f"当前时间：2026年3月{n + 1}日 10:15\n現在時刻：10:1{n}"
    )


KINDS: dict[str, Kind] = {
    "date": Kind(lambda n: f"Today: Tue Mar 0{n + 3} 2026\n{LAB}", lambda n: [f"Mar 0{n + 3} 2026"]),
    "seconds": Kind(
        lambda n: f"You help Mira Holm.\nNow: 2026-03-04 10:15:0{n} (CET).\n{LAB}", lambda n: [f"10:15:0{n}"], ("Mira Holm",)
    ),
    "house": Kind(
        lambda n: f"Clock: 20:37:1{n}. Day: 2026-12-20.\n{LAB}\nDevices:\n- name: Desk lamp",
        lambda n: [f"20:37:1{n}"],
        ("Desk lamp",),
    ),
    "build": Kind(lambda n: f"Model: local via nook\nBuilt: 13:2{n}\n{LAB}", lambda n: [f"13:2{n}"], ("via nook",)),
    "sentence": Kind(
        lambda n: f"{LAB}\nToday is March {n + 3}, 2026, a fine day.", lambda n: [f"March {n + 3}"], ("a fine day",)
    ),
    "git": Kind(git, lambda n: [f"src/part{n}.py", f"trays-{n}", f"1a2b3c{n}"], ("Git advice",)),
    "place": Kind(place, lambda n: [f"/home/mira/lab{n}", f"2026-03-0{n + 1}"], ("NOTES.md first",)),
    "inbound": Kind(inbound, lambda n: [f"667{n}"], ("chat-x", "Metric units")),
    "counters": Kind(
        lambda n: f"{LAB}\nTokens remaining: {n + 3}000\nContext usage: {n}7%", lambda n: [f"{n + 3}000", f"{n}7%"]
    ),
    "languages": Kind(languages, lambda n: [f"10:15:0{n}", f"{n + 1} mars", f"{n + 1} de marzo", f"3月{n + 1}日", f"10:1{n}"]),
}

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.__name__)
each_way = pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])


def turns(n: int, looked: bool = False) -> Turns:
    """A conversation that ends with its question n. looked: the first answer came after a tool call."""
    talk: Turns = []
    for question in QUESTIONS[:n]:
        tool: Turns = [("call", "look"), ("tool", "12 gears")] if looked and not talk else []
        talk += [("user", question), *tool, ("assistant", SAID)]
    return [*talk, ("user", QUESTIONS[n])]


def request(dialect: Dialect, system: str, talk: Turns, **more: Any) -> tuple[str, dict[str, Any]]:
    path, body = dialect(system, talk)
    path = "/v1/chat/completions" if path == "/chat/completions" else path  # a path that Ollama has
    room = {"max_tokens": 64} if "max_tokens" in body else {}
    return path, {**body, **room, "model": "tools-first", **more}


@each_way
@each_dialect
@pytest.mark.parametrize("name", KINDS)
async def test_each_turn_begins_with_the_turn_before_it(stand: Stand, name: str, dialect: Dialect, stream: bool) -> None:
    kind, model, before = KINDS[name], MODELS["tools-first"], None
    for n in range(3):
        await stand.ask(*request(dialect, kind.system(n), turns(n), stream=stream))
        seen, reused = stand.seen, stand.served.reused
        assert not [value for value in kind.values(n) if value in seen.system]
        assert not [words for words in kind.keeps if words not in seen.system]
        assert not [value for value in kind.values(n) if value not in seen.notes]
        assert seen.users[-1].endswith(QUESTIONS[n])
        if before and dialect in CONVERSING:
            assert extends(before, seen)
            assert reused >= before.tokens(model) + len(tokenize(SAID))
        elif before:
            assert before.system == seen.system
            assert reused >= seen.tokens(model, "<context>")
        before = seen
    await stand.ask(*request(dialect, kind.system(5), [("user", "Good morning.")], stream=stream))
    assert stand.served.reused >= stand.seen.tokens(model, "<context>")
    assert not [value for value in kind.values(5) if value not in stand.seen.notes]


@each_way
@pytest.mark.parametrize("dialect", CONVERSING, ids=lambda dialect: dialect.__name__)
async def test_a_tool_loop_keeps_the_note_of_its_turn(stand: Stand, dialect: Dialect, stream: bool) -> None:
    """The clock goes on while the model calls tools: its turn's note stands, and nothing parts a call and its result."""
    kind, model = KINDS["seconds"], MODELS["tools-first"]
    stand.says("", calls=[ToolCall("look")])
    await stand.ask(*request(dialect, kind.system(0), turns(0), stream=stream))
    first = stand.seen
    stand.says(SAID)
    await stand.ask(*request(dialect, kind.system(1), [*turns(0), ("call", "look"), ("tool", "12 gears")], stream=stream))
    second = stand.seen
    assert extends(first, second)
    assert second.notes == first.notes
    assert "10:15:00" in second.notes
    await stand.ask(*request(dialect, kind.system(2), turns(1, looked=True), stream=stream))
    assert extends(second, stand.seen)
    assert "10:15:02" in stand.seen.users[-1]
    assert stand.served.reused >= second.tokens(model)


@each_way
@pytest.mark.parametrize("dialect", CONVERSING, ids=lambda dialect: dialect.__name__)
async def test_a_folder_that_changes_within_a_loop_is_told_at_once(stand: Stand, dialect: Dialect, stream: bool) -> None:
    await stand.ask(*request(dialect, place(0), turns(0), stream=stream))
    await stand.ask(*request(dialect, place(1), [*turns(0), ("call", "look"), ("tool", "12 gears")], stream=stream))
    assert "/home/mira/lab1" in stand.seen.users[-1]
    assert "12 gears" in str(stand.seen.messages()[-1])
    assert "<context>" not in str(stand.seen.messages()[-1])


TOOLS = ("seek", "alpha", "mu", "zeta")


def tool(dialect: Dialect, name: str, *, turned: bool) -> dict[str, Any]:
    """One tool in the shape of a dialect. turned: the same with its keys in another order."""
    properties = {"where": {"type": "string", "description": "Tray"}, "at": {"type": "number", "default": 1.0}}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": ["where", "at"]}
    if turned:
        schema = {"required": ["where", "at"], "properties": dict(reversed(properties.items())), "type": "object"}
    if dialect in (anthropic, anthropic_blocks):
        return {"name": name, "description": "Does one thing.", "input_schema": schema}
    inner = {"name": name, "description": "Does one thing.", "parameters": schema}
    return {"type": "function", **inner} if dialect in (responses, responses_items) else {"type": "function", "function": inner}


@each_way
@pytest.mark.parametrize("dialect", CONVERSING, ids=lambda dialect: dialect.__name__)
async def test_tools_in_any_order_are_one_prefix(stand: Stand, dialect: Dialect, stream: bool) -> None:
    model, before = MODELS["tools-first"], None
    for n, names in enumerate((TOOLS, TOOLS[::-1], (*TOOLS[2:], *TOOLS[:2]))):
        tools = [tool(dialect, name, turned=n == 1) for name in names]
        await stand.ask(*request(dialect, LAB, turns(n), stream=stream, tools=tools))
        assert stand.seen.tool_names == sorted(TOOLS)
        assert '"required": ["where", "at"]' in stand.seen.tools
        assert b'"default":1.0' in stand.seen.raw
        if before:
            assert extends(before, stand.seen)
            assert stand.served.reused >= before.tokens(model) + len(tokenize(SAID))
        before = stand.seen


@each_way
@each_dialect
async def test_facts_in_another_order_are_one_prefix(stand: Stand, dialect: Dialect, stream: bool) -> None:
    facts = ["- Mira labels trays by week", "- Tovik borrows the fan", "- Gears are metric"]
    await stand.ask(*request(dialect, f"{LAB}\nKnown facts:\n" + "\n".join(facts), turns(0), stream=stream))
    first = stand.seen
    await stand.ask(*request(dialect, f"{LAB}\nKnown facts:\n" + "\n".join(facts[::-1]), turns(1), stream=stream))
    assert stand.seen.system == first.system
    assert stand.served.reused >= first.tokens(MODELS["tools-first"], QUESTIONS[0])


@each_way
@each_dialect
async def test_memories_move_once_they_differ(stand: Stand, dialect: Dialect, stream: bool) -> None:
    """The second version moves the block; from then on the prefix is the same whatever it says, and whether it is there."""
    for n in range(2):
        await stand.ask(*request(dialect, f"{LAB}\n\nMemory:\n- Tray {n} is full.", turns(n), stream=stream))
    second = stand.seen
    assert "Tray 1 is full." in second.notes
    assert "Memory" not in second.system
    await stand.ask(*request(dialect, f"{LAB}\n\nMemory:\n- Tray 2 is full.\n- Tovik is away.", turns(2), stream=stream))
    assert "Tovik is away." in stand.seen.users[-1]
    if dialect in CONVERSING:
        assert extends(second, stand.seen)
    await stand.ask(*request(dialect, LAB, [("user", "Good morning.")], stream=stream))
    assert stand.seen.system == second.system


@each_way
@pytest.mark.parametrize("dialect", [anthropic, anthropic_blocks], ids=lambda dialect: dialect.__name__)
async def test_the_attribution_line_is_dropped_and_nothing_is_said_of_it(stand: Stand, dialect: Dialect, stream: bool) -> None:
    seen = []
    for n in range(2):
        line = f"x-anthropic-billing-header: cc_version=2.1.90.{n}ab; cc_entrypoint=cli; cch=0f3d{n};"
        path, body = request(dialect, LAB, turns(n), stream=stream)
        system = body["system"]
        body["system"] = f"{line}\n{system}" if isinstance(system, str) else [{"type": "text", "text": line}, *system]
        await stand.ask(path, body)
        seen.append(stand.seen)
    assert extends(*seen)
    assert b"billing" not in seen[0].raw + seen[1].raw
    assert seen[1].notes == ""
