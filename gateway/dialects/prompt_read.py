"""Parsed body -> Prompt, one reader for each API, in one table by path. Pure.

Only the system texts that come *before* the first other message are system text; one in the middle is part of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from gateway.dialects.prompt import Message, Prompt, Role, Text
from gateway.dialects.prompt_ranges import Path

SYSTEM = frozenset({"system", "developer"})
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}
TEXTS = frozenset({"text", "input_text", "output_text"})
"""Types of the content parts that are text, in all APIs."""

PARAMETERS = ("chat_template_kwargs", "reasoning_effort", "reasoning", "thinking", "think", "lora", "tool_choice", "context",
              "previous_response_id", "template")  # fmt: skip
"""Fields that can change how a server renders the prompt, or what it puts in front of it."""


def read(path: str, body: Mapping[str, Any]) -> Prompt | None:
    """The prompt in a body for `path` (without query), or None if there is no structure to work on. Never raises."""
    path = path.removesuffix("/input_tokens").removesuffix("/count_tokens")  # what is counted is the same conversation
    reader = READERS.get(path)
    return reader(path, body) if reader else None


def _chat(path: str, body: Mapping[str, Any]) -> Prompt | None:
    items = body.get("messages")
    if not _are_messages(items):
        return None
    system, start = _leading_system(("messages",), items)
    return _prompt(path, body, system, _messages(("messages",), items, start))


def _anthropic(path: str, body: Mapping[str, Any]) -> Prompt | None:
    items = body.get("messages")
    if not _are_messages(items):
        return None
    return _prompt(path, body, _texts(("system",), body.get("system")), _messages(("messages",), items, 0))


def _responses(path: str, body: Mapping[str, Any]) -> Prompt | None:
    instructions, given = _texts(("instructions",), body.get("instructions")), body.get("input")
    if isinstance(given, str):
        message = Message("user", (Text(("input",), given),), {"role": "user", "content": given}, notable=True)
        return _prompt(path, body, instructions, (message,))
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        return None
    system, start = _leading_system(("input",), given)
    return _prompt(path, body, instructions + system, _messages(("input",), given, start))


def _generate(path: str, body: Mapping[str, Any]) -> Prompt | None:
    prompt = body.get("prompt")
    if body.get("raw") or body.get("suffix") or not isinstance(prompt, str) or not prompt:
        return None
    data = {"role": "user", "content": prompt, "images": body.get("images") or []}
    message = Message("user", (Text(("prompt",), prompt),), data, notable=True)
    return _prompt(path, body, _texts(("system",), body.get("system")), (message,))


Reader = Callable[[str, Mapping[str, Any]], Prompt | None]
READERS: dict[str, Reader] = {
    "/v1/chat/completions": _chat,
    "/chat/completions": _chat,
    "/api/v0/chat/completions": _chat,
    "/api/chat": _chat,
    "/v1/responses": _responses,
    "/responses": _responses,
    "/v1/messages": _anthropic,
    "/api/generate": _generate,
}


def _prompt(path: str, body: Mapping[str, Any], system: tuple[Text, ...], messages: tuple[Message, ...]) -> Prompt:
    tools, model = body.get("tools"), body.get("model")
    return Prompt(
        path=path,
        model=model if isinstance(model, str) else "",
        system=system,
        messages=messages,
        tools=(("tools",), tools) if isinstance(tools, list) and tools else None,
        parameters={name: body[name] for name in PARAMETERS if name in body},
    )


def _are_messages(items: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(items, list) and all(isinstance(item, dict) and isinstance(item.get("role"), str) for item in items)


def _leading_system(path: Path, items: list[dict[str, Any]]) -> tuple[tuple[Text, ...], int]:
    """The texts of the system messages that come first, and the index of the message after them."""
    texts: tuple[Text, ...] = ()
    for at, item in enumerate(items):
        if item.get("role") not in SYSTEM:
            return texts, at
        texts += _texts((*path, at, "content"), item.get("content"))
    return texts, len(items)


def _messages(path: Path, items: list[dict[str, Any]], start: int) -> tuple[Message, ...]:
    return tuple(_message((*path, at), items[at]) for at in range(start, len(items)))


def _message(path: Path, item: dict[str, Any]) -> Message:
    role = ROLES.get(item.get("role", ""), "other")
    content = item.get("content")
    texts = _texts((*path, "content"), content)
    if role == "user" and isinstance(content, list) and any(_is_tool_result(part) for part in content):
        role = "tool"
    return Message(role, texts, item, notable=role == "user" and bool(texts))


def _texts(path: Path, content: Any) -> tuple[Text, ...]:
    """The texts of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return (Text(path, content),)
    if not isinstance(content, list):
        return ()
    return tuple(Text((*path, at, "text"), part["text"]) for at, part in enumerate(content) if _is_text(part))


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in TEXTS and isinstance(part.get("text"), str)


def _is_tool_result(part: Any) -> bool:
    return isinstance(part, dict) and "tool_result" in str(part.get("type", ""))
