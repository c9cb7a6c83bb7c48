"""Which parts of a configuration's text hold secrets, so that an error report can show lines of it.

A key tells: `token`, `api_keys`, anything under `headers`, and whatever is called nearly so (a misspelt key holds the secret
just the same). A URL tells too: user name, password and query are never shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import yaml

MASK = "***"

_NAMES = ("token", "api_key", "api_keys", "headers", "authorization", "password", "secret", "cookie", "credentials")
_ENDING = re.compile(r"(?:^|[_-])(?:token|keys?|secret|passw(?:or)?d|auth|authorization|credentials?|cookie)$", re.IGNORECASE)
_CLOSE = 0.75

_HEADER_NAME = re.compile(r"[\w-]+")
_KEY = re.compile(r"""(?<![\w-])([\w-]+)["']?\s*:""")
_KEY_LINE = re.compile(r"""["']?[\w-]+["']?\s*:""")
_WORD = re.compile(r"""[^\s"']*""")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what PyYAML counts as one
_LONGEST = 1000  # characters of a line that is still shown

Span = tuple[int, int]
"""Columns from, to."""


@lru_cache(maxsize=4096)
def holds_secret(key: str) -> bool:
    """Whether the value of a key called so may be a secret."""
    return bool(_ENDING.search(key) or difflib.get_close_matches(key.lower(), _NAMES, n=1, cutoff=_CLOSE))


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a configuration. `secrets`: columns by line, from 0. `parsed`: False while only the text itself can tell."""

    name: str
    lines: tuple[str, ...]
    secrets: Mapping[int, list[Span]] = field(default_factory=dict)
    parsed: bool = False

    @classmethod
    def of(cls, name: str, text: str, root: yaml.Node | None = None) -> SourceText:
        """The text, and the secrets in it if it could be parsed."""
        lines = tuple(_LINE_BREAK.split(text))
        if root is None:
            return cls(name, lines)
        secrets: dict[int, list[Span]] = {}
        for start, end in _secret_marks(root):
            for line in range(start[0], end[0] + 1):
                width = len(lines[line]) if line < len(lines) else 0
                span = (start[1] if line == start[0] else 0, min(end[1], width) if line == end[0] else width)
                if span[0] < span[1]:
                    secrets.setdefault(line, []).append(span)
        return cls(name, lines, secrets, parsed=True)

    def show(self, line: int, column: int) -> tuple[str, int]:
        """A line with its secrets masked, and where the column went. The line is '' where it cannot be shown."""
        text = self.lines[line] if line < len(self.lines) else ""
        if len(text) > _LONGEST or (not self.parsed and self.may_hold_secret(line)):
            return "", 0
        return _mask(text, column, [*self.secrets.get(line, []), *_url_secrets(text)])

    def may_hold_secret(self, at: int) -> bool:
        """Whether a line is, or may continue, the value of a secret key: judged by keys and indentation alone."""
        since: int | None = None
        for line in self.lines[: at + 1]:
            body = line.lstrip()
            indent = len(line) - len(body)
            if since is not None and indent <= since and _KEY_LINE.match(body):
                since = None
            if not body.startswith("#") and any(holds_secret(key) for key in _KEY.findall(line)):
                since = indent if since is None else min(since, indent)
        return since is not None


def _mask(text: str, column: int, spans: list[Span]) -> tuple[str, int]:
    out, at, caret = "", 0, -1
    for start, end in sorted(spans):
        if end <= at:
            continue
        start = max(start, at)
        if caret < 0 and column < end:
            caret = len(out) + min(column, start) - at
        out += text[at:start] + MASK
        at = end
    tail = re.split(r"(?<!\S)#", text[at:], maxsplit=1)[0] if spans else text[at:]  # a comment may tell an older secret
    return out + tail, caret if caret >= 0 else len(out) + min(column - at, len(tail))


def _url_secrets(line: str) -> Iterator[Span]:
    scheme, at = line.find("://"), line.rfind("@")
    if at >= 0:
        begin = scheme + 3 if 0 <= scheme < at else max(line.rfind(char, 0, at) for char in " \"'") + 1
        yield begin, at
    query = line.find("?", scheme)
    if 0 <= scheme < query and (word := _WORD.match(line, query)):
        yield word.span()


def _secret_marks(root: yaml.Node) -> Iterator[tuple[Span, Span]]:
    """(line, column) from and to of everything that a secret key holds, wherever an alias leads to."""
    todo, seen = [(root, False)], set[tuple[int, bool]]()
    while todo:
        node, secret = todo.pop()
        if (id(node), secret) in seen:
            continue
        seen.add((id(node), secret))
        if secret:
            yield _marks(node)
        if isinstance(node, yaml.SequenceNode):
            todo += [(item, secret) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if _is(key, "headers") and isinstance(value, yaml.MappingNode):
                    todo += [(inner, True) for pair in value.value for inner in pair[_is_header_name(pair[0]) :]]
                    continue
                hidden = secret or (isinstance(key, yaml.ScalarNode) and holds_secret(key.value))
                todo += [(key, secret), (value, hidden)]
                if hidden and value.start_mark.index == value.end_mark.index:  # or something that YAML reads as a comment
                    yield (key.end_mark.line, key.end_mark.column + 1), (key.end_mark.line, _LONGEST)


def _marks(node: yaml.Node) -> tuple[Span, Span]:
    return (node.start_mark.line, node.start_mark.column), (node.end_mark.line, node.end_mark.column)


def _is(key: yaml.Node, name: str) -> bool:
    return isinstance(key, yaml.ScalarNode) and bool(key.value == name)


def _is_header_name(key: yaml.Node) -> bool:
    """Such a key may be seen; anything else in its place may be the secret itself."""
    return isinstance(key, yaml.ScalarNode) and bool(_HEADER_NAME.fullmatch(key.value))
