"""Bodies that no server can make sense of, found before they reach one: some servers answer them with 500, some hang up. Pure.

Only the type of well-known fields is looked at. A field that is not in the table, and a value that some server may accept, is
the backend's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects.base import Endpoint

NUMBER = (int, float)
COMMON: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "stream": (bool,),
    "stream_options": (dict,),
    "tools": (list,),
    "temperature": NUMBER,
    "top_p": NUMBER,
    "top_k": NUMBER,
    "max_tokens": NUMBER,
    "max_completion_tokens": NUMBER,
    "max_output_tokens": NUMBER,
    "seed": NUMBER,
    "stop": (str, list),
    "options": (dict,),
    "metadata": (dict,),
}
"""Types that a field may have; null is always allowed, because servers read it as absent."""

WORDS = {str: "a string", bool: "true or false", dict: "an object", list: "a list", int: "a number", float: "a number"}


def find_fault(endpoint: Endpoint, body: Mapping[str, Any]) -> str | None:
    """A sentence that says what is wrong with the body, or None."""
    for name, types in COMMON.items():
        value = body.get(name)
        if value is not None and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            return f"`{name}` must be {_words(types)}."
    messages = body.get("messages")
    if messages is None:
        return None
    if not isinstance(messages, list):
        return "`messages` must be a list of objects."
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            return f"`messages[{at}]` must be an object with a role and content."
        if not isinstance(message.get("role", ""), str):
            return f"`messages[{at}].role` must be a string."
        if not isinstance(message.get("content"), str | list | dict | type(None)):
            return f"`messages[{at}].content` must be a string or a list of parts."
    return None


def _words(types: tuple[type, ...]) -> str:
    return " or ".join(dict.fromkeys(WORDS[kind] for kind in types))
