"""What is said of a request that has ended, as JSON: made when somebody asks, of what was kept without text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.canonical.settings import Mode
from gateway.prefix import sections, words
from gateway.prefix.chain import step_at
from gateway.prefix.explain import Difference
from gateway.prefix.sections import Change, Looked
from gateway.state.earlier import Earlier
from gateway.values import Record

SHOWN = 80
"""Characters of a text that are shown on each side of a difference."""


@dataclass(frozen=True, slots=True)
class Compared:
    """one, near: the request, and the earlier one that it is compared with, None if there is none; found: how they differ;
    ratio: tokens for each character where the reply did not count; mode, rules: of the canonical form."""

    one: Earlier
    near: Earlier | None
    found: Difference | None
    ratio: float
    mode: Mode
    rules: tuple[str, ...]

    @property
    def changed(self) -> Change | None:
        return _change(self.one, self.near, self.found) if self.near and self.found else None

    @property
    def section(self) -> str | None:
        """The section in which they first differ."""
        return _section(self.one, self.found, self.changed)


def _change(one: Earlier, near: Earlier, found: Difference) -> Change | None:
    """Where and by what the two prompts differ; None if this one goes on as the earlier one ended."""
    part = found.respelled if found.respelled and found.part is None else found.part
    if part is None:
        return None
    offset = max(0, found.shared - part.start)
    if part.kind == "tools" or (found.old is not None and found.old.kind == "tools"):
        detector = "tools" if sections.reordered(one.tools, near.tools) else None
        return Change(offset, step_at(offset), detector)
    if part.kind == "system" and part.number < len(near.looked):
        return sections.change(one.looked[part.number], near.looked[part.number], offset)
    return Change(offset, min(step_at(offset), part.size), None)


def _section(one: Earlier, found: Difference | None, changed: Change | None) -> str | None:
    if found is None or changed is None:
        return None
    part = found.part or found.respelled
    if part is None:
        return None
    if found.slid or found.respelled is part:
        return sections.HISTORY
    looked = one.looked[part.number] if part.kind == "system" and part.number < len(one.looked) else Looked()
    name = sections.section_of(part, one.chain, changed.offset, looked)
    if name == sections.IDENTITY and changed.detector in (*sections.PLACES, *sections.MEMORIES):
        return sections.PLACE_AND_TIME if changed.detector in sections.PLACES else sections.MEMORY
    return name


def explanation(compared: Compared, record: Record) -> dict[str, Any]:
    one, near, found, changed = compared.one, compared.near, compared.found, compared.changed
    usage, reason = record.usage, record.reason
    detector = changed.detector if changed and reason in ("system_changed", "tools_changed") else None
    reused = usage.cached if usage.cached is not None else record.expected or 0
    ratio = usage.prompt / one.chain.size if usage.prompt and one.chain.size else compared.ratio
    told = usage.source in ("usage", "timings")
    return {
        "id": record.id,
        "reason": reason,
        "sentence": words.sentence(reason, detector, reported=usage.cached is not None and told),
        "compared_with": near.id if near else None,
        "sections": sections.listing(one.chain, one.looked, reused, ratio),
        "difference": _difference(one, near, found, changed, record.section),
        "lost": {"tokens": record.lost_tokens or 0, "seconds": record.lost_seconds},
        "detector": detector,
        "fix": words.fix(reason, detector, compared.mode, compared.rules),
    }


def _difference(
    one: Earlier, near: Earlier | None, found: Difference | None, changed: Change | None, section: str | None
) -> Mapping[str, Any] | None:
    if near is None or found is None or changed is None:
        return None
    section = section or _section(one, found, changed)
    texts = _texts(one, near, found)
    if texts is None:
        place = {"section": section, "offset": changed.offset, "exact": False, "within": changed.within}
        return {**place, "before": None, "after": None}
    new, old = texts
    at = next((at for at, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), min(len(new), len(old)))
    first = max(0, at - 20)
    return {
        "section": section, "offset": at, "exact": True, "within": 0,
        "before": old[first : at + SHOWN], "after": new[first : at + SHOWN],
    }  # fmt: skip


def _texts(one: Earlier, near: Earlier, found: Difference) -> tuple[str, str] | None:
    """The two versions of what changed, if they are kept."""
    part = found.part
    if part is None or part.kind == "message" or not one.texts or not near.texts:
        return None
    if part.kind == "tools":
        return one.texts[-1], near.texts[-1]
    return (one.texts[part.number], near.texts[part.number]) if part.number < len(near.texts) - 1 else None
