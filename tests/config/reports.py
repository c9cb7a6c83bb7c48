"""Short ways to load a text and to look at what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.config import Config, InvalidConfig, loads, show_path


def ok(text: str, env: Mapping[str, str] | None = None) -> Config:
    return loads(text, "warmgate.yaml", env or {})


def report(text: str, env: Mapping[str, str] | None = None) -> str:
    with pytest.raises(InvalidConfig) as caught:
        ok(text, env)
    return str(caught.value)


def wrong(text: str, env: Mapping[str, str] | None = None) -> list[str]:
    """`line:column path: message` of each problem."""
    with pytest.raises(InvalidConfig) as caught:
        ok(text, env)
    return [f"{p.mark.line + 1}:{p.mark.column + 1} {show_path(p.path)}: {p.message}" for p in caught.value.problems]
