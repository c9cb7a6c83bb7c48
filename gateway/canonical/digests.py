"""Who a conversation is: digests over what its messages say, not over how a client spells them. Pure.

Left out, because clients change it between turns: the spelling of a content as string or parts, cache markers, reasoning,
ids of tool calls, and the spelling of a tool call's arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from gateway.canonical import patterns
from gateway.dialects.prompt import Message
from gateway.values import Client

SIZE = 16
_THINKING = patterns.compile(r"(?s)^\s*<think(?:ing)?>.*?</think(?:ing)?>")
_NOT_SAID = frozenset({"thinking", "redacted_thinking", "reasoning", "summary_text"})


def digest(secret: bytes, *parts: bytes) -> bytes:
    """A keyed digest of `parts`, unambiguous about where each ends."""
    state = hashlib.blake2b(key=secret[:64], digest_size=SIZE)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def checks(secret: bytes, lines: Iterable[bytes]) -> list[int]:
    """A keyed checksum of 32 bits for each line: enough to tell the lines of a route apart, and no help to whoever guesses at
    what they say."""
    keyed, found = hashlib.blake2b(key=secret[:64], digest_size=4), []
    seen: dict[bytes, int] = {}  # a quarter of the lines of a prompt are blank, and others recur too
    for line in lines:
        check = seen.get(line)
        if check is None:
            state = keyed.copy()
            state.update(line)
            check = seen[line] = int.from_bytes(state.digest(), "big")
        found.append(check)
    return found


def client(who: Client) -> bytes:
    """A client's identity: key, address and user agent."""
    return b"\x00".join(encode(part) for part in (who.key, who.address, who.agent))


def chain(secret: bytes, root: bytes, spoken: Iterable[bytes]) -> Iterator[bytes]:
    """For each message, the digest of the conversation from its root up to and including that message. spoken: what `said`
    gives for each, b"" for one of reasoning."""
    state = hashlib.blake2b(root, key=secret[:64], digest_size=SIZE)
    for one in spoken:
        state.update(one)
        yield state.copy().digest()


def is_reasoning(message: Message) -> bool:
    """Whether a message is nothing but reasoning: an item of its own in the Responses API, which clients keep for a while."""
    return bool(message.data.get("type") == "reasoning")


def said(secret: bytes, message: Message) -> bytes:
    """The digest of one message. An assistant's message equals `reply` of the same text and calls."""
    data = message.data
    if message.role == "assistant" or data.get("type") == "function_call":
        return reply(secret, "\x00".join(text.text for text in message.texts), list(calls(data)))
    parts = [message.role.encode(), *(encode(text.text) for text in message.texts), b"|", *others(data)]
    return digest(secret, *parts)


def reply(secret: bytes, text: str, calls: Iterable[tuple[str, Any]] = ()) -> bytes:
    """The digest of a model's answer: its visible text and its tool calls as (name, arguments as JSON text or as a value).

    Text around tool calls is ignored: clients often drop it.
    """
    called = [part for name, arguments in calls for part in (encode(name), plain(arguments))]
    spoken = [] if called else [encode(visible(text))]
    return digest(secret, b"assistant", *spoken, b"|", *called)


def visible(text: str) -> str:
    """A model's answer without the reasoning that stands before it and white space around it."""
    return (_THINKING.sub("", text) if "<think" in text else text).strip()


def encode(text: str) -> bytes:
    """UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def calls(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The tool calls in a message as (name, arguments as JSON text or as a value)."""
    if data.get("type") == "function_call":
        yield str(data.get("name")), data.get("arguments")
    for call in data.get("tool_calls") or ():
        inner = call.get("function") if isinstance(call, dict) else None
        if isinstance(inner, dict):
            yield str(inner.get("name")), inner.get("arguments")
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield str(part.get("name")), part.get("input")


def others(data: Mapping[str, Any]) -> Iterator[bytes]:
    """What a message carries besides texts, as JSON: results, images, parts of unknown types."""
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in ("text", "input_text", "output_text") and kind not in _NOT_SAID:
            yield _dump(
                {key: value for key, value in part.items() if key != "cache_control"} if isinstance(part, dict) else part
            )
    for key in ("images", "output", "name", "tool_name"):
        if data.get(key):
            yield _dump(data[key])


def plain(arguments: Any) -> bytes:
    """Arguments of a call in one spelling."""
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return encode(arguments)
    return _dump(arguments)


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return encode(repr(value))
