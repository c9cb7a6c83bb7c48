"""Prompt -> bytes: what changed goes into the client's own bytes, by range. Everything else keeps its spelling. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from gateway.dialects.prompt import Prompt, Text
from gateway.dialects.prompt_ranges import Doubt, Path, Span, locate, splice, string


def render(
    raw: bytes, before: Prompt, after: Prompt, tools: bytes | None = None, spans: Mapping[Path, Span] | None = None
) -> bytes:
    """`raw`, which `before` was read from, with the texts of `after`; tools: new JSON for the list of tools.

    spans: ranges in `raw` that are known already. A system text that `after` no longer has is taken out with its block, or
    emptied where its place is a message. Raises Doubt if the bytes are not what `before` says; then they must go out as they
    are.
    """
    changed = {text.path: text.text for text in _texts(after)}
    old = {text.path: text.text for text in _texts(before)}
    edits = {path: (text, changed.get(path)) for path, text in old.items() if changed.get(path) != text}
    if not edits and tools is None:
        return raw
    gone = {_block(path): path for path, (_, new) in edits.items() if new is None}
    paths = [*edits, *gone]
    if tools is not None and before.tools:
        paths.append(before.tools[0])
    if spans is None:
        spans = locate(raw, paths)
    changes: list[tuple[Span, bytes]] = []
    for path, (was, new) in edits.items():
        start, end = spans[path]
        if string(raw[start:end]) != was:
            raise Doubt("a text is not what the parsed body has")
        if new is not None:
            changes.append((spans[path], orjson.dumps(new)))
    changes += [(_with_comma(raw, spans[block]), b"") for block in gone]
    if tools is not None and before.tools:
        changes.append((spans[before.tools[0]], tools))
    return splice(raw, changes)


def _texts(prompt: Prompt) -> list[Text]:
    return [*prompt.system, *(text for message in prompt.messages for text in message.texts)]


def _block(path: Path) -> Path:
    """The element of the list `system` that holds a text."""
    if len(path) != 3 or path[0] != "system":
        raise Doubt("only a block of its own can be taken out")
    return path[:2]


def _with_comma(raw: bytes, span: Span) -> Span:
    """An element of an array together with the comma that belongs to it: the one behind, else the one before."""
    start, end = span
    behind = end + len(raw[end:]) - len(raw[end:].lstrip(b" \t\r\n"))
    if raw[behind : behind + 1] == b",":
        return start, behind + 1
    before = raw[:start].rstrip(b" \t\r\n")
    return (len(before) - 1, end) if before.endswith(b",") else span
