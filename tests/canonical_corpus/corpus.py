"""The judge's corpus as typed records; README.md says what each field means."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAIRS = Path(__file__).with_name("pairs.json")
SECOND = Path(__file__).with_name("second.json")


@dataclass(frozen=True)
class Move:
    """Two requests of one route whose system texts differ only in volatile values."""

    system: str
    system2: str
    moved: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Keep:
    """A text that must come out byte for byte; `system2` is a later release of it, given where a rule needs two versions."""

    system: str
    system2: str | None
    why: str


@dataclass(frozen=True)
class Pair:
    id: str
    rule: str
    language: str
    move: Move
    keep: Keep

    def texts(self) -> list[str]:
        """Every system text of the pair."""
        texts = [self.move.system, self.move.system2, self.keep.system]
        return texts if self.keep.system2 is None else [*texts, self.keep.system2]


def load(path: Path = PAIRS) -> list[Pair]:
    """All pairs of one file in file order. A missing or unknown field is a TypeError or KeyError."""
    return [_pair(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _pair(entry: dict[str, Any]) -> Pair:
    texts: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry["move"].items()}
    move = Move(**texts)
    keep = Keep(**{"system2": None, **entry["keep"]})
    return Pair(**{**entry, "move": move, "keep": keep})
