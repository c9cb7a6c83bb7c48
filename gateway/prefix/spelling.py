"""How the model's own messages are spelled: what a chain leaves out of them, but what a template may render. Pure.

A client that drops the reasoning of earlier turns, or writes the arguments of a call in another way, sends the same
conversation, and yet a server may find other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from gateway.canonical.digests import digest, encode, is_reasoning
from gateway.dialects.prompt import Message, Prompt

_FIELDS = ("reasoning", "reasoning_content", "thinking", "reasoning_details")
_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "summary_text", "tool_use"})


def spelled(secret: bytes, prompt: Prompt) -> tuple[bytes, ...]:
    """For each message that has a part in the chain a digest of its spelling, b"" for those that are not the model's."""
    return tuple(_spelled(secret, prompt))


def _spelled(secret: bytes, prompt: Prompt) -> Iterator[bytes]:
    before: list[bytes] = []
    for message in prompt.messages:
        if is_reasoning(message):
            before.append(_dump(message.data.get("content") or message.data.get("summary")))
            continue
        said = [*before, *_of(message)] if message.role == "assistant" or "arguments" in message.data else before
        yield digest(secret, *said) if said else b""
        before = []


def _of(message: Message) -> Iterator[bytes]:
    data = message.data
    for text in message.texts:
        yield encode(text.text)
    for name in _FIELDS:
        if data.get(name):
            yield _dump(data[name])
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in _PARTS:
            yield _dump({key: value for key, value in part.items() if key not in ("cache_control", "id", "signature")})
    for call in data.get("tool_calls") or ():
        inner = call.get("function") if isinstance(call, dict) else None
        if isinstance(inner, dict):
            yield _dump(inner.get("arguments"))
    if "arguments" in data:
        yield _dump(data["arguments"])


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return encode(repr(value))
