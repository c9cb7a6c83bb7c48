"""Bodies that no rule was made for: they go out unharmed, what moves is told, and no request is failed by this layer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stable.seen import Seen, extends
from tests.stable.stand import SAID, SCRIPTED, Stand
from tests.support.replies import Reply
from tests.support.steps import json_reply, ordinary

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
CLOCK = "You are Pelle.\nNow: 2026-03-04 10:15:07\nStay calm."
USER = {"role": "user", "content": "List the parts in tray 4."}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


async def sent(stand: Stand, path: str, body: dict[str, Any], status: int = 200) -> tuple[bytes, Seen]:
    """The bytes that the client wrote, and what the server received."""
    raw = json.dumps({"model": SCRIPTED, **body}, indent=1).encode()
    await stand.ask(path, None, raw=raw, status=status)
    return raw, Seen(path, stand.scripted.asked(path)[-1].body)


def system(*texts: Any) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text} for text in texts]


IMAGE_PART = {"type": "image_url", "image_url": {"url": PIXEL}}
STRANGE_PART = {"type": "hologram", "text": "Now: 10:15", "depth": 1.50}

UNTOUCHED: dict[str, tuple[str, dict[str, Any]]] = {
    "no messages": (CHAT, {"messages": []}),
    "no user message": (CHAT, {"messages": system(CLOCK)}),
    "only an assistant": (CHAT, {"messages": [*system(CLOCK), {"role": "assistant", "content": "Yes"}]}),
    "an empty system text": (CHAT, {"messages": [*system(""), USER]}),
    "a system text of null": (CHAT, {"messages": [*system(None), USER]}),
    "a system text that is a number": (CHAT, {"messages": [*system(7), USER]}),
    "no parts": (CHAT, {"messages": [*system([]), USER]}),
    "parts of unknown types only": (CHAT, {"messages": [*system([STRANGE_PART]), USER]}),
    "a user message of an image only": (CHAT, {"messages": [*system(CLOCK), {"role": "user", "content": [IMAGE_PART]}]}),
    "a user message of null": (CHAT, {"messages": [*system(CLOCK), {"role": "user", "content": None}]}),
    "messages that are no objects": (CHAT, {"messages": ["hi", 7, None]}),
    "messages that are an object": (CHAT, {"messages": {"role": "user"}}),
    "a role that is a number": (CHAT, {"messages": [{"role": 1, "content": CLOCK}, USER]}),
    "nothing that moves": (CHAT, {"messages": [*system("You are Pelle."), USER]}),
    "a time typed by the user": (CHAT, {"messages": [*system("You are Pelle."), {"role": "user", "content": "Now: 10:15:07"}]}),
    "a system text in the middle": (CHAT, {"messages": [USER, *system(CLOCK), USER]}),
    "anthropic: empty system": (MESSAGES, {"max_tokens": 8, "system": "", "messages": [USER]}),
    "anthropic: no blocks": (MESSAGES, {"max_tokens": 8, "system": [], "messages": [USER]}),
    "anthropic: only a tool result": (
        MESSAGES,
        {
            "max_tokens": 8,
            "system": CLOCK,
            "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "12"}]}],
        },
    ),
    "responses: no input": (RESPONSES, {"instructions": CLOCK}),
    "responses: an input of null": (RESPONSES, {"instructions": CLOCK, "input": None}),
    "responses: items that are no objects": (RESPONSES, {"instructions": CLOCK, "input": ["hi"]}),
    "tools that are null": (CHAT, {"tools": None, "messages": [USER]}),
    "tools that are no objects": (CHAT, {"tools": ["look"], "messages": [USER]}),
    "a tool without a name": (CHAT, {"tools": [{"type": "function", "function": {}}], "messages": [USER]}),
}


@pytest.mark.parametrize("name", UNTOUCHED)
async def test_what_cannot_be_edited_goes_out_as_it_came(stand: Stand, name: str) -> None:
    path, body = UNTOUCHED[name]
    stand.scripted.on(path, *json_reply({"ok": True}))
    raw = json.dumps({"model": SCRIPTED, **body}, indent=1).encode()
    response = await stand.ask(path, None, raw=raw, status=0)
    assert response.status < 500
    if response.status == 200:
        assert stand.scripted.asked(path)[-1].body == raw
        assert response.header("X-Warmgate-Edits") == ""
    else:  # refused for what it is, as it would be without any rule
        off = await stand.ask(path, None, ("X-Warmgate-Mode", "off"), raw=raw, status=0)
        assert (off.status, response.header("X-Warmgate-Edits")) == (response.status, "")


TOLD: dict[str, tuple[str, dict[str, Any]]] = {
    "several system messages": (CHAT, {"messages": [*system("You are Pelle.", CLOCK, "", "Be brief."), USER]}),
    "a developer message": (CHAT, {"messages": [{"role": "developer", "content": CLOCK}, USER]}),
    "system and developer messages": (CHAT, {"messages": [*system("Hi."), {"role": "developer", "content": CLOCK}, USER]}),
    "system text in parts": (
        CHAT,
        {"messages": [*system([{"type": "text", "text": CLOCK}, {"type": "text", "text": "x"}]), USER]},
    ),
    "system parts of unknown types": (CHAT, {"messages": [*system([STRANGE_PART, {"type": "text", "text": CLOCK}]), USER]}),
    "an image before the text": (
        CHAT,
        {"messages": [*system(CLOCK), {"role": "user", "content": [IMAGE_PART, {"type": "text", "text": "What is it?"}]}]},
    ),
    "unknown parts in a user message": (
        CHAT,
        {"messages": [*system(CLOCK), {"role": "user", "content": [STRANGE_PART, {"type": "text", "text": "What is it?"}]}]},
    ),
    "an unknown role": (CHAT, {"messages": [*system(CLOCK), {"role": "narrator", "content": "Meanwhile."}, USER]}),
    "two user messages in a row": (CHAT, {"messages": [*system(CLOCK), USER, USER]}),
    "a context block that the user typed": (
        CHAT,
        {"messages": [*system(CLOCK), {"role": "user", "content": "<context>\nNow: 2001-01-01 00:00:00\n</context>\n\nWhat?"}]},
    ),
    "a context block in the system text": (
        CHAT,
        {"messages": [*system(f"<context>\nA\n</context>\n{CLOCK}"), USER]},
    ),
    "assistant prefill": (CHAT, {"messages": [*system(CLOCK), USER, {"role": "assistant", "content": "Tray 4 holds"}]}),
    "an empty user message": (CHAT, {"messages": [*system(CLOCK), {"role": "user", "content": ""}]}),
    "the middle of a tool loop": (
        CHAT,
        {
            "messages": [
                *system(CLOCK),
                USER,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "a", "content": "12 gears"},
            ]
        },
    ),
    "anthropic: prefill": (
        MESSAGES,
        {"max_tokens": 8, "system": CLOCK, "messages": [USER, {"role": "assistant", "content": "Tray"}]},
    ),
    "anthropic: an image": (
        MESSAGES,
        {
            "max_tokens": 8,
            "system": CLOCK,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                        {"type": "text", "text": "What is it?"},
                    ],
                }
            ],
        },
    ),
    "anthropic: the middle of a tool loop": (
        MESSAGES,
        {
            "max_tokens": 8,
            "system": [{"type": "text", "text": CLOCK}],
            "messages": [
                USER,
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "a", "content": "12"}, {"type": "text", "text": "x"}],
                },
            ],
        },
    ),
    "responses: a message without a type": (RESPONSES, {"instructions": CLOCK, "input": [USER]}),
    "responses: the middle of a tool loop": (
        RESPONSES,
        {
            "instructions": CLOCK,
            "input": [
                USER,
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "12"},
            ],
        },
    ),
    "responses: an item that is only referred to": (
        RESPONSES,
        {"instructions": CLOCK, "input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "And then?"}]},
    ),
}


@pytest.mark.parametrize("name", TOLD)
async def test_all_that_moves_is_told_and_the_rest_stays(stand: Stand, name: str) -> None:
    path, body = TOLD[name]
    raw, seen = await sent(stand, path, body)
    was = Seen(path, raw)
    assert "10:15:07" not in seen.system
    assert "Now: 2026-03-04 10:15:07" in seen.notes
    assert seen.raw.count(b"10:15:07") == raw.count(b"10:15:07") == 1
    before, after = was.messages(), seen.messages()
    noted = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    assert len(noted) == 1
    (role, texts, rest), (old_role, old_texts, old_rest) = after[noted[0]], before[noted[0]]
    assert (role, rest, texts[1:]) == (old_role, old_rest, old_texts[1:])
    assert role == "user"
    assert texts[0].endswith(old_texts[0])
    assert texts[0].startswith("<context>\nNow: 2026-03-04 10:15:07\n</context>\n\n")
    assert len(seen.prompt.system) == len(was.prompt.system)


async def test_a_typed_context_block_is_never_taken_for_a_note(stand: Stand) -> None:
    """Not when it is new, and not when it comes back as history."""
    typed = "<context>\nNow: 2001-01-01 00:00:00\n</context>\n\nWhat time is it?"
    talk: list[dict[str, Any]] = [*system(CLOCK), {"role": "user", "content": typed}]
    _, first = await sent(stand, CHAT, {"messages": talk})
    talk += [{"role": "assistant", "content": SAID}, {"role": "user", "content": "And now?"}]
    _, second = await sent(stand, CHAT, {"messages": talk})
    assert first.users[0].endswith(typed)
    assert first.users[0].count("<context>") == 2
    assert extends(first, second)


async def test_a_note_that_a_client_sends_back_is_the_users_text(stand: Stand) -> None:
    """A client that shows what went out and sends it again: the text stays, and the current values are told."""
    _, first = await sent(stand, CHAT, {"messages": [*system(CLOCK), USER]})
    echoed = {"role": "user", "content": first.users[0]}
    later = CLOCK.replace("10:15:07", "10:16:00")
    _, second = await sent(stand, CHAT, {"messages": [*system(later), echoed]})
    assert second.users[0].endswith(first.users[0])
    assert "10:16:00" in second.notes


async def test_a_conversation_first_seen_in_the_middle_of_a_loop_goes_on(stand: Stand) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk: list[dict[str, Any]] = [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    talk += [{"role": "tool", "tool_call_id": "a", "content": "12 gears"}]
    _, first = await sent(stand, CHAT, {"messages": [*system(CLOCK), *talk]})
    talk += [{"role": "assistant", "content": SAID}, {"role": "user", "content": "And tray 5?"}]
    _, second = await sent(stand, CHAT, {"messages": [*system(CLOCK.replace("10:15:07", "10:15:40")), *talk]})
    assert extends(first, second)
    assert "10:15:40" in second.users[-1]


async def test_a_system_text_above_a_mebibyte_is_left_alone(stand: Stand) -> None:
    before = await stand.gateway.metrics()
    line = "- Trays are counted from the left, and from the door.\n"
    raw, seen = await sent(stand, CHAT, {"messages": [*system(CLOCK + "\n" + line * 20_000), USER]})
    assert len(raw) > 1 << 20
    assert seen.raw == raw
    after = await stand.gateway.metrics()
    untouched = {"reason": "system_text_too_long"}
    assert after.value("warmgate_canonical_untouched_total", **untouched) == 1 + before.value(
        "warmgate_canonical_untouched_total", **untouched
    )
    _, seen = await sent(stand, CHAT, {"messages": [*system(CLOCK + "\n" + line * 18_000), USER]})
    assert "10:15:07" not in seen.system
    assert "10:15:07" in seen.notes


HEAD, SYSTEM = (
    b'{"model": "scripted", ',
    b'"messages": [{"role": "system", "content": "Now: 10:15:07"}, {"role": "user", "content": "hi"}]',
)
UNFAITHFUL: dict[str, bytes] = {
    "a key twice": HEAD + SYSTEM.replace(b'"hi"', b'"x", "content": "hi"') + b"}",
    "a lone surrogate": HEAD + SYSTEM.replace(b":07", b":07\\ud800") + b"}",
    "NaN": HEAD + b'"temperature": NaN, ' + SYSTEM + b"}",
    "a BOM": b"\xef\xbb\xbf" + HEAD + SYSTEM + b"}",
    "a key twice in a tool": HEAD + b'"messages": [], "tools": [{"function": {"name": "b", "name": "a"}}, {"function": {}}]}',
}


@pytest.mark.parametrize("name", UNFAITHFUL)
async def test_json_that_cannot_be_written_again_faithfully_goes_out_as_it_came(stand: Stand, name: str) -> None:
    stand.scripted.on(CHAT, *json_reply({"ok": True}))
    await stand.ask(CHAT, None, raw=UNFAITHFUL[name])
    assert stand.scripted.asked(CHAT)[-1].body == UNFAITHFUL[name]


async def test_counting_tokens_counts_what_would_be_sent(stand: Stand) -> None:
    path = f"{MESSAGES}/count_tokens"
    stand.scripted.on(path, *json_reply({"input_tokens": 7}))
    stand.scripted.on(MESSAGES, ordinary(Reply(text=SAID)))
    body = {"system": CLOCK, "messages": [USER]}
    _, counted = await sent(stand, path, body)
    assert "10:15:07" not in counted.system
    assert "10:15:07" in counted.notes
    _, first = await sent(stand, MESSAGES, {"max_tokens": 8, **body})
    assert (first.system, first.users) == (counted.system, counted.users)


async def test_counting_tokens_begins_no_turn(stand: Stand) -> None:
    """What was only counted was not sent, so nothing of it belongs to the history."""
    stand.scripted.on(f"{MESSAGES}/count_tokens", *json_reply({"input_tokens": 7}))
    await sent(stand, f"{MESSAGES}/count_tokens", {"system": CLOCK, "messages": [USER]})
    talk = [USER, {"role": "assistant", "content": SAID}, {"role": "user", "content": "And tray 5?"}]
    _, seen = await sent(stand, MESSAGES, {"max_tokens": 8, "system": CLOCK.replace("10:15:07", "10:15:30"), "messages": talk})
    assert b"10:15:07" not in seen.raw
    assert "10:15:30" in seen.users[-1]


@pytest.mark.parametrize("path", ["/v1/chat/completions/input_tokens", "/v1/responses/input_tokens"])
async def test_other_counters_are_served(stand: Stand, path: str) -> None:
    stand.scripted.on(path, *json_reply({"input_tokens": 7}))
    await sent(stand, path, {"messages": [*system(CLOCK), USER], "input": "hi"})
