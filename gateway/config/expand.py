"""`${VAR}`, `${VAR:-default}` and `$${` in one scalar that is already parsed: a value can change no structure. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"(?P<literal>\$\$\{)|\$\{(?P<body>[^}]*)(?P<end>\}?)")
_BODY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")  # NUL and lone surrogates


def is_writable(text: str) -> bool:
    """Whether the text can be written as UTF-8 and given to the system."""
    return not _UNWRITABLE.search(text)


def has_reference(text: str) -> bool:
    return "${" in text


def expand(text: str, env: Mapping[str, str]) -> str:
    """The text with its references replaced. As in a shell, `:-` also covers a variable that is set to nothing.

    Raises ValueError with a sentence that names the variable, never its value.
    """
    return _REFERENCE.sub(lambda match: _replacement(match, env), text)


def escape(text: str) -> str:
    """The spelling that expand reads back as this text."""
    return text.replace("${", "$${")


def _replacement(match: re.Match[str], env: Mapping[str, str]) -> str:
    if match["literal"]:
        return "${"
    body = _BODY.fullmatch(match["body"])
    if body is None or not match["end"] or "${" in match["body"]:
        raise ValueError("a ${ must be ${VAR} or ${VAR:-default}, not nested; write $${ where ${ itself is meant")
    name, default = body["name"], body["default"]
    value = env.get(name)
    if value is None and default is None:
        raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-}} if it may be empty")
    value = default if default is not None and not value else value or ""
    if not is_writable(value):
        raise ValueError(f"the variable {name} is not UTF-8 text")
    return value
