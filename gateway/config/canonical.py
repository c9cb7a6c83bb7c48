"""`canonical`: how prompts are given a stable prefix."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import re2
from pydantic import PlainValidator, WithJsonSchema

from gateway.canonical import patterns
from gateway.canonical.settings import Action, Mode, Settings, UserRule
from gateway.config.fields import Duration, Part, key, plain_text, text

Rule = Literal["attribution", "tools", "clock", "place", "ids", "counters", "memory", "list_order", "learned"]

_NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"
_LONGEST_PATTERN = 1000


def parse_pattern(value: object) -> str:
    """An RE2 pattern. Raises ValueError with what RE2 says is wrong."""
    pattern = text(value)
    if not pattern or len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"must have from 1 to {_LONGEST_PATTERN} characters")
    try:
        compiled = patterns.compile(pattern)
    except re2.error:  # its words repeat the pattern, which may come from a variable
        raise ValueError("not a pattern that RE2 understands (it has no look-around and no back-references)") from None
    if compiled.search(""):
        raise ValueError("matches nothing at all, so it would match everywhere")
    return pattern


Pattern = Annotated[str, PlainValidator(parse_pattern), WithJsonSchema({"type": "string", "minLength": 1})]
RuleName = Annotated[
    str,
    PlainValidator(plain_text(_NAME_PATTERN, "a rule's name is lower case letters, digits, - and _")),
    WithJsonSchema({"type": "string", "pattern": _NAME_PATTERN}),
]
Glob = Annotated[
    str,
    PlainValidator(plain_text(r"\S(.*\S)?", "must not be empty")),
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class Custom(Part):
    """A rule of the user's own."""

    name: RuleName = key(..., "What it is called in headers and metrics.")
    pattern: Pattern = key(..., "What it looks for in a line of the system text (RE2 syntax).")
    action: Action = key("move", "move it into the note, drop it, or freeze it to what it was first.")


class Never(Part):
    """Who is left alone."""

    clients: tuple[Glob, ...] = key((), "User agents, such as curl/*.")
    models: tuple[Glob, ...] = key((), "Models, as clients name them or as they are called here.")

    def covers(self, agent: str, names: Iterable[str]) -> bool:
        """Whether requests with this user agent, for a model of these names, are left alone."""
        return any(fnmatchcase(agent, glob) for glob in self.clients) or any(
            fnmatchcase(name, glob) for glob in self.models for name in names
        )


class Canonical(Part):
    mode: Mode = key("rewrite", "rewrite; observe: only report what would change; off.")
    rules: tuple[Rule, ...] = key(
        ("attribution", "tools", "clock", "place", "ids", "counters", "memory"), "Rules that are applied."
    )
    observe: tuple[Rule, ...] = key(("list_order", "learned"), "Rules that only report what they would save.")
    max_age: Duration = key("5m", "How old a time may become inside one tool loop.")
    custom: tuple[Custom, ...] = key((), "Rules of your own.")
    never: Never = key({}, "Clients and models that are left alone.")

    def settings(self, secret: bytes) -> Settings:
        """The same as what the canonical floor takes. secret: keys its digests."""
        return Settings(
            mode=self.mode,
            rules=frozenset(self.rules),
            observe=frozenset(self.observe) - frozenset(self.rules),
            max_age=self.max_age,
            custom=tuple(UserRule(rule.name, rule.pattern, rule.action) for rule in self.custom),
            secret=secret,
        )
