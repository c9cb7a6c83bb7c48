"""What a model said in a reply: its visible text and its tool calls, put together from the reply's own bytes. Pure.

Read once, after the reply has ended, and only for replies that must be recognised when they come back as history; so the events
of a stream need not be parsed while they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.dialects.counts import Json, as_dict, as_list
from gateway.wire import ndjson, sse
from gateway.wire.frames import Framer
from gateway.wire.lenient import loads

BETWEEN = "\x00"
"""Stands between the texts of one message, as it does where messages of the history are compared."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """calls: (name, arguments as JSON text or as a value), in order."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()


@dataclass(slots=True)
class _Parts:
    """A message that is being put together. Keys are places in the message; calls: place -> [name, pieces of the arguments]."""

    texts: dict[int, list[str]] = field(default_factory=dict)
    calls: dict[int, list[Any]] = field(default_factory=dict)

    def say(self, at: int, text: Any) -> None:
        if isinstance(text, str) and text:
            self.texts.setdefault(at, []).append(text)

    def call(self, at: int, name: Any, arguments: Any) -> None:
        entry = self.calls.setdefault(at, ["", []])
        if isinstance(name, str) and name:
            entry[0] = name
        if arguments not in (None, ""):
            entry[1].append(arguments)

    def spoken(self) -> Spoken:
        texts = ["".join(pieces) for _, pieces in sorted(self.texts.items())]
        return Spoken(BETWEEN.join(texts), tuple((name, _joined(pieces)) for _, (name, pieces) in sorted(self.calls.items())))


def _joined(pieces: list[Any]) -> Any:
    """Arguments that came as text are pieces of one text; a value came whole."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return pieces[-1]


def spoken(dialect: str, raw: bytes, *, streaming: bool) -> Spoken | None:
    """What a complete reply says, or None where the dialect has no conversations or nothing can be read."""
    reader = READERS.get(dialect)
    if reader is None:
        return None
    parts = _Parts()
    for doc in _docs(dialect, raw, streaming):
        reader(parts, doc)
    return parts.spoken() if parts.texts or parts.calls else None


def _docs(dialect: str, raw: bytes, streaming: bool) -> Iterator[Json]:
    if not streaming:
        yield as_dict(loads(raw))
        return
    lines = dialect == "ollama"
    framer: Framer = ndjson.Lines() if lines else sse.Events()
    parse = ndjson.parse if lines else sse.parse
    for frame in framer.split(raw):
        yield as_dict(loads(parse(frame)[1]))


def _chat(parts: _Parts, doc: Json) -> None:
    """The first choice only: that is the one that clients put into the history."""
    for choice in as_list(doc.get("choices")):
        choice = as_dict(choice)
        if choice.get("index", 0) != 0:
            continue
        message = as_dict(choice.get("delta") or choice.get("message"))
        parts.say(0, message.get("content"))
        for at, call in enumerate(as_list(message.get("tool_calls"))):
            call = as_dict(call)
            function = as_dict(call.get("function"))
            index = call.get("index", at)
            parts.call(index if isinstance(index, int) else at, function.get("name"), function.get("arguments"))


def _anthropic(parts: _Parts, doc: Json) -> None:
    for at, block in enumerate(as_list(doc.get("content"))):  # a document
        block = as_dict(block)
        parts.say(at, block.get("text"))
        if block.get("type") == "tool_use":
            parts.call(at, block.get("name"), block.get("input"))
    index = doc.get("index")
    if not isinstance(index, int):
        return
    block, delta = as_dict(doc.get("content_block")), as_dict(doc.get("delta"))
    parts.say(index, block.get("text"))
    parts.say(index, delta.get("text"))
    if block.get("type") == "tool_use":
        parts.call(index, block.get("name"), block.get("input") or None)
    if "partial_json" in delta:
        parts.call(index, None, delta["partial_json"])


def _responses(parts: _Parts, doc: Json) -> None:
    """The first output item that is no reasoning: in the history each item is a message of its own."""
    response = as_dict(doc.get("response")) if "response" in doc else doc
    if doc.get("type") not in (None, "response.completed", "response.incomplete"):
        return
    for item in map(as_dict, as_list(response.get("output"))):
        if item.get("type") == "function_call":
            parts.call(0, item.get("name"), item.get("arguments"))
            return
        if item.get("type") == "message":
            for at, part in enumerate(map(as_dict, as_list(item.get("content")))):
                parts.say(at, part.get("text"))
            return


def _ollama(parts: _Parts, doc: Json) -> None:
    message = as_dict(doc.get("message"))
    parts.say(0, message.get("content"))
    for call in map(as_dict, as_list(message.get("tool_calls"))):
        function = as_dict(call.get("function"))
        parts.call(len(parts.calls), function.get("name"), function.get("arguments"))


READERS: Mapping[str, Callable[[_Parts, Json], None]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "ollama": _ollama,
}
"""By dialect. Completions and raw prompts have no history to recognise."""
