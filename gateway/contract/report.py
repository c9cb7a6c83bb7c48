"""What the suite found, as data that can be attached to a bug report. Addresses, keys and places of files are masked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urlsplit

from gateway import __version__
from gateway.backends import KINDS
from gateway.contract.base import Finding

MASK = "***"


@dataclass(frozen=True, slots=True)
class Row:
    """One probe and what it found. seconds: that it took."""

    name: str
    proves: str
    source: str
    finding: Finding
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """url: with its host masked; version: the server's own, None where it does not tell; started: ISO 8601, UTC."""

    url: str
    kind: str
    version: str | None
    model: str
    started: str
    seconds: float
    rows: tuple[Row, ...]

    @property
    def fine(self) -> bool:
        return all(row.finding.result != "differs" for row in self.rows)

    @property
    def summary(self) -> str:
        count = Counter(row.finding.result for row in self.rows)
        what = " ".join(part for part in (self.kind, self.version) if part)
        differ = "differs" if count["differs"] == 1 else "differ"
        counts = f"{count['ok']} ok, {count['differs']} {differ}, {count['skipped']} skipped"
        return f"{what}: {counts} in {self.seconds:.1f} s"

    def data(self) -> dict[str, Any]:
        return {
            "warmgate": __version__,
            "url": self.url,
            "kind": self.kind,
            "server": self.version,
            "model": self.model,
            "started": self.started,
            "seconds": round(self.seconds, 2),
            "ok": self.fine,
            "summary": self.summary,
            "probes": [_row(row) for row in self.rows],
        }


def _row(row: Row) -> dict[str, Any]:
    found = row.finding
    return {
        "name": row.name,
        "result": found.result,
        "detail": found.detail,
        "seconds": round(row.seconds, 3),
        "measured": dict(found.measured),
        "proves": row.proves,
        "source": row.source,
    }


class Masking:
    """Takes out of texts what tells about a user's machine: the server's host, keys, the directories of models."""

    def __init__(self, url: str, model: str, secrets: Iterable[str] = ()):
        parts = urlsplit(url)
        host = parts.hostname or ""
        self.url = f"{parts.scheme}://{MASK}" + (f":{parts.port}" if parts.port else "")
        self.model = _file_name(model)
        spellings = (model, json.dumps(model)[1:-1])
        self._named = [(name, self.model) for name in spellings] if self.model != model else []
        hidden = [re.escape(word) for word in (parts.netloc, *secrets) if word]
        if host and host not in KINDS:  # a host called `ollama` tells nothing, and is a word of every report
            hidden.append(rf"(?<![\w-]){re.escape(host)}(?![\w-])")
        self._hidden = re.compile("|".join(hidden), re.IGNORECASE) if hidden else None

    def text(self, text: str) -> str:
        for full, short in self._named:
            text = text.replace(full, short)
        return self._hidden.sub(MASK, text) if self._hidden else text

    def value(self, value: Any) -> Any:
        """A measured value with all its texts masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(inner) for inner in value]
        return value

    def finding(self, found: Finding) -> Finding:
        return Finding(found.result, self.text(found.detail), self.value(dict(found.measured)))


def _file_name(model: str) -> str:
    """llama.cpp names a model by its path; of that only the last part is told."""
    if model.startswith("/"):
        return PurePosixPath(model).name
    return PureWindowsPath(model).name if re.match(r"[A-Za-z]:\\", model) else model
