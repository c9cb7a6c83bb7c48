"""Side requests by their shape, and sessions."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.prompt_read import read
from gateway.prefix import shape
from gateway.prefix.chain import build

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {}}}]
TASK = "### Task:\nName this talk in four words."


def kind(*messages: tuple[str, str], main_head: int = 0, **more: Any) -> str:
    body = {"model": "m", "messages": [{"role": role, "content": text} for role, text in messages], **more}
    prompt = read(CHAT, body)
    assert prompt is not None
    return shape.kind(prompt, body, lambda: main_head)


@pytest.mark.parametrize(
    ("messages", "head", "more"),
    [
        ([("user", TASK)], 0, {"max_tokens": 30}),
        ([("user", TASK)], 5000, {}),
        ([("system", "You write titles for talks."), ("user", "How are gears made?")], 5000, {}),
        ([("system", "Extract the lasting memories from this talk."), ("user", "A long talk. " * 3000)], 5000, {}),
        ([("user", "Summarize the conversation so far.")], 5000, {"max_tokens": 400}),
        ([("user", "Gears, made of what?")], 5000, {"max_tokens": 100}),
    ],
)
def test_side(messages: list[tuple[str, str]], head: int, more: dict[str, Any]) -> None:
    assert kind(*messages, main_head=head, **more) == "side"


@pytest.mark.parametrize(
    ("messages", "head", "more"),
    [
        ([("user", "Give this report a title.")], 0, {}),
        ([("user", TASK)], 5000, {"tools": TOOLS}),
        ([("user", TASK)], 5000, {"max_tokens": 32_000}),
        ([("system", "You are Pelle."), ("user", "Hi")], 5000, {}),
        ([("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", TASK)], 5000, {}),
    ],
)
def test_main(messages: list[tuple[str, str]], head: int, more: dict[str, Any]) -> None:
    assert kind(*messages, main_head=head, **more) == "main"


def session(headers: dict[str, str], system: str = "S", first: str = "Hi", **more: Any) -> str:
    body = {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": first}], **more}
    prompt = read(CHAT, body)
    assert prompt is not None
    return shape.session(b"secret", shape.named_session(headers, body), build(b"secret", prompt, "m"))


@pytest.mark.parametrize("header", shape.SESSION_HEADERS)
def test_a_session_is_what_the_client_calls_it_and_what_its_prompts_begin_with(header: str) -> None:
    assert session({header: "one"}) == session({header: "one"}, first="Hello")
    assert session({header: "one"}) != session({header: "two"})
    assert session({header: "one"}) != session({header: "one"}, system="Titles")


def test_fields_that_name_a_session_and_the_first_message_where_none_does() -> None:
    assert session({}, prompt_cache_key="k", first="a") == session({}, prompt_cache_key="k", first="b")
    assert session({}, metadata={"user_id": "u"}, first="a") == session({}, metadata={"user_id": "u"}, first="b")
    assert session({}, first="a") != session({}, first="b")
    assert session({}) == session({})
