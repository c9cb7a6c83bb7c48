"""What is told of servers that do not answer, and of checks that could not be made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.backends.openai import NEEDS_KEY
from gateway.doctor.base import Check, Seen
from gateway.values import Probe


@dataclass(frozen=True, slots=True)
class Absent:
    """A server that cannot be looked at, and what it said."""

    name: str
    url: str
    probe: Probe


@dataclass(frozen=True, slots=True)
class Failed:
    """A check that could not be made, and why."""

    check: str
    problem: str


async def down(absent: Absent) -> Iterable[Seen]:
    if absent.probe.loading or absent.probe.problem == NEEDS_KEY:
        return []
    told = absent.probe.problem or "it does not answer as a model server"
    return [Seen(f"{absent.url}: {told}.", {"backend": absent.name})]


async def key(absent: Absent) -> Iterable[Seen]:
    wanted = absent.probe.problem == NEEDS_KEY
    return [Seen(f"{absent.url} asks for an API key.", {"backend": absent.name})] if wanted else []


async def loading(absent: Absent) -> Iterable[Seen]:
    return [Seen(f"{absent.url}: {absent.probe.problem or 'it is still loading'}.")] if absent.probe.loading else []


async def unanswered(failed: Failed) -> Iterable[Seen]:
    return [Seen(f"The check {failed.check} could not be made: {failed.problem}.", {"check": failed.check})]


ABSENT_CHECKS: tuple[Check[Absent], ...] = (
    Check(
        "down",
        "serious",
        "A server does not answer.",
        "Its models cannot be asked.",
        "Start it, or correct `backends.{backend}.url`.",
        down,
    ),
    Check(
        "key",
        "serious",
        "A server asks for a key that the configuration does not have.",
        "Its models cannot be asked.",
        'Set `backends: {{ {backend}: {{ headers: {{ authorization: "Bearer ${{KEY}}" }} }} }}`.',
        key,
    ),
    Check(
        "loading",
        "note",
        "A server is still loading.",
        "Nothing can be said about its caches yet.",
        "Ask again when it has loaded.",
        loading,
    ),
)

UNANSWERED: Check[Failed] = Check(
    "unanswered",
    "note",
    "A check could not be made.",
    "The server was busy or slow, or answered in a way that is not known.",
    "Ask again while nobody uses the server; `warmgate doctor --contract URL` looks closer.",
    unanswered,
)
