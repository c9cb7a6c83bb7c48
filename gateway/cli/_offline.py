"""Two saved bodies compared: where the second leaves the first, and why. No server is asked; tokens are estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.canonical.digests import said
from gateway.cli import canon
from gateway.config import Config
from gateway.dialects import ENDPOINTS
from gateway.dialects.prompt import Message, Prompt
from gateway.errors import WarmgateError
from gateway.prefix import chain, sections, words
from gateway.prefix.explain import CLIENT, Difference, Verdict, differ
from gateway.prefix.shape import kind
from gateway.server import dry_run

RATIO = 1 / dry_run.CHARACTERS_PER_TOKEN
EXCERPT = 120  # characters of a text that are shown around a difference

GOES_ON = "The second goes on as the first ended, so nothing of it has to be computed again."
PARTS = "The second leaves the first at a place behind which they have nothing in common, so nothing is computed again."


class NotComparable(WarmgateError):
    """The text says why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests for one API, the earlier one first."""

    before: dry_run.Request
    after: dry_run.Request

    @property
    def dialect(self) -> str:
        return ENDPOINTS[self.after.path].dialect.name


def load(first: str, second: str, path: str | None) -> Pair:
    """The bodies in two files (`-`: standard input). Raises WarmgateError if they cannot be read or compared."""
    asked = []
    for name in (first, second):
        request = canon.read(name, path)
        if not request.prompt.messages:
            raise NotComparable(f"{canon.label(name)} has no messages, so there is nothing to compare.")
        asked.append(request)
    if asked[0].path != asked[1].path:
        raise NotComparable(
            f"{canon.label(first)} looks like a body for {asked[0].path}, {canon.label(second)} like one for {asked[1].path}."
            " Only requests of one API share a prefix; if both are for the same path, name it with --path."
        )
    return Pair(*asked)


def explain(pair: Pair, config: Config) -> dict[str, Any]:
    """The explanation in the shape of /requests/{id}/explain. The lost tokens are estimated, seconds are not known."""
    before, after = pair.before.prompt, pair.after.prompt
    found = compare(before, after)
    reason = found.verdict.reason
    return {
        "id": "second body",
        "reason": reason,
        "sentence": words.sentence(reason, found.detector, reported=True) if reason else GOES_ON if found.goes_on else PARTS,
        "compared_with": "first body",
        "sections": found.sections,
        "difference": found.difference,
        "lost": {"tokens": found.verdict.lost, "seconds": None},
        "detector": found.detector,
        "fix": _fix(pair, found, config),
        "parameters": parameters(before, after),
        "estimate": True,
    }


@dataclass(frozen=True, slots=True)
class Compared:
    """goes_on: the second request holds all of the first."""

    verdict: Verdict
    goes_on: bool
    detector: str | None
    sections: list[dict[str, Any]]
    difference: dict[str, Any] | None


def compare(before: Prompt, after: Prompt) -> Compared:
    old, new = chain.build(b"", before, before.model), chain.build(b"", after, after.model)
    found = differ(new, old)
    head = sum(len(text.text) for text in before.system)
    side = kind(after, {}, lambda: head) == "side" and kind(before, {}, lambda: 0) == "main"
    verdict = Verdict("side_request") if side else _verdict(found)
    looked = [sections.look(text.text, number == 0) for number, text in enumerate(after.system)]
    difference, detector, shared = None, None, new.size
    if (part := found.part) is not None:
        texts = text_of(before, found.old), text_of(after, part)
        offset = _common(*texts) if _same_kind(found.old, part) else 0
        shared = part.start + offset if not found.params else 0
        detector = _detector(part, texts, looked, offset) if _same_kind(found.old, part) else None
        if verdict.reason:
            section = sections.section_of(
                part, new, offset, looked[part.number] if part.kind == "system" else sections.Looked()
            )
            difference = _difference(section, offset, texts)
    listed = sections.listing(new, looked, round(shared * RATIO), RATIO)
    goes_on = chain.common(new, old) == len(old.digests)
    return Compared(verdict, goes_on, detector if verdict.reason else None, listed, difference)


def _verdict(found: Difference) -> Verdict:
    """By the table that judges requests of a gateway, but however little is lost: who compares two bodies wants to know."""
    if found.part is None or not (found.params or found.again or found.slid):
        return Verdict(None)
    return Verdict(next(reason for reason, holds in CLIENT if holds(found)), max(1, round(found.again * RATIO)))


def parameters(before: Prompt, after: Prompt) -> list[str]:
    """The names of what the prompt is rendered with and that differs."""
    names = [
        name
        for name in sorted({*before.parameters, *after.parameters})
        if before.parameters.get(name) != after.parameters.get(name)
    ]
    return (["model"] if before.model != after.model else []) + names


def text_of(prompt: Prompt, part: chain.Part | None) -> str:
    """What a part of a prompt says: a list of tools as JSON, a message as its texts, or as JSON where it has others."""
    if part is None:
        return ""
    if part.kind == "tools":
        return chain.tools_text(prompt)
    if part.kind == "system":
        return prompt.system[part.number].text
    return message_text(prompt.messages[part.number])


def message_text(message: Message) -> str:
    data = {key: value for key, value in message.data.items() if key not in ("role", "content")}
    plain = isinstance(message.data.get("content"), str) and not data
    return "\n".join(text.text for text in message.texts) if plain else orjson.dumps(message.data).decode()


def parts(prompt: Prompt) -> Iterator[tuple[str, int, bytes]]:
    """(what it is, characters, what is the same in it wherever it is the same) of each part, in the order of the body."""
    if prompt.tools is not None:
        text = chain.tools_text(prompt)
        yield f"tools ({len(prompt.tools[1])})", len(text), text.encode("utf-8", "surrogatepass")
    for system in prompt.system:
        yield "system", len(system.text), system.text.encode("utf-8", "surrogatepass")
    for message in prompt.messages:
        yield f"message, {message.role}", len(message_text(message)), said(b"", message)


def _common(one: str, other: str) -> int:
    """Characters from the start that two texts have in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


def _same_kind(old: chain.Part | None, new: chain.Part) -> bool:
    return old is not None and old.kind == new.kind


def _detector(part: chain.Part, texts: tuple[str, str], looked: list[sections.Looked], offset: int) -> str | None:
    """The rule that knows what stands where they differ."""
    if part.kind == "tools":
        return "tools" if sections.reordered(*map(sections.look_at_tools, texts)) else None
    if part.kind != "system":
        return None
    return sections.change(looked[part.number], sections.look(texts[0], part.number == 0), offset).detector


def _difference(section: str, offset: int, texts: tuple[str, str]) -> dict[str, Any]:
    before, after = (_excerpt(text, offset) for text in texts)
    return {"section": section, "offset": offset, "exact": True, "within": 0, "before": before, "after": after}


def _excerpt(text: str, offset: int) -> str:
    """The line of a place, or what is near it on a long one."""
    start = max(text.rfind("\n", 0, offset) + 1, offset - EXCERPT // 2)
    end = text.find("\n", offset)
    return text[start : min(len(text) if end < 0 else end, offset + EXCERPT)]


def _fix(pair: Pair, found: Compared, config: Config) -> dict[str, str | None]:
    """What to do: nothing more if the canonical form takes the difference away."""
    settings = config.canonical
    advice = words.fix(found.verdict.reason, found.detector, settings.mode, settings.rules)
    if found.verdict.reason is None or advice["config"] or settings.mode != "rewrite":
        return advice
    first, second = canon.play(config, (pair.before, pair.after), None)
    if compare(first.prompt, second.prompt).verdict.reason is None:
        return {"text": "Send it through Warmgate, whose canonical form takes this difference away.", "config": None}
    return advice
