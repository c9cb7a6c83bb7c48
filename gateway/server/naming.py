"""Which model a request is about that is no call for an answer, and how it is told another name for it. Pure.

Management calls name it in a JSON body (`model`, Ollama's `name`, LM Studio's `instance_id`), forms in a part, listings and
oMLX's load and unload in the path, llama.cpp's router in the query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote

import orjson

from gateway.wire.splice import head_field, set_fields

KEYS = ("model", "name", "instance_id")
PART = re.compile(rb'name="model"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,256})\r\n')
PATH = re.compile(r"^(/api/v0/models/|/v\d/models/)(.+?)(/load|/unload)?$")
LISTS = frozenset({"status"})
"""What stands in a model's place in a path and is none."""


@dataclass(frozen=True, slots=True)
class Name:
    """model: as the client wrote it; key: the field of a JSON body that holds it, "" if it stands elsewhere."""

    model: str
    key: str = ""


def find(path: str, query: str, content_type: str, head: bytes) -> Name | None:
    """path: decoded, query: as sent; head: the beginning of the body."""
    if head.lstrip()[:1] == b"{":
        for key in KEYS:
            if model := head_field(head, key):
                return Name(model, key)
    if content_type == "multipart/form-data" and (found := PART.search(head)):
        return Name(found[1].decode("utf-8", "replace"))
    if (match := PATH.match(path)) and match[2] not in LISTS:
        return Name(match[2])
    named = parse_qs(query).get("model") if "model=" in query else None
    return Name(named[0]) if named else None


def in_body(body: bytes, name: Name, model: str) -> bytes:
    """The body with the model called otherwise; as it is, where it cannot be edited."""
    if not name.key:
        return body
    try:
        return set_fields(body, {name.key: orjson.dumps(model)})
    except ValueError:
        return body


def in_path(path_query: str, name: Name, model: str) -> str:
    """The path and query as sent, with the model called otherwise where it stands in the path."""
    path, mark, query = path_query.partition("?")
    match = PATH.match(unquote(path))
    if name.key or match is None or match[2] != name.model:
        return path_query
    return f"{match[1]}{quote(model, safe='/:@')}{match[3] or ''}{mark}{query}"
