"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from gateway.contract.base import ALL

Severity = Literal["serious", "advice", "note"]
"""serious: prompts are not reused, or strangers may ask; advice: it could work better; note: what cannot be told or changed."""

SEVERITIES: tuple[Severity, ...] = ("serious", "advice", "note")

About = TypeVar("About")


@dataclass(frozen=True, slots=True)
class Seen:
    """One sighting. text: what was seen; values: for the places in braces of the check's fix."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check(Generic[About]):
    """One thing that may be wrong.

    finds: what it is, for the documentation; why: it matters; fix: what to do, with places in braces that a sighting fills;
    look: gives the sightings, none where all is well; kinds: servers that it is about.
    """

    name: str
    severity: Severity
    finds: str
    why: str
    fix: str
    look: Callable[[About], Awaitable[Iterable[Seen]]]
    kinds: frozenset[str] = ALL

    def finding(self, seen: Seen, where: str) -> Finding:
        return Finding(self.name, self.severity, where, seen.text, self.why, self.fix.format_map(seen.values))


@dataclass(frozen=True, slots=True)
class Finding:
    """where: the backend's name, or "gateway"; seen, why, fix: a sentence each."""

    name: str
    severity: Severity
    where: str
    seen: str
    why: str
    fix: str


def only(kind: str) -> frozenset[str]:
    return frozenset({kind})
