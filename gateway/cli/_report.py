"""A bug report for the developers of a client, in Markdown: structure, lengths, offsets and digests; no word of the user's.

Whatever is written here comes from a closed set, is a number, or is a digest. Digests of bodies are keyed anew for each report,
so that short texts cannot be guessed from them; they can be compared only with each other.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from gateway import __version__
from gateway.canonical.rules import ORDER
from gateway.cli import _offline, _show
from gateway.dialects import DIALECTS, ENDPOINTS
from gateway.prefix import sections
from gateway.values import REASONS

REPORTED: Mapping[str, str] = {
    "first_seen": "No earlier request with this beginning was seen.",
    "system_changed": "The system text of two requests in a row differs.",
    "tools_changed": "The list of tools of two requests in a row differs.",
    "history_changed": "An earlier message is sent again in another form.",
    "params_changed": "Parameters that the prompt is rendered with differ between two requests in a row.",
    "window_slide": "The oldest messages are dropped, a few each turn, so that the prompt begins anew each time.",
}
"""What a client's developers can do something about; other reasons are a matter of the server."""

RECOMMENDED: Mapping[str, str] = {
    "anthropic": "Anthropic's documentation of prompt caching: a prefix is tools, then system, then messages, and a change in"
    " one of them invalidates it and all behind it; put what stays the same at the start.",
    "openai": "OpenAI's guide to prompt caching: only exactly equal prefixes hit, so put what stays the same (instructions,"
    " tools) at the beginning and what varies at the end; tools have to be identical, too.",
    "other": "llama.cpp and Ollama reuse the longest common beginning of a prompt and the one that a slot holds; everything"
    " behind the first token that differs is computed again. Put what varies at the end.",
}

SECTIONS = (sections.TOOLS, sections.IDENTITY, sections.MEMORY, sections.PLACE_AND_TIME, sections.HISTORY, sections.NEWEST)

_AGENT = re.compile(r"[A-Za-z][\w.+-]{0,39}(?:/\d[\w.+-]{0,19})?")
_DIGEST = re.compile(r"[0-9a-f]{1,64}")


def of_pair(pair: _offline.Pair, explanation: Mapping[str, Any]) -> str:
    """The report on two saved bodies."""
    key = secrets.token_bytes(16)
    lines = [
        *_head(pair.dialect, pair.after.path, explanation),
        *_found(explanation),
        "",
        "| part | characters before | after | digest before | after |",
        "|---|---|---|---|---|",
    ]
    pairs = zip_longest(_offline.parts(pair.before.prompt), _offline.parts(pair.after.prompt))
    for before, after in pairs:
        names = list(dict.fromkeys(one[0] for one in (before, after) if one))
        sizes = [f"{one[1]:,}" if one else "" for one in (before, after)]
        digests = [_digest(key, one[2]) if one else "" for one in (before, after)]
        lines.append(f"| {' / '.join(names)} | {' | '.join((*sizes, *digests))} |")
    return "\n".join((*lines, "", "Digests are keyed anew for each report.", *_tail(pair.dialect)))


def of_request(row: Mapping[str, Any], explanation: Mapping[str, Any]) -> str:
    """The report on a request that went through the gateway."""
    known = row["dialect"] if row["dialect"] in DIALECTS else "other"
    path = row["path"] if row["path"] in ENDPOINTS else "another path"
    lines = [
        *_head(known, path, explanation),
        f"- client: `{agent(row['client']['agent'])}`",
        f"- streamed: {'yes' if row['stream'] else 'no'}; kind: {'side request' if row['kind'] == 'side' else 'conversation'}",
        f"- prompt: {_show.count(row['prompt'])} tokens, of which reused: {_show.count(row['cached'])}",
        *(f"- digest of its {name}: `{row[name]}`" for name in ("route", "session") if _DIGEST.fullmatch(row[name] or "")),
        *_found(explanation),
    ]
    return "\n".join((*lines, *_tail(known)))


def agent(text: str) -> str:
    """The product that a user agent begins with: a name and a version, nothing behind them."""
    match = _AGENT.match(text)
    return match[0] if match else "unknown"


def _head(dialect: str, path: str, explanation: Mapping[str, Any]) -> Iterator[str]:
    reason = explanation["reason"] if explanation["reason"] in REASONS else None
    yield (
        "# The beginning of the prompt changes between requests, so its cache is lost"
        if reason in REPORTED
        else ("# What was reused of a prompt")
    )
    yield ""
    yield REPORTED.get(reason or "", f"Reason: {reason}." if reason else "Nothing was lost.")
    yield ""
    yield f"- API: {dialect}, `{path}`"


def _found(explanation: Mapping[str, Any]) -> Iterator[str]:
    difference, lost, detector = explanation["difference"], explanation["lost"], explanation["detector"]
    yield f"- reason: `{explanation['reason'] if explanation['reason'] in REASONS else 'none'}`"
    if difference:
        within = "" if difference["exact"] else f", within {difference['within']:,} characters"
        yield f"- first difference: section `{_section(difference['section'])}`, character {difference['offset']:,}{within}"
    if detector:
        yield f"- what changes there: {f'`{detector}`' if detector in ORDER else 'what a rule of the user looks for'}"
    if names := explanation.get("parameters"):
        yield f"- parameters that differ: {', '.join(f'`{name}`' for name in names)}"
    if lost["tokens"]:
        about = "about " if explanation.get("estimate") else ""
        seconds = f", {_show.seconds(lost['seconds'])}" if lost["seconds"] is not None else ""
        yield f"- computed again: {about}{lost['tokens']:,} tokens{seconds}"
    yield ""
    yield "| section | tokens | reused |"
    yield "|---|---|---|"
    for one in explanation["sections"]:
        yield f"| {_section(one['name'])} | {one['tokens']:,} | {_show.count(one['reused'])} |"


def _tail(dialect: str) -> Iterator[str]:
    yield ""
    family = next((name for name in ("anthropic", "openai") if dialect.startswith(name)), "other")
    yield f"What the API recommends. {RECOMMENDED[family]}"
    yield ""
    yield f"Made by warmgate {__version__}; it holds no text of the prompt."


def _section(name: str) -> str:
    return name if name in SECTIONS else "other"


def _digest(key: bytes, said: bytes) -> str:
    return f"`{hashlib.blake2b(said, key=key, digest_size=6).hexdigest()}`"
