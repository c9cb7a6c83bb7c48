"""What is wrong with a configuration, and how it is told: `file:line:column: key.path: message`, the line, a caret.

Nothing here repeats a value: values may be secrets, or may come from a variable that holds one. The line of the file is shown
with its secrets masked (masking.py).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.config.masking import SourceText, holds_secret
from gateway.errors import ConfigError

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file."""

_WIDTH = 100
_PLAIN_KEY = re.compile(r"[\w-]+")


class Mark(NamedTuple):
    """A place in the text. Both count from 0; shown from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend. `path` is empty where it concerns the text and not a key."""

    mark: Mark
    path: Path
    message: str


class InvalidConfig(ConfigError):
    """A configuration that cannot be used. `str()` is the whole report; `problems` are its parts, in the order of the text."""

    def __init__(self, source: SourceText, problems: Iterable[Problem]):
        self.name = source.name
        self.problems = tuple(sorted(problems, key=lambda problem: problem.mark))
        super().__init__("\n".join(_tell(source, problem) for problem in self.problems))


def show_path(path: Path) -> str:
    """`backends.local.url`, `listen[1].address`. What a mistake put in the place of a key inside a secret is not repeated."""
    text, hidden = "", False
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        shown = step if _PLAIN_KEY.fullmatch(step) else f'"{step}"'
        text += ("." if text else "") + ("***" if hidden and not _PLAIN_KEY.fullmatch(step) else shown)
        hidden = hidden or holds_secret(step)
    return _printable(text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean listen?`, or '' when nothing known is close."""
    names = {name.lower().replace("-", "_"): name for name in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), names, n=1)
    return f"; did you mean {_printable(names[close[0]])}?" if close else ""


def one_of(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _tell(source: SourceText, problem: Problem) -> str:
    where = ": ".join(filter(None, [show_path(problem.path), _printable(problem.message)]))
    head = f"{source.name}:{problem.mark.line + 1}:{problem.mark.column + 1}: {where}"
    line, caret = source.show(problem.mark.line, problem.mark.column)
    if not line.strip():
        return head
    start = max(0, caret - _WIDTH // 2) if len(line) > _WIDTH else 0
    return f"{head}\n    {_printable(line[start : start + _WIDTH]).rstrip()}\n    {' ' * (caret - start)}^"


def _printable(text: str) -> str:
    """Without characters that could steer a terminal, or that cannot be written as UTF-8. Each becomes one character."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
