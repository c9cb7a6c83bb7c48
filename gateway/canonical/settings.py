"""How the canonical form is configured, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["rewrite", "observe", "off"]
Action = Literal["move", "drop", "freeze"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class UserRule:
    """A rule from the configuration: what `pattern` (RE2, searched in the system text) matches is moved, dropped, or frozen to
    what it was when the route was first seen."""

    name: str
    pattern: str
    action: Action = "move"


@dataclass(frozen=True, slots=True)
class Settings:
    """rules: applied; observe: found and reported only; max_age: seconds that a clock may be old inside a tool loop;
    limit: bytes of system text above which nothing is touched; secret: keys the digests in the ledger;
    unheard: seconds for which a note may be recognised although nobody saw the reply to its message.
    """

    mode: Mode = "rewrite"
    rules: frozenset[str] = frozenset({"attribution", "tools", "clock", "place", "ids", "counters", "memory"})
    observe: frozenset[str] = frozenset({"list_order", "learned"})
    max_age: float = 300.0
    custom: tuple[UserRule, ...] = ()
    limit: int = MIB
    secret: bytes = b""
    unheard: float = 600.0
