"""What a probe is, and what it can find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gateway.backends import KINDS

if TYPE_CHECKING:
    from gateway.contract.server import Server

Result = Literal["ok", "differs", "skipped"]

PROBE_SECONDS = 30.0
"""The longest that a probe may take, unless it says otherwise."""

LOADING = 180.0
"""The same for one that may have to wait for a model to be loaded."""

ALL = frozenset(KINDS) - {"auto"}


@dataclass(frozen=True, slots=True)
class Finding:
    """detail: a sentence with what was measured, and what was expected where that differs; measured: the same as data."""

    result: Result
    detail: str
    measured: Mapping[str, Any] = field(default_factory=dict)


class Settled(Exception):
    """Raised by what probes have in common: the finding is known, and the rest of the probe would add nothing."""

    def __init__(self, finding: Finding):
        super().__init__(finding.detail)
        self.finding = finding


def ok(detail: str, **measured: Any) -> Finding:
    return Finding("ok", detail, measured)


def differs(detail: str, **measured: Any) -> Finding:
    return Finding("differs", detail, measured)


def skipped(detail: str, **measured: Any) -> Finding:
    return Finding("skipped", detail, measured)


def judged(fine: bool, detail: str, expected: str, **measured: Any) -> Finding:
    """ok with the detail, or differs with what was expected beside it."""
    return ok(detail, **measured) if fine else differs(f"{detail}; expected {expected}", **measured)


def listed(facts: Mapping[str, Any]) -> str:
    """`total_slots 4, n_ctx 8192`."""
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or "nothing"


def counted(count: int | None, noun: str) -> str:
    """`1 model`, `2 models`, `unknown models`."""
    return f"{'unknown' if count is None else count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Probe:
    """One fact about a server.

    proves: the fact, in a sentence; source: where it is from; kinds: the servers that it is about; ask: finds out; mutating:
    changes what the server has in memory or on disk, so it is asked only on request; seconds: its limit.
    """

    name: str
    proves: str
    source: str
    ask: Callable[[Server], Awaitable[Finding]]
    kinds: frozenset[str] = ALL
    mutating: bool = False
    seconds: float = PROBE_SECONDS


def kinds_serving(path: str) -> frozenset[str]:
    """The kinds that answer a path of the dialect table."""
    return frozenset(name for name in ALL if path in KINDS[name].serves)
