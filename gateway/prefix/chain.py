"""Who a prompt is: one digest for each message, and inside long texts one for each step, each over all that comes before it.
Pure.

    root (model, parameters) -> tools and system text, in the order of the template -> message 1 -> message 2 ...

Two prompts have a node in common exactly if a server may reuse what it computed up to there. Only digests and lengths are
kept. What `gateway.prefix.message` leaves out of a message is left out here: cache markers, reasoning, ids of tool calls,
string or parts. Sizes are characters, because tokens are known only when the reply tells; see `gateway.state.rates`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from gateway.canonical.digests import is_reasoning, visible
from gateway.dialects.prompt import Message, Prompt
from gateway.prefix.message import Said, dump, said
from gateway.prefix.nodes import Nodes, Word
from gateway.prefix.spelling import reasoning, spelling

STEP = 1024
"""Characters between two digests inside a text; a text that is no longer has none."""

LONG_STEP, LONG = 4096, 1 << 16
"""The same behind the first `LONG` characters of a text."""

MESSAGE = 20
"""Characters that stand for what a template writes around a message: about five tokens."""

END = b"\x01"
"""Marks the last node of a part: everything in it is known."""

Kind = Literal["tools", "system", "message"]


@dataclass(frozen=True, slots=True)
class Part:
    """Tools, one system text or one message. first, end: its nodes; start, size: in characters; own: hash of it alone, which
    tells parts apart in this process."""

    kind: Kind
    first: int
    end: int
    start: int
    size: int
    own: int
    number: int = 0  # of the system text or message
    reply: bool = False  # the model's own message


@dataclass(frozen=True, slots=True)
class Chain:
    """digests: of the nodes; sizes: characters of the prompt up to and including each; tools_first: the order in which tools
    and system text were taken.

    By part: ends: nodes up to and including it; owns: hash of it alone; numbers: of the system text or message; spelled: hash
    of how the model's own message is spelled, 0 for others; replies: 1 for the model's own messages. kinds: of the parts before
    the first message.
    """

    root: bytes
    digests: tuple[bytes, ...]
    sizes: tuple[int, ...]
    tools_first: bool
    kinds: tuple[Kind, ...]
    ends: tuple[int, ...]
    owns: tuple[int, ...]
    numbers: tuple[int, ...]
    spelled: tuple[int, ...]
    replies: bytes

    @property
    def size(self) -> int:
        return self.sizes[-1] if self.sizes else 0

    @property
    def head(self) -> int:
        """Nodes before the first message."""
        return self.ends[len(self.kinds) - 1] if self.kinds else 0

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(map(self._part, range(len(self.ends))))

    @property
    def messages(self) -> tuple[Part, ...]:
        return tuple(map(self._part, range(len(self.kinds), len(self.ends))))

    @property
    def said(self) -> tuple[int, ...]:
        """Hashes of the messages alone."""
        return self.owns[len(self.kinds) :]

    def spelling(self, messages: int) -> tuple[int, ...]:
        """How the first so many messages are spelled."""
        return self.spelled[len(self.kinds) : len(self.kinds) + messages]

    @property
    def start(self) -> bytes:
        """The digest of all that comes before the first message."""
        return self.digests[self.head - 1] if self.head else self.root

    def size_at(self, nodes: int) -> int:
        """Characters of the first `nodes` nodes."""
        return self.sizes[nodes - 1] if nodes else 0

    def part_at(self, node: int) -> Part | None:
        """The part to which a node belongs; None behind the last one."""
        at = bisect_right(self.ends, node)
        return self._part(at) if at < len(self.ends) else None

    def whole_messages(self, nodes: int) -> int:
        """How many messages end within the first `nodes` nodes."""
        return max(0, bisect_right(self.ends, nodes) - len(self.kinds))

    def _part(self, at: int) -> Part:
        first, end = self.ends[at - 1] if at else 0, self.ends[at]
        start = self.size_at(first)
        kind = self.kinds[at] if at < len(self.kinds) else "message"
        size = self.size_at(end) - start
        return Part(kind, first, end, start, size, self.owns[at], self.numbers[at], bool(self.replies[at]))


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


def build(
    secret: bytes,
    prompt: Prompt,
    model: str,
    tools: str | None = None,
    *,
    tools_first: bool = False,
    nodes: Nodes | None = None,
) -> Chain:
    """The chain of a prompt. secret: keys its digests; model: the name under which prompts share a cache; tools: JSON of the
    list as it is sent, if that is not the one of `prompt`; tools_first: the template renders the tools before the system text;
    nodes: those that were made before, with the same secret.
    """
    nodes = nodes or Nodes(secret)
    root = nodes.after(b"", (model, dump(dict(prompt.parameters))))
    links = _Links(nodes, root)
    listed = tools_text(prompt) if tools is None else tools
    if listed and tools_first:
        links.text("tools", listed)
    for number, text in enumerate(prompt.system):
        links.text("system", text.text, number)
    if listed and not tools_first:
        links.text("tools", listed)
    links.messages(prompt.messages)
    return links.chain(root, tools_first)


def tools_text(prompt: Prompt, tools: bytes | None = None) -> str:
    """The list of tools as JSON without white space, "" if there is none."""
    if prompt.tools is None:
        return ""
    return dump(orjson.loads(tools) if tools is not None else prompt.tools[1]).decode("utf-8", "replace")


class _Links:
    """A chain in the making. Lists by node and by part, because a value for each part costs more than its digest."""

    def __init__(self, nodes: Nodes, root: bytes) -> None:
        self._nodes, self._last, self._size = nodes, root, 0
        self._digests: list[bytes] = []
        self._sizes: list[int] = []
        self._kinds: list[Kind] = []
        self._ends: list[int] = []
        self._owns: list[int] = []
        self._numbers: list[int] = []
        self._spelled: list[int] = []
        self._replies = bytearray()

    def chain(self, root: bytes, tools_first: bool) -> Chain:
        return Chain(
            root, tuple(self._digests), tuple(self._sizes), tools_first, tuple(self._kinds), tuple(self._ends),
            tuple(self._owns), tuple(self._numbers), tuple(self._spelled), bytes(self._replies),
        )  # fmt: skip

    def text(self, kind: Kind, text: str, number: int = 0) -> None:
        size = len(text) + (MESSAGE if kind == "system" else 0)
        self._kinds.append(kind)
        self._part(kind, Said((text,), (), size, reply=False), number, 0)

    def messages(self, messages: Sequence[Message]) -> None:
        """Reasoning that stands alone is part of no prompt but the next, so it has no node of its own."""
        thought: list[Word] = []
        for number, message in enumerate(messages):
            text, reply = _plain(message), message.role == "assistant"
            if text is not None and not thought and (reply or len(text) <= STEP):
                self._whole(message.role, text, number, reply)
            elif text is not None and not thought:
                self._part(message.role, Said((text,), (), len(text) + MESSAGE, reply=False), number, 0)
            elif is_reasoning(message):
                thought.append(reasoning(message))
            else:
                one = said(message)
                one = Said(one.texts, one.data, one.size + MESSAGE, one.reply)
                self._part(message.role, one, number, spelling(message, thought))
                thought = []

    def _whole(self, role: str, text: str, number: int, reply: bool) -> None:
        """What `_part` does, for the commonest messages of all: a text that has no node inside it, and nothing else."""
        words = (role, visible(text) if reply else text, END)
        self._last = digest = self._nodes.after(self._last, words)
        self._size += len(text) + MESSAGE
        self._digests.append(digest)
        self._sizes.append(self._size)
        self._close(hash(words), number, hash((text,)) if reply else 0, reply)

    def _part(self, head: str, one: Said, number: int, spelled: int) -> None:
        """A node after each full step inside a long text, and one at the end."""
        heard: list[Word] = [head]  # all of the part
        pending: list[Word] = [head]  # what comes behind its last node
        start = at = self._size
        for text in one.texts:
            if len(text) > STEP and not one.reply:
                steps = _steps(len(text))
                pieces = [text[begin:end] for begin, end in zip((0, *steps), steps, strict=False)]
                self._follow([(*pending, pieces[0]), *[(piece,) for piece in pieces[1:]]], [at + end for end in steps])
                heard += pieces
                pending, rest = [], text[steps[-1] :]
            else:
                rest = text
            pending.append(rest)
            heard.append(rest)
            at += len(text)
        heard += (*one.data, END)
        self._follow([(*pending, *one.data, END)], [max(self._size, at, start + one.size)])
        self._close(hash(tuple(heard)), number, spelled, one.reply)

    def _follow(self, words: list[tuple[Word, ...]], sizes: list[int]) -> None:
        made = self._nodes.follow(self._last, words)
        self._last, self._size = made[-1], sizes[-1]
        self._digests += made
        self._sizes += sizes

    def _close(self, own: int, number: int, spelled: int, reply: bool) -> None:
        self._ends.append(len(self._digests))
        self._owns.append(own)
        self._numbers.append(number)
        self._spelled.append(spelled)
        self._replies.append(reply)


def step_at(offset: int) -> int:
    """Characters from a place in a text to the next node, at most."""
    return STEP if offset < LONG else LONG_STEP


def _steps(size: int) -> list[int]:
    """Where in a text of so many characters nodes are: not at its end."""
    return [*range(STEP, min(size, LONG), STEP), *range(LONG, size, LONG_STEP)]


def _plain(message: Message) -> str | None:
    """The text of a message that is a text, and nothing else but a name for the call that it answers."""
    data = message.data
    text = data.get("content")
    if len(data) > 3 or not isinstance(text, str) or message.role == "other":
        return None
    return text if len(data) == 2 or "tool_call_id" in data else None


def slid(before: Sequence[int], after: Sequence[int], shared: int) -> int:
    """How many messages have slid out: behind the first `shared` messages, those of `after` go on as those of `before` do from
    so many further on. 0 if they do not. before, after: hashes of the messages alone, `Chain.said`.
    """
    old, new = before[shared:], after[shared:]
    for gone in range(1, len(old)):
        rest = old[gone:]
        if new[: len(rest)] == rest:
            return gone
    return 0
