"""PyYAML, bent to the rules of YAML 1.2 (core schema) and made safe against hostile nesting.

PyYAML reads YAML 1.1, where `on` is a boolean, `22:22` a number to base 60 and `010` is 8. Here `on`, `off`, `yes` and `no` are
text, and only `true` and `false` are booleans. https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from gateway.config.masking import SourceText
from gateway.config.problems import InvalidConfig, Mark, Problem

MAX_DEPTH = 32
MAX_NODES = 20_000

TAG = "tag:yaml.org,2002:"

SCALARS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    f"{TAG}null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), lambda text: None),
    f"{TAG}bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), lambda text: text.lower() == "true"),
    f"{TAG}int": (
        re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"),
        lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)),
    ),
    f"{TAG}float": (
        re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"),
        lambda text: float(re.sub(r"\.(?=[inIN])", "", text)),
    ),
    f"{TAG}str": (re.compile(r"(?s:.*)\Z"), str),
}
"""Tag -> how a plain scalar of that type looks, and what it means; the first that fits is taken."""

HINTS = (
    (re.compile(r"\t"), "indent with spaces, not with tabs"),
    (re.compile(r"[{\[,].*\$\{"), "inside { } and [ ] put ${VAR} in quotes"),
    (re.compile(r":\s*\[[0-9a-fA-F]*:"), "put an IPv6 address in quotes"),
    (re.compile(r":.*:(\s|$)"), "put a value that holds a colon and a space in quotes"),
    (re.compile(r":\s*[@`%*&!|>\"']"), "put a value that begins with a special character in quotes, and close them"),
)
"""What usually is behind a line that is not YAML."""


class Composer(yaml.SafeLoader):
    """Builds the node graph and nothing else."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own way; filled below)
    depth = nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth, self.nodes = self.depth + 1, self.nodes + 1
        if self.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            what = f"this is nested more than {MAX_DEPTH} deep" if self.depth > MAX_DEPTH else f"more than {MAX_NODES} values"
            raise yaml.composer.ComposerError(None, None, what, self.get_mark())
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class Dumper(yaml.SafeDumper):
    """Quotes whatever YAML 1.1 or 1.2 would not read back as text, so that both read the same."""


for _tag, (_pattern, _) in SCALARS.items():
    Composer.add_implicit_resolver(_tag, _pattern, None)
    if _tag != f"{TAG}str":
        Dumper.add_implicit_resolver(_tag, _pattern, None)


def compose(name: str, text: str) -> yaml.Node | None:
    """The graph of the one document in the text, None if it is empty. Raises InvalidConfig at the first syntax error."""
    try:
        composer = Composer(text)
    except yaml.reader.ReaderError as error:
        raise _unreadable(name, text, error) from None
    try:
        return composer.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(name, text, error) from None
    except (ValueError, OverflowError):  # PyYAML on "\UFFFFFFFF" and %YAML 1.<very long>
        raise _not_yaml(
            name, text, yaml.MarkedYAMLError(problem="no such character or number", problem_mark=composer.get_mark())
        ) from None
    finally:
        composer.dispose()


def to_yaml(data: Any) -> str:
    """Plain data as YAML, in the order of the data."""
    return str(yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120))


def _not_yaml(name: str, text: str, error: yaml.MarkedYAMLError) -> InvalidConfig:
    source = SourceText.of(name, text)
    begin, what = error.context_mark, error.problem or "unreadable"
    place = begin if begin and "end of stream" in what else error.problem_mark or begin  # where a quote was opened
    mark = Mark(place.line, place.column) if place else Mark(0, 0)
    if source.may_hold_secret(mark.line):
        return _report(source, mark, "not valid YAML near a secret value; put the value in quotes")
    line = source.lines[mark.line] if mark.line < len(source.lines) else ""
    hint = next((f"; {words}" for pattern, words in HINTS if pattern.search(line[:1000])), "")
    context = f" ({error.context} that begins in line {begin.line + 1})" if begin and error.context else ""
    return _report(source, mark, f"not valid YAML: {what}{context}{hint}")


def _unreadable(name: str, text: str, error: yaml.reader.ReaderError) -> InvalidConfig:
    source = SourceText.of(name, text)
    before = SourceText.of(name, text[: error.position]).lines
    return _report(source, Mark(len(before) - 1, len(before[-1])), "YAML does not allow this character")


def _report(source: SourceText, mark: Mark, message: str) -> InvalidConfig:
    return InvalidConfig(source, [Problem(mark, (), message)])
