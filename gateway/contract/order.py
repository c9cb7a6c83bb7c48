"""The order of the events of a stream, one grammar for each API: each event becomes a word, and the words must fit a pattern.

Pure. Sources: the APIs' documentation, and what each server was seen or read to send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gateway.contract.heard import Event
from gateway.dialects.counts import as_dict, as_list

STRANGE = "?"
"""The word for an event that the grammar does not know. It fits nowhere."""

CONTENT = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "audio")
COUNTS = ("usage", "timings", "stats")


@dataclass(frozen=True, slots=True)
class Grammar:
    """word: of an event, '' for one that may stand anywhere; pattern: of all words, a blank behind each; told: in words."""

    word: Callable[[str, Any], str]
    pattern: re.Pattern[str]
    told: str

    def words(self, events: Sequence[Event]) -> list[str]:
        return [word for word in (self.word(*event) for event in events) if word]

    def fits(self, words: Sequence[str]) -> bool:
        return self.pattern.fullmatch("".join(f"{word} " for word in words)) is not None


def shown(words: Sequence[str]) -> str:
    """`role, content x14, finish, usage, done`."""
    runs = [(word, len(list(run))) for word, run in groupby(words)]
    return ", ".join(word if count == 1 else f"{word} x{count}" for word, count in runs) or "nothing"


def _with_counts(word: str, doc: Any) -> str:
    """`finish+usage`: token counts stand on an event that is there for something else, or beside each other."""
    return "+".join((word, *(key for key in COUNTS if isinstance(doc.get(key), dict) and key != word)))


def _choices(name: str, doc: Any) -> str:
    """An event of OpenAI's two older APIs."""
    if isinstance(doc, bytes):
        return "done" if doc.startswith(b"[DONE]") else STRANGE
    if not isinstance(doc, dict) or "error" in doc:
        return STRANGE
    choices = as_list(doc.get("choices"))
    if not choices:
        return _with_counts("usage", doc) if isinstance(doc.get("usage"), dict) else STRANGE
    choice = as_dict(choices[0])
    if choice.get("finish_reason"):
        return _with_counts("finish", doc)
    delta = as_dict(choice.get("delta"))
    has = bool(choice.get("text")) or any(delta.get(key) for key in CONTENT)
    return _with_counts("+".join(["role"] * ("role" in delta) + ["content"] * has) or "empty", doc)


_RESPONSES = {
    "response.created": "created",
    "response.queued": "in_progress",
    "response.in_progress": "in_progress",
    "response.completed": "completed",
    "response.incomplete": "completed",
}


def _responses(name: str, doc: Any) -> str:
    kind = str(as_dict(doc).get("type") or name)
    ending = kind.rpartition(".")[2]
    return _RESPONSES.get(kind) or (
        ending if kind.startswith("response.") and ending in ("added", "delta", "done") else STRANGE
    )


_ANTHROPIC = {
    "ping": "",
    "message_start": "message_start",
    "content_block_start": "block_start",
    "content_block_delta": "delta",
    "content_block_stop": "block_stop",
    "message_delta": "message_delta",
    "message_stop": "message_stop",
}


def _anthropic(name: str, doc: Any) -> str:
    kind = as_dict(doc).get("type")
    return _ANTHROPIC.get(kind, STRANGE) if isinstance(kind, str) and name in ("", kind) else STRANGE


def _ending(key: str) -> Callable[[str, Any], str]:
    """For APIs whose last event is the one that says so under `key`."""

    def word(name: str, doc: Any) -> str:
        known = isinstance(doc, dict) and isinstance(doc.get(key), bool) and "error" not in doc
        return STRANGE if not known else "last" if doc[key] else "piece"

    return word


GRAMMARS: dict[str, Grammar] = {
    "openai_chat": Grammar(
        _choices,
        re.compile(r"role\S* (?:role\S* |content\S* |empty\S* )*(?:finish\S* )+(?:usage\S* )?done "),
        "role first, pieces, finish, perhaps usage, done",
    ),
    "openai_completions": Grammar(
        _choices,
        re.compile(r"(?:content\S* |empty\S* )*(?:finish\S* )+(?:usage\S* )?done "),
        "pieces, finish, perhaps usage, done",
    ),
    "openai_responses": Grammar(
        _responses,
        re.compile(r"created (?:in_progress )?(?:added |delta |done )*completed "),
        "created, in_progress, items, completed",
    ),
    "anthropic": Grammar(
        _anthropic,
        re.compile(r"message_start (?:block_start (?:delta )*block_stop )*(?:message_delta )+message_stop "),
        "message_start, whole blocks, message_delta, message_stop",
    ),
    "ollama": Grammar(_ending("done"), re.compile(r"(?:piece )*last "), "pieces, then the last line alone with done"),
    "llamacpp": Grammar(_ending("stop"), re.compile(r"(?:piece )*last "), "pieces, then the last event alone with stop"),
}
"""By name of the dialect."""
