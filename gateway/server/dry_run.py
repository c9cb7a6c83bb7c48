"""What the canonical form would make of a request, without sending it: for `warmgate canon` and POST /canonicalize.

Nothing here writes to a ledger. Whoever plays several requests in turn applies `Result.remember` himself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from gateway.canonical.canonicalize import NOTE, Canonicalizer
from gateway.canonical.ledger import Memory
from gateway.canonical.result import Edit, Finding, Result
from gateway.canonical.settings import Mode
from gateway.config.canonical import Canonical
from gateway.dialects import ENDPOINTS
from gateway.dialects.prompt import Prompt
from gateway.dialects.prompt_read import READERS, read
from gateway.errors import BadRequest
from gateway.values import Client

CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English text; what is made of it is called an estimate wherever it is shown."""

OFF = "mode is off"
LEFT_ALONE = "left alone by canonical.never"

_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "image"})
"""Types of content parts that only Anthropic's API has on a path with `messages`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that could be played. raw: its body, which `prompt` was read from."""

    path: str
    raw: bytes
    prompt: Prompt


def request(raw: bytes, body: Mapping[str, Any], path: str | None = None) -> Request:
    """The request that a body (raw and parsed) makes at `path`, or where such bodies are sent.

    Raises BadRequest if there is no prompt in it that the canonical form could work on.
    """
    path = guess_path(body) if path is None else path.partition("?")[0].removesuffix("/")
    if path not in READERS:
        raise BadRequest(_no_structure(path), code="no_prompt")
    if (prompt := read(path, body)) is None:
        raise BadRequest(f"There is no prompt in this body as {path} has it.", code="no_prompt")
    return Request(path, raw, prompt)


def guess_path(body: Mapping[str, Any]) -> str:
    """The path that a body is most likely meant for. Raises BadRequest where it looks like none."""
    if "input" in body or "instructions" in body:
        return "/v1/responses"
    if "messages" in body:
        return "/v1/messages" if "system" in body or _has_blocks(body["messages"]) else "/v1/chat/completions"
    if "prompt" in body:
        return "/api/generate"
    raise BadRequest(
        "This body has no `messages`, `input` or `prompt`, so there is no prompt to work on; name its path if it has.",
        code="no_prompt",
    )


@dataclass(frozen=True, slots=True)
class DryRun:
    """Who asks, under which configuration, and what is known. known: is only read; secret: keys the ledger's digests."""

    canonical: Canonical
    client: Client
    known: Memory
    secret: bytes

    def play(self, asked: Request, now: float, mode: Mode | None = None) -> Result:
        """What would become of the request. now: wall clock, seconds; mode: instead of the configuration's, as by header."""
        if mode is None and self.canonical.never.covers(self.client.agent, (asked.prompt.model,)):
            return Result(asked.raw, asked.prompt, reason=LEFT_ALONE)
        mode = mode or self.canonical.mode
        if mode == "off":
            return Result(asked.raw, asked.prompt, reason=OFF)
        settings = replace(self.canonical.settings(self.secret), mode=mode)
        return Canonicalizer(settings).canonicalize(asked.raw, asked.prompt, self.client, self.known, now)


def tokens(finding: Finding) -> int | None:
    """Tokens that a server would not have to read again (an estimate), None where that is not known."""
    return finding.behind // CHARACTERS_PER_TOKEN or None


def document(asked: Request, result: Result) -> bytes:
    """The outcome as JSON on one line. `body` has the bytes that would go out, so numbers keep their spelling."""
    return orjson.dumps(
        {
            "path": asked.path,
            "changed": result.body is not asked.raw,
            "edits": [_edit(edit) for edit in result.edits],
            "findings": [{**_edit(found.edit), "tokens_estimate": tokens(found)} for found in result.findings],
            "notes": [{"message": at, "text": note.text} for at, note in sorted(result.notes.items())],
            "reason": result.reason,
            "body": orjson.Fragment(b" ".join(result.body.splitlines())),  # inside a JSON string there are no line breaks
        }
    )


def moves(result: Result) -> tuple[Edit, ...]:
    """The edits besides notes."""
    return tuple(edit for edit in result.edits if edit.rule != NOTE)


def _edit(edit: Edit) -> dict[str, Any]:
    return {"rule": edit.rule, "section": edit.section, "offset": edit.offset, "before": edit.before, "after": edit.after}


def _has_blocks(messages: Any) -> bool:
    """Whether a content has a part of a type that only Anthropic's API has."""
    contents = (
        [message.get("content") for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    )
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, dict) and part.get("type") in _BLOCKS for part in parts)


def _no_structure(path: str) -> str:
    if path not in ENDPOINTS:
        return f"{path} is no path with a prompt; these are: {', '.join(READERS)}."
    without = ", ".join(path for path in ENDPOINTS if path not in READERS)
    return (
        f"Bodies for {path} are passed on as they are. So are those for all of {without}. With a prompt: {', '.join(READERS)}."
    )
