"""How replies come back as history: without their reasoning, with calls spelled anew, with text beside calls, cut short.

A turn's note must be recognised by the reply in every API; each test sends a reply in one form and its history in another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.stable.seen import extends
from tests.stable.stand import MODELS, SAID, Stand
from tests.support.replies import ToolCall

Item = dict[str, Any]
THOUGHT = "Let me look at the shelf map."
CALLS = (ToolCall("look", {"tray": 4, "deep": True}, id="call_1"), ToolCall("count", {"what": "gears"}, id="call_2"))


def clock(n: int) -> str:
    return f"You are Pelle, a careful helper for a small lab.\nNow: 2026-03-04 10:15:0{n}\nNever push to the main branch."


def user(text: str) -> Item:
    return {"role": "user", "content": text}


# Each of these makes (path, body) of a system text and messages.


def chat(system: str, talk: list[Item]) -> tuple[str, Item]:
    return "/v1/chat/completions", {"messages": [{"role": "system", "content": system}, *talk]}


def messages(system: str, talk: list[Item]) -> tuple[str, Item]:
    return "/v1/messages", {"max_tokens": 256, "system": system, "messages": talk}


def responses(system: str, talk: list[Item]) -> tuple[str, Item]:
    return "/v1/responses", {"instructions": system, "input": talk}


def ollama(system: str, talk: list[Item]) -> tuple[str, Item]:
    return "/api/chat", {"messages": [{"role": "system", "content": system}, *talk]}


Dialect = Callable[[str, list[Item]], tuple[str, Item]]


def chat_calls(text: str | None) -> list[Item]:
    """Arguments with other spaces and another order; ids of the client's own."""
    spelled = ('{ "deep": true, "tray": 4 }', '{"what":"gears"}')
    calls = [
        {"id": f"x{n}", "type": "function", "function": {"name": call.name, "arguments": words}}
        for n, (call, words) in enumerate(zip(CALLS, spelled, strict=True))
    ]
    results = [{"role": "tool", "tool_call_id": f"x{n}", "content": "12"} for n in range(2)]
    return [{"role": "assistant", "content": text, "tool_calls": calls}, *results]


def messages_calls(text: str | None) -> list[Item]:
    said = [{"type": "text", "text": text}] if text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(reversed(call.arguments.items()))}
        for call in CALLS
    ]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "12"} for call in CALLS]
    return [{"role": "assistant", "content": [*said, *calls]}, {"role": "user", "content": results}]


def responses_calls(text: str | None) -> list[Item]:
    said = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}] if text else []
    calls = [{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments_json} for c in CALLS]
    results = [{"type": "function_call_output", "call_id": call.id, "output": "12"} for call in CALLS]
    return [*said, *calls, *results]


def ollama_calls(text: str | None) -> list[Item]:
    calls = [{"function": {"name": call.name, "arguments": dict(reversed(call.arguments.items()))}} for call in CALLS]
    results = [{"role": "tool", "tool_name": call.name, "content": "12"} for call in CALLS]
    return [{"role": "assistant", "content": text or "", "tool_calls": calls}, *results]


HISTORIES: dict[str, tuple[Dialect, list[Item]]] = {
    "chat": (chat, [{"role": "assistant", "content": SAID}]),
    "chat, in parts": (chat, [{"role": "assistant", "content": [{"type": "text", "text": SAID}]}]),
    "chat, with white space cut": (chat, [{"role": "assistant", "content": f"\n{SAID} "}]),
    "chat, with reasoning": (chat, [{"role": "assistant", "content": SAID, "reasoning_content": THOUGHT}]),
    "messages": (messages, [{"role": "assistant", "content": SAID}]),
    "messages, in blocks": (messages, [{"role": "assistant", "content": [{"type": "text", "text": SAID}]}]),
    "messages, with thinking": (
        messages,
        [
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": THOUGHT, "signature": "s"}, {"type": "text", "text": SAID}],
            }
        ],
    ),
    "responses": (responses, [{"role": "assistant", "content": SAID}]),
    "responses, as an item": (
        responses,
        [
            {
                "type": "message",
                "role": "assistant",
                "id": "m",
                "content": [{"type": "output_text", "text": SAID, "annotations": []}],
            }
        ],
    ),
    "responses, with reasoning": (
        responses,
        [
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": THOUGHT}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]},
        ],
    ),
    "ollama": (ollama, [{"role": "assistant", "content": SAID}]),
    "ollama, with thinking": (ollama, [{"role": "assistant", "content": SAID, "thinking": THOUGHT}]),
}
CALLED: dict[str, tuple[Dialect, Callable[[str | None], list[Item]]]] = {
    "chat": (chat, chat_calls),
    "messages": (messages, messages_calls),
    "responses": (responses, responses_calls),
    "ollama": (ollama, ollama_calls),
}

each_way = pytest.mark.parametrize("streaming", [True, False], ids=["stream", "document"])


async def played(stand: Stand, dialect: Dialect, history: list[Item], *, streaming: bool) -> None:
    """The reply that the stand gives is known again in this history, now and when the conversation has gone on."""
    seen, talk = [], [user("List the parts in tray 4.")]
    for n, more in enumerate(
        ([], [*history, user("And tray 5?")], [{"role": "assistant", "content": SAID}, user("And tray 6?")])
    ):
        talk += more
        if n == 1:
            stand.says(SAID)
        path, body = dialect(clock(n), talk)
        await stand.ask(path, {"model": "thinking", **body, "stream": streaming})
        seen.append(stand.seen)
        assert f"10:15:0{n}" in stand.seen.users[-1]
    assert extends(seen[0], seen[1])
    assert extends(seen[1], seen[2])
    assert stand.served.reused >= seen[1].tokens(MODELS["thinking"])


@each_way
@pytest.mark.parametrize("name", HISTORIES)
async def test_a_reply_without_its_reasoning(stand: Stand, name: str, streaming: bool) -> None:
    stand.says(SAID, THOUGHT)
    await played(stand, *HISTORIES[name], streaming=streaming)


@each_way
@pytest.mark.parametrize("name", ["chat", "messages", "responses", "ollama"])
async def test_a_reply_whose_reasoning_stood_in_its_text(stand: Stand, name: str, streaming: bool) -> None:
    stand.says(f"<think>\n{THOUGHT}\n</think>\n\n{SAID}")
    await played(stand, *HISTORIES[name], streaming=streaming)


@each_way
@pytest.mark.parametrize("text", ["", "I will look."], ids=["calls", "text-and-calls"])
@pytest.mark.parametrize("name", CALLED)
async def test_a_reply_that_calls_two_tools(stand: Stand, name: str, text: str, streaming: bool) -> None:
    dialect, history = CALLED[name]
    stand.says(text, THOUGHT, CALLS)
    await played(stand, dialect, [*history(text or None), {"role": "assistant", "content": SAID}], streaming=streaming)


@each_way
@pytest.mark.parametrize("name", ["chat", "messages", "ollama"])
async def test_text_beside_calls_that_a_client_drops(stand: Stand, name: str, streaming: bool) -> None:
    dialect, history = CALLED[name]
    stand.says("I will look.", THOUGHT, CALLS)
    await played(stand, dialect, [*history(None), {"role": "assistant", "content": SAID}], streaming=streaming)


@each_way
async def test_reasoning_items_that_a_client_keeps_for_one_turn_only(stand: Stand, streaming: bool) -> None:
    """The Responses API asks for the items of the newest turn; older ones may be left out."""
    item = {"type": "reasoning", "id": "r", "summary": []}
    answer = {"role": "assistant", "content": SAID}
    talks = (
        [user("one")],
        [user("one"), item, answer, user("two")],
        [user("one"), answer, user("two"), item, answer, user("three")],
    )
    notes = []
    for n, talk in enumerate(talks):
        stand.says(SAID, THOUGHT)
        path, body = responses(clock(n), list(talk))
        await stand.ask(path, {"model": "thinking", **body, "stream": streaming})
        notes.append(stand.seen.users)
    assert notes[1][:1] == notes[0]
    assert notes[2][:2] == notes[1]
