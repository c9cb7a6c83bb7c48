"""The JSON schema (draft 2020-12) of what users write, for editors; also which keys are known where."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from gateway.config.problems import Path
from gateway.config.root import Config

_VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "With ${VAR} or ${VAR:-default}."}
_VALUE_WORDS = {"type", "enum", "const", "pattern", "minimum", "minLength"}
"""What a schema of one scalar consists of."""


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema() -> dict[str, Any]:
    """The schema. Where a value is not free text, text with a variable in it is allowed as well."""
    raw = Config.model_json_schema(schema_generator=_Untitled)
    defs = {name: _writable(part) for name, part in raw.pop("$defs").items()} | {"Variable": _VARIABLE}
    top = {"$schema": GenerateJsonSchema.schema_dialect, "title": "Warmgate configuration"}
    return top | {name: value for name, value in _writable(raw).items() if name != "title"} | {"$defs": defs}


def keys_at(path: Path) -> tuple[str, ...]:
    """The keys that a mapping at this place may have; none where names are free."""
    return tuple(dict.fromkeys(key for part in _parts_at(path) for key in part.get("properties", ())))


def _parts_at(path: Path) -> list[dict[str, Any]]:
    whole = _cached()
    parts = [whole]
    for step in path:
        parts = [choice for part in parts for inner in _inside(part, step) for choice in _choices(whole, inner)]
    return parts


def _inside(part: dict[str, Any], step: str | int) -> Iterator[dict[str, Any]]:
    if isinstance(step, int):
        yield from [part["items"]] if "items" in part else []
    elif step in part.get("properties", {}):
        yield part["properties"][step]
    else:
        yield from part.get("patternProperties", {}).values()


def _choices(whole: dict[str, Any], part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in part:
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    yield part
    for choice in part.get("anyOf", ()):
        yield from _choices(whole, choice)


@lru_cache(maxsize=1)
def _cached() -> dict[str, Any]:
    return schema()


def _writable(part: dict[str, Any]) -> dict[str, Any]:
    """A part of pydantic's schema as users may write it: no null, and variables in scalars."""
    out = dict(part)
    if out.get("default", ...) is None:
        del out["default"]
    for word in ("properties", "patternProperties"):
        if word in out:
            out[word] = {name: _writable(inner) for name, inner in out[word].items()}
    if "patternProperties" in out:
        out["additionalProperties"] = False
    if "items" in out:
        out["items"] = _writable(out["items"])
    if "anyOf" in out:
        choices = [_writable(choice) for choice in out.pop("anyOf") if choice != {"type": "null"}]
        return out | (choices[0] if len(choices) == 1 else {"anyOf": _flat(choices)})
    return _or_variable(out) if _is_scalar(out) else out


def _is_scalar(part: dict[str, Any]) -> bool:
    return part.get("type") in ("integer", "number", "boolean") or "enum" in part or "pattern" in part


def _or_variable(part: dict[str, Any]) -> dict[str, Any]:
    value = {word: part[word] for word in part if word in _VALUE_WORDS}
    rest = {word: part[word] for word in part if word not in _VALUE_WORDS}
    return rest | {"anyOf": [value, {"$ref": "#/$defs/Variable"}]}


def _flat(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Choices within choices, on one level, each once."""
    flat: list[dict[str, Any]] = []
    for choice in choices:
        for inner in choice["anyOf"] if set(choice) == {"anyOf"} else [choice]:
            if inner not in flat:
                flat.append(inner)
    return flat
