"""JSON as servers really send it: what orjson refuses but Python's own parser reads is read too. Pure."""

from __future__ import annotations

import json
from typing import Any

import orjson


def loads(data: bytes) -> Any:
    """The value, or None if it is no JSON at all. Reads NaN, infinities, invalid UTF-8 and lone surrogates. Never raises."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8; text with lone surrogates, which has no UTF-8, is escaped instead of refused."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()
