"""The effective configuration: every default filled in, in the user's own spelling, secrets masked."""

from __future__ import annotations

from typing import Any

from gateway.config.expand import escape
from gateway.config.root import Config


def effective(config: Config) -> dict[str, Any]:
    """Plain data that would load as the same configuration again, but for its secrets, which are `***`."""
    shown: dict[str, Any] = _escaped(config.model_dump(mode="json", exclude_none=True))
    return shown


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _escaped(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return escape(value) if isinstance(value, str) else value
