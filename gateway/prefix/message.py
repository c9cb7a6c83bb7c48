"""What one message says, in a form in which equal messages are equal: texts and JSON, not yet hashed. Pure.

Left out, because clients change it between turns: cache markers, reasoning, ids of tool calls, the spelling of a content as
string or parts. `gateway.canonical.digests.said` leaves out the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.canonical.digests import calls, encode, others, plain, visible
from gateway.dialects.prompt import Message

IMAGE = 2000
"""Characters that stand for an image, whose tokens do not depend on the length of its data."""


@dataclass(frozen=True, slots=True)
class Said:
    """texts: in order; data: JSON of all else; size: characters of what a template renders of it, about; reply: it is the
    model's own, whose text clients trim, so that it is known as a whole or not at all."""

    texts: tuple[str, ...]
    data: tuple[bytes, ...]
    size: int
    reply: bool


def said(message: Message) -> Said:
    data = message.data
    texts = [text.text for text in message.texts]
    if message.role == "assistant" or data.get("type") == "function_call":
        called = [part for name, arguments in calls(data) for part in (encode(name), plain(arguments))]
        size = sum(map(len, texts)) + _besides(data)
        return Said(() if called else (visible("\x00".join(texts)),), tuple(called), size, reply=True)
    results = list(_results(data))
    size = sum(map(len, texts)) + sum(map(len, results)) + _besides(data)
    return Said((*texts, *results), tuple(_others(data)), size, reply=False)


def _others(data: Any) -> Iterator[bytes]:
    """What a message carries besides texts, without the texts of tool results."""
    if not isinstance(data.get("content"), list) and not isinstance(data.get("output"), str):
        yield from others(data)
        return
    content = data.get("content")
    bare = [_bare(part) for part in content] if isinstance(content, list) else content
    yield from others({**data, "content": bare, "output": None if isinstance(data.get("output"), str) else data.get("output")})


def _bare(part: Any) -> Any:
    """A part of a content; of a tool result all but its texts, with how many of those there are."""
    if not _is_result(part):
        return part
    inner = part.get("content")
    if isinstance(inner, str):
        return {**part, "content": ["text"]}
    kept = ["text" if _is_text(one) else one for one in inner] if isinstance(inner, list) else inner
    return {**part, "content": kept}


def _results(data: Any) -> Iterator[str]:
    """The texts of the results of tools."""
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        if _is_result(part):
            inner = part.get("content")
            if isinstance(inner, str):
                yield inner
            for one in inner if isinstance(inner, list) else ():
                if _is_text(one):
                    yield one["text"]
    if isinstance(data.get("output"), str):
        yield data["output"]


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and "tool_result" in str(part.get("type", ""))


def _is_text(part: Any) -> bool:
    """Whether a part is a text and nothing else but its cache marker."""
    return isinstance(part, dict) and isinstance(part.get("text"), str) and part.keys() <= {"type", "text", "cache_control"}


def _besides(data: Any) -> int:
    """Characters of what a template renders of a message besides its texts, about."""
    size, content = 0, data.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and "image" in str(part.get("type", "")):
            size += IMAGE
        elif isinstance(part, dict) and part.get("type") == "tool_use":
            size += len(str(part.get("name"))) + len(dump(part.get("input")))
    size += IMAGE * len(data["images"]) if isinstance(data.get("images"), list) else 0
    for call in _called(data):
        arguments = call.get("arguments")
        size += len(str(call.get("name"))) + (len(arguments) if isinstance(arguments, str) else len(dump(arguments)))
    return size


def _called(data: Any) -> Iterator[Any]:
    if data.get("type") == "function_call":
        yield data
    for call in data.get("tool_calls") or ():
        inner = call.get("function") if isinstance(call, dict) else None
        if isinstance(inner, dict):
            yield inner


def dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return encode(repr(value))
