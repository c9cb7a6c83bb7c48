"""Rule `tools`: one order for the list of tools and the keywords of their schemas. Pure.

Templates print tools as JSON in the order received, so an order that changes between requests breaks the prefix there. Tools go
by name, keywords of JSON Schema in one fixed order. The order of `properties` can carry meaning: it is kept, and when the same
set comes back in another order, the order seen first is used. Values keep their meaning and numbers their spelling: what
`required`, `enum`, `default` or `examples` hold is data and stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson

from gateway.dialects.prompt_ranges import Doubt

Order = tuple[int, ...]
"""A first-seen order, as ranks among sorted names: (2, 0, 1) is "third by name, then first, then second"."""

SeenFirst = Callable[[tuple[str, ...], Order], Order]
"""(what identifies the set: tool, path, sorted names; its order now) -> the order in which it was seen first."""

_WRAPPER = ("type", "name", "description", "function", "strict", "parameters", "input_schema", "inputSchema", "output_schema")
_KEYWORDS = ("$schema", "$id", "$anchor", "$ref", "type", "title", "description", "format", "enum", "const", "default",
             "examples", "properties", "required", "additionalProperties", "patternProperties", "items",
             "prefixItems", "anyOf", "oneOf", "allOf", "not", "$defs", "definitions")  # fmt: skip
_SCHEMAS = frozenset({"parameters", "input_schema", "inputSchema", "output_schema", "outputSchema"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
                  "unevaluatedItems", "unevaluatedProperties"})  # fmt: skip
_RANK = {name: rank for rank, name in enumerate(_KEYWORDS)}
_WRAPPER_RANK = {name: rank for rank, name in enumerate(_WRAPPER)}


def canonical(raw: bytes, seen_first: SeenFirst) -> bytes | None:
    """The list of tools `raw` (JSON) in canonical order, or None if it is in that order already.

    Raises Doubt for what cannot be written again faithfully: a key that is there twice, a number that is none, a tool that is
    no object, text that is no Unicode.
    """
    tools = _faithful(raw)
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise Doubt("tools are not a list of objects")
    ordered = [_wrapper(tool, name_of(tool), seen_first) for tool in sorted(tools, key=name_of)]
    try:
        now, new = orjson.dumps(tools), orjson.dumps(ordered)
    except (TypeError, orjson.JSONEncodeError) as error:
        raise Doubt("tools hold what cannot be written again") from error
    return None if now == new else new


def name_of(tool: dict[str, Any]) -> str:
    """The name a tool goes by in any API; the type for built-in tools without one."""
    inner = tool.get("function")
    name = inner.get("name") if isinstance(inner, dict) else tool.get("name")
    return str(name or tool.get("type") or "")


def _faithful(raw: bytes) -> Any:
    """Parsed JSON in which numbers keep their spelling. Raises Doubt on keys that are there twice."""
    try:
        return json.loads(raw, parse_float=_number, parse_int=_number, parse_constant=_refuse, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise Doubt("tools that cannot be read") from error


def _number(spelling: str) -> Any:
    return orjson.Fragment(spelling)


def _refuse(constant: str) -> Any:
    raise Doubt(f"{constant} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Doubt("a key is there twice")
    return found


def _wrapper(tool: dict[str, Any], name: str, seen_first: SeenFirst) -> dict[str, Any]:
    out = {}
    for key in sorted(tool, key=lambda key: (_WRAPPER_RANK.get(key, len(_WRAPPER)), key)):
        value = tool[key]
        if key == "function" and isinstance(value, dict):
            value = _wrapper(value, name, seen_first)
        elif key in _SCHEMAS:
            value = _schema(value, (name, key), seen_first)
        out[key] = value
    return out


def _schema(schema: Any, path: tuple[str, ...], seen_first: SeenFirst) -> Any:
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key in sorted(schema, key=lambda key: (_RANK.get(key, len(_RANK)), key)):
        value = schema[key]
        if key in _MAPS and isinstance(value, dict):
            value = _map(value, (*path, key), seen_first)
        elif key in _LISTS and isinstance(value, list):
            value = [_schema(one, (*path, key, str(at)), seen_first) for at, one in enumerate(value)]
        elif key in _ONE:
            value = _schema(value, (*path, key), seen_first)
        out[key] = value
    return out


def _map(schemas: dict[str, Any], path: tuple[str, ...], seen_first: SeenFirst) -> dict[str, Any]:
    """Named schemas, in the order in which this set of names was seen first."""
    names = list(schemas)
    if len(names) > 1:
        by_name = sorted(names)
        rank = {name: at for at, name in enumerate(by_name)}
        order = seen_first((*path, *by_name), tuple(rank[name] for name in names))
        names = [by_name[at] for at in order]
    return {name: _schema(schemas[name], (*path, name), seen_first) for name in names}
