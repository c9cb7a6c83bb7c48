"""Who a prompt is: one digest for each message, and inside long texts one for each KiB, each over all that comes before it.
Pure.

    root (model, parameters) -> tools and system text, in the order of the template -> message 1 -> message 2 ...

Two prompts have a node in common exactly if a server may reuse what it computed up to there. Only digests and lengths are
kept. What `gateway.canonical.digests` leaves out of a message is left out here: cache markers, reasoning, ids of tool calls,
string or parts. Sizes are characters, because tokens are known only when the reply tells; see `gateway.state.rates`.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from gateway.canonical.digests import SIZE, digest, encode, is_reasoning, said
from gateway.dialects.prompt import Message, Prompt

STEP = 1024
"""Characters between two digests inside a text; a text that is no longer has none."""

LONG_STEP, LONG = 4096, 1 << 20
"""The same for texts above a million characters."""

MESSAGE = 20
"""Characters that stand for what a template writes around a message: about five tokens."""

IMAGE = 2000
"""Characters that stand for an image, whose tokens do not depend on the length of its data."""

Kind = Literal["tools", "system", "message"]


@dataclass(frozen=True, slots=True)
class Part:
    """Tools, one system text or one message. first, end: its nodes; start, size: in characters; own: digest of it alone."""

    kind: Kind
    first: int
    end: int
    start: int
    size: int
    own: bytes
    number: int = 0  # of the system text or message
    reply: bool = False  # the model's own message


@dataclass(frozen=True, slots=True)
class Chain:
    """digests: of the nodes; sizes: characters of the prompt up to and including each; head: nodes before the first message;
    tools_first: the order in which tools and system text were taken."""

    root: bytes
    digests: tuple[bytes, ...]
    sizes: tuple[int, ...]
    parts: tuple[Part, ...]
    head: int
    tools_first: bool

    @property
    def size(self) -> int:
        return self.sizes[-1] if self.sizes else 0

    @property
    def messages(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind == "message")

    @property
    def start(self) -> bytes:
        """The digest of all that comes before the first message."""
        return self.digests[self.head - 1] if self.head else self.root

    def size_at(self, nodes: int) -> int:
        """Characters of the first `nodes` nodes."""
        return self.sizes[nodes - 1] if nodes else 0

    def part_at(self, node: int) -> Part | None:
        """The part to which a node belongs; None behind the last one."""
        at = bisect_right([part.first for part in self.parts], node) - 1
        return self.parts[at] if at >= 0 and node < self.parts[at].end else None


def common(one: Chain, other: Chain) -> int:
    """How many nodes two chains have in common: as they are chained, the first that differs is found by halves."""
    if one.root != other.root or one.tools_first != other.tools_first:
        return 0
    low, high = 0, min(len(one.digests), len(other.digests))
    while low < high:
        middle = (low + high + 1) // 2
        if one.digests[middle - 1] == other.digests[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


def build(secret: bytes, prompt: Prompt, model: str, tools: bytes | None = None, *, tools_first: bool = False) -> Chain:
    """The chain of a prompt. secret: keys its digests; model: the name under which prompts share a cache; tools: JSON of the
    list as it is sent, if that is not the one of `prompt`; tools_first: the template renders the tools before the system text.
    """
    root = digest(secret, encode(model), _dump(dict(prompt.parameters)))
    links = _Links(secret, root)
    listed = tools_text(prompt, tools)
    if listed and tools_first:
        links.text("tools", listed)
    for number, text in enumerate(prompt.system):
        links.text("system", text.text, number)
    if listed and not tools_first:
        links.text("tools", listed)
    head = len(links.digests)
    for number, message in enumerate(prompt.messages):
        links.message(message, number)
    return Chain(root, tuple(links.digests), tuple(links.sizes), tuple(links.parts), head, tools_first)


def tools_text(prompt: Prompt, tools: bytes | None = None) -> str:
    """The list of tools as JSON without white space, "" if there is none."""
    if prompt.tools is None:
        return ""
    return _dump(orjson.loads(tools) if tools is not None else prompt.tools[1]).decode("utf-8", "replace")


class _Links:
    """A chain in the making."""

    def __init__(self, secret: bytes, root: bytes) -> None:
        self._secret = secret
        self._state = hashlib.blake2b(root, key=secret[:64], digest_size=SIZE)
        self._size = 0
        self.digests: list[bytes] = []
        self.sizes: list[int] = []
        self.parts: list[Part] = []

    def text(self, kind: Kind, text: str, number: int = 0) -> None:
        first, start = len(self.digests), self._size
        self._state.update(b"\x00" + kind.encode())
        self._pieces(text)
        own = digest(self._secret, encode(text))
        self._close(own, start + len(text) + (MESSAGE if kind == "system" else 0))
        self.parts.append(Part(kind, first, len(self.digests), start, self._size - start, own, number))

    def message(self, message: Message, number: int) -> None:
        """Reasoning that stands alone is part of no prompt but the next, so it has no node of its own."""
        if is_reasoning(message):
            return
        first, start, own = len(self.digests), self._size, own_digest(self._secret, message)
        texts = list(_texts(message))
        size = start + MESSAGE + sum(map(len, texts)) + _besides(message.data)
        long = [text for text in texts if len(text) > STEP]
        if long and message.role != "assistant":
            self._state.update(b"\x00message" + message.role.encode())
            for text in long:
                self._pieces(text)
        self._close(own, size)
        reply = message.role == "assistant" or message.data.get("type") == "function_call"
        self.parts.append(Part("message", first, len(self.digests), start, self._size - start, own, number, reply))

    def _pieces(self, text: str) -> None:
        """A node after each full step inside a long text, none at its end."""
        step = STEP if len(text) <= LONG else LONG_STEP
        update, copy, start = self._state.update, self._state.copy, self._size
        for end in range(step, len(text), step):
            update(encode(text[end - step : end]))
            self.digests.append(copy().digest())
            self.sizes.append(start + end)
            self._size = start + end

    def _close(self, own: bytes, size: int) -> None:
        """The last node of a part: everything in it is known."""
        self._size = max(size, self._size)
        self._state.update(b"\x01" + own)
        self.digests.append(self._state.copy().digest())
        self.sizes.append(self._size)


def own_digest(secret: bytes, message: Message) -> bytes:
    """What `said` gives, at a third of its cost for the commonest message of all: an answer that is nothing but text."""
    if message.role == "assistant" and len(message.texts) == 1 and "tool_calls" not in message.data:
        text = message.texts[0].text
        if "<think" not in text and isinstance(message.data.get("content"), str):
            return digest(secret, b"assistant", encode(text.strip()), b"|")
    return said(secret, message)


def _texts(message: Message) -> Iterator[str]:
    """The texts of a message, the results of tools among them."""
    for text in message.texts:
        yield text.text
    data = message.data
    content = data.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and "tool_result" in str(part.get("type", "")):
            yield from _strings(part.get("content"))
    if isinstance(data.get("output"), str):
        yield data["output"]


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _besides(data: Any) -> int:
    """Characters of what a template renders of a message besides its texts, about."""
    size, content = 0, data.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and "image" in str(part.get("type", "")):
            size += IMAGE
        elif isinstance(part, dict) and part.get("type") == "tool_use":
            size += len(str(part.get("name"))) + len(_dump(part.get("input")))
    size += IMAGE * len(data["images"]) if isinstance(data.get("images"), list) else 0
    for call in _calls(data):
        arguments = call.get("arguments")
        size += len(str(call.get("name"))) + (len(arguments) if isinstance(arguments, str) else len(_dump(arguments)))
    return size


def _calls(data: Any) -> Iterator[Any]:
    if data.get("type") == "function_call":
        yield data
    for call in data.get("tool_calls") or ():
        inner = call.get("function") if isinstance(call, dict) else None
        if isinstance(inner, dict):
            yield inner


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return encode(repr(value))


def slid(before: Sequence[Part], after: Sequence[Part], shared: int) -> int:
    """How many messages have slid out: behind the first `shared` messages, those of `after` go on as those of `before` do from
    so many further on. 0 if they do not.
    """
    old, new = [part.own for part in before[shared:]], [part.own for part in after[shared:]]
    for gone in range(1, len(old)):
        rest = old[gone:]
        if new[: len(rest)] == rest:
            return gone
    return 0
