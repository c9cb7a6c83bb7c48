"""A desk at which requests are played: bodies in every dialect, one canonicalizer, one ledger, one hand-driven clock."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from gateway.canonical import digests, notes
from gateway.canonical.canonicalize import Canonicalizer
from gateway.canonical.ledger import Ledger, Memory
from gateway.canonical.result import Result
from gateway.canonical.settings import Settings
from gateway.dialects.prompt import Prompt
from gateway.dialects.prompt_read import read
from gateway.values import Client

MIRA = Client("127.0.0.1", "agent/1", "k1")
TOVIK = Client("127.0.0.1", "agent/1", "k2")

Turns = list[tuple[str, str]]
"""(role, text) of user, assistant and tool messages."""


def _plain(turns: Turns) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for role, text in turns:
        if role == "call":
            call = {"id": "c1", "type": "function", "function": {"name": text, "arguments": "{}"}}
            out.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif role == "tool":
            out.append({"role": "tool", "tool_call_id": "c1", "content": text})
        else:
            out.append({"role": role, "content": text})
    return out


def _blocks(turns: Turns) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for role, text in turns:
        if role == "call":
            out.append({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": text, "input": {}}]})
        elif role == "tool":
            out.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": text}]})
        else:
            out.append({"role": role, "content": [{"type": "text", "text": text}]})
    return out


def _items(turns: Turns) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for role, text in turns:
        if role == "call":
            out.append({"type": "function_call", "call_id": "c1", "name": text, "arguments": "{}"})
        elif role == "tool":
            out.append({"type": "function_call_output", "call_id": "c1", "output": text})
        else:
            kind = "output_text" if role == "assistant" else "input_text"
            out.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    return out


def chat(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"model": "m", "messages": [{"role": "system", "content": system}, *_plain(turns)]}


def developer(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    parts = [{"type": "text", "text": system}]
    users = [m if m["role"] != "user" else {**m, "content": [{"type": "text", "text": m["content"]}]} for m in _plain(turns)]
    return "/v1/chat/completions", {"model": "m", "messages": [{"role": "developer", "content": parts}, *users]}


def three_systems(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    heads = [{"role": "system", "content": text} for text in ("You are Pelle.", system, "Be brief.")]
    return "/chat/completions", {"model": "m", "messages": [*heads, *_plain(turns)]}


def anthropic(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    return "/v1/messages", {"model": "m", "max_tokens": 9, "system": system, "messages": _blocks(turns)}


def anthropic_blocks(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    blocks = [
        {"type": "text", "text": "You are Pelle."},
        {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}},
    ]
    return "/v1/messages", {"model": "m", "max_tokens": 9, "system": blocks, "messages": _blocks(turns)}


def responses(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    given: Any = turns[0][1] if len(turns) == 1 else _items(turns)
    return "/v1/responses", {"model": "m", "instructions": system, "input": given}


def responses_items(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    head = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": system}]}
    return "/v1/responses", {"model": "m", "input": [head, *_items(turns)]}


def ollama(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    return "/api/chat", {"model": "m", "messages": [{"role": "system", "content": system}, *_plain(turns)], "keep_alive": "5m"}


def generate(system: str, turns: Turns) -> tuple[str, dict[str, Any]]:
    return "/api/generate", {"model": "m", "system": system, "prompt": turns[-1][1] or "?"}


Dialect = Callable[[str, Turns], tuple[str, dict[str, Any]]]
CONVERSING: list[Dialect] = [chat, developer, three_systems, anthropic, anthropic_blocks, responses, responses_items, ollama]
DIALECTS: list[Dialect] = [*CONVERSING, generate]


class Desk:
    """Plays requests one after another. `now` is the wall clock; every request is checked to be idempotent."""

    def __init__(self, settings: Settings | None = None, ledger: Memory | None = None) -> None:
        self.canonicalizer = Canonicalizer(settings or Settings())
        self.ledger = ledger if ledger is not None else Ledger()
        self.now = 1_000_000.0

    def send(self, request: tuple[str, dict[str, Any]], who: Client = MIRA, raw: bytes | None = None) -> Result:
        path, body = request
        raw = orjson.dumps(body) if raw is None else raw
        result = self.canonicalizer.canonicalize(raw, parsed(path, raw), who, self.ledger, self.now)
        if isinstance(self.ledger, Ledger):
            self.ledger.apply(result.remember, self.now)
        again = self.canonicalizer.canonicalize(result.body, parsed(path, result.body), who, self.ledger, self.now)
        assert again.body == result.body, again.edits
        return result

    def answer(self, result: Result, text: str, calls: list[tuple[str, Any]] | None = None) -> None:
        """The reply to a request is seen."""
        if result.sent and isinstance(self.ledger, Ledger):
            reply = digests.reply(self.canonicalizer.settings.secret, text, calls or ())
            self.ledger.apply(notes.heard(result.sent, reply, self.ledger), self.now)


def parsed(path: str, raw: bytes) -> Prompt:
    prompt = read(path, orjson.loads(raw))
    assert prompt is not None
    return prompt


def system_of(result: Result) -> str:
    """The system text that goes out, read from the bytes."""
    return "\n".join(text.text for text in parsed(result.prompt.path, result.body).system)


def users_of(result: Result) -> list[str]:
    """The texts of the user's messages that go out."""
    prompt = parsed(result.prompt.path, result.body)
    return [message.texts[0].text for message in prompt.messages if message.role == "user" and message.texts]


def alone(text: str, dialect: Dialect = chat, **settings: Any) -> tuple[str, str]:
    """(system text that goes out, note) of a single request with this system text."""
    result = Desk(Settings(**settings)).send(dialect(text, [("user", "Hello")]))
    note = users_of(result)[-1].removesuffix("Hello")
    return system_of(result), note


NOTE = re.compile(r"<context>\n.*?\n</context>\n\n", re.DOTALL)


def pretty(result: Result) -> str:
    return json.dumps(orjson.loads(result.body), indent=1, ensure_ascii=False)
