"""Nodes -> Config: pydantic's errors become problems at a place in the text, in the words of the operator."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from gateway.config.document import Node
from gateway.config.json_schema import keys_at
from gateway.config.problems import Path, Problem, did_you_mean, one_of
from gateway.config.root import Config

MESSAGES = {
    "missing": "is missing",
    "model_type": "must be a mapping (key: value)",
    "dict_type": "must be a mapping (name: value)",
    "mapping_type": "must be a mapping (name: value)",
    "tuple_type": "must be a list",
}
"""Words for pydantic's error types; those that are not here are told by `_message`."""

_IN_KEY = "[key]"  # pydantic's last step where the name of an entry is wrong, not its value
_QUOTED = re.compile("'([^']*)'")


def bind(root: Node, base: FilePath) -> tuple[Config | None, list[Problem]]:
    """The configuration, or what is wrong with its values. Paths in it are relative to `base`."""
    try:
        return Config.model_validate(root.plain(), context={"base": base}), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    return None, [problem for detail in details for problem in _problem(root, detail)]


def _problem(root: Node, detail: Any) -> Iterable[Problem]:
    """At most one: nothing new is said about a value that could not be read in the first place."""
    path: Path = detail["loc"]
    about_key = detail["type"] in ("extra_forbidden", "missing")
    if detail["type"] == "value_error" and path[-1:] == (_IN_KEY,):
        about_key, path = True, path[:-1]
    node, found = root.at(path)
    if node.broken:
        return
    missing = path[-1:] if detail["type"] == "missing" else ()
    yield Problem(node.key if about_key and node.key else node.mark, found + missing, _message(node, path, detail))


def _message(node: Node, path: Path, detail: Any) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"unknown key{did_you_mean(str(path[-1]), keys_at(path[:-1]))}"
    if kind == "literal_error":
        allowed = _QUOTED.findall(detail["ctx"]["expected"])
        hint = did_you_mean(node.text, allowed) if node.text and not node.from_env else ""
        return f"must be {one_of(allowed)}{hint}"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    return MESSAGES.get(kind) or str(detail["msg"])
