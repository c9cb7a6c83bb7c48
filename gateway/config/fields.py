"""What every mapping and value of the configuration is made of: how values are read, shown again, described in the JSON schema.

A message never repeats the value. Numbers and booleans may also be text, because a variable always is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from gateway import units
from gateway.config.masking import MASK

_MOST = 10**9
_DIGITS = re.compile(r"[0-9]{1,10}")


class Part(BaseModel):
    """Base of every mapping in the configuration. A key without a value (`hosts:`) counts as not given."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {name: value for name, value in data.items() if value is not None}
        return {} if data is None else data


def key(default: Any, description: str, *, secret: bool = False) -> Any:
    """A key of a Part. default: as a user spells it, `...` for none; a secret is kept out of repr."""
    return Field(default, description=description, repr=not secret)


def text(value: object) -> str:
    """The value if it is text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("must be text; put it in quotes")
    return value


def whole(value: object, least: int) -> int:
    """The value if it is a whole number, or text that is one. Raises ValueError."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number")
    if not least <= value <= _MOST:
        raise ValueError(f"must be from {least} to {_MOST}")
    return value


def flag(value: object) -> bool:
    """The value if it is true or false, or text that is one of them. Raises ValueError."""
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value)
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def seconds(value: object) -> float:
    """Seconds in a duration; 0 may be a number. Raises ValueError."""
    return units.parse_duration(value if isinstance(value, str) else "0" if value == 0 and value is not False else "")


def some_seconds(value: object) -> float:
    """Seconds in a duration that is longer than nothing. Raises ValueError."""
    found = seconds(value)
    if found <= 0:
        raise ValueError("must be longer than 0")
    return found


def some_bytes(value: object) -> int:
    """Bytes in a size above 0. Raises ValueError."""
    found = units.parse_size(str(value) if isinstance(value, str | int) and not isinstance(value, bool) else "")
    if found <= 0:
        raise ValueError("must be more than 0")
    return found


def plain_text(pattern: str, advice: str) -> Callable[[object], str]:
    """A reader of text that a pattern describes as a whole; `advice` says how to write it."""
    compiled = re.compile(pattern)

    def read(value: object) -> str:
        if not compiled.fullmatch(text(value)):
            raise ValueError(advice)
        return text(value)

    return read


_DURATION_SCHEMA = WithJsonSchema({"type": "string", "pattern": units.DURATION_PATTERN})
_SIZE_SCHEMA = WithJsonSchema({"anyOf": [{"type": "string", "pattern": units.SIZE_PATTERN}, {"type": "integer", "minimum": 1}]})
_SHOW_DURATION = PlainSerializer(units.show_duration, return_type=str)

Count = Annotated[int, PlainValidator(lambda value: whole(value, 1)), WithJsonSchema({"type": "integer", "minimum": 1})]
CountOrNone = Annotated[int, PlainValidator(lambda value: whole(value, 0)), WithJsonSchema({"type": "integer", "minimum": 0})]
Flag = Annotated[bool, PlainValidator(flag), WithJsonSchema({"type": "boolean"})]
Duration = Annotated[float, PlainValidator(seconds), _SHOW_DURATION, _DURATION_SCHEMA]
SomeDuration = Annotated[float, PlainValidator(some_seconds), _SHOW_DURATION, _DURATION_SCHEMA]
SomeBytes = Annotated[int, PlainValidator(some_bytes), PlainSerializer(units.show_size, return_type=str), _SIZE_SCHEMA]

Mask = PlainSerializer(lambda value: MASK if value else "", return_type=str)
"""Shows a secret as `***`, and one that is not set as what it is."""
