"""`state_dir`: where what was learned is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from gateway.config.fields import text


def parse_directory(value: object) -> Path | None:
    """A directory, `~` expanded; None for "": memory only. Raises ValueError."""
    if value is None or isinstance(value, Path):
        return value
    words = text(value)
    if "\0" in words:
        raise ValueError("not a path")
    return Path(words).expanduser() if words else None


def show_directory(path: Path | None) -> str:
    return str(path) if path else ""


StateDir = Annotated[
    Path | None, PlainValidator(parse_directory), PlainSerializer(show_directory), WithJsonSchema({"type": "string"})
]
