"""How the model's own messages are spelled: what a chain leaves out of them, but what a template may render. Pure.

A client that drops the reasoning of earlier turns, or writes the arguments of a call in another way, sends the same
conversation, and yet a server may find other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.dialects.prompt import Message
from gateway.prefix.message import dump
from gateway.prefix.nodes import Word

_FIELDS = ("reasoning", "reasoning_content", "thinking", "reasoning_details")
_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "summary_text", "tool_use"})


def spelling(message: Message, thought: Sequence[Word]) -> int:
    """A hash, in this process, of how a message is spelled; 0 if it is not the model's. thought: reasoning that stood alone
    before it."""
    own = message.role == "assistant" or "arguments" in message.data
    words = (*thought, *(_of(message) if own else ()))
    return hash(words) if words else 0


def reasoning(message: Message) -> bytes:
    """What a message of nothing but reasoning says."""
    return dump(message.data.get("content") or message.data.get("summary"))


def _of(message: Message) -> Iterator[Word]:
    data = message.data
    for text in message.texts:
        yield text.text
    for name in _FIELDS:
        if data.get(name):
            yield dump(data[name])
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in _PARTS:
            yield dump({key: value for key, value in part.items() if key not in ("cache_control", "id", "signature")})
    for call in data.get("tool_calls") or ():
        inner = call.get("function") if isinstance(call, dict) else None
        if isinstance(inner, dict):
            yield dump(inner.get("arguments"))
    if "arguments" in data:
        yield dump(data["arguments"])
