"""RE2 with the bounds that prompts need: linear time, a memory limit for each pattern, and no words on stderr. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import re2

MEMORY = 8 << 20
"""Bytes that one pattern's automaton may use at most; it grows with the text it meets, and is a few hundred kB in practice."""


def _options() -> Any:
    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    return options


def compile(pattern: str) -> Any:  # the name it has in `re` and `re2`
    """A compiled pattern. Raises re2.error for one that RE2 does not accept."""
    return re2.compile(pattern, _options())


def searching(patterns: Iterable[str]) -> re2.Set:
    """A set whose `Match(bytes)` gives the numbers of the patterns that are somewhere in a line."""
    found = re2.Set.SearchSet(_options())
    for pattern in patterns:
        found.Add(pattern)
    found.Compile()
    return found
