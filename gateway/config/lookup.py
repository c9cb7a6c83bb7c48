"""Which file is the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def find(explicit: Path | None, env: Mapping[str, str]) -> Path | None:
    """`--config`, else `$WARMGATE_CONFIG`, `./warmgate.yaml`, `$XDG_CONFIG_HOME/warmgate/config.yaml` (`~/.config`), else None.

    A file that was named is returned whether it exists or not, so that a typing error is not passed over in silence.
    """
    if explicit is not None:
        return explicit
    if named := env.get("WARMGATE_CONFIG"):
        return Path(named)
    return next((place for place in places(env) if place.is_file()), None)


def places(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Where a configuration is looked for when none is named."""
    base = env.get("XDG_CONFIG_HOME") or ""
    home = env.get("HOME") or str(Path.home())
    user = Path(base) if Path(base).is_absolute() else Path(home) / ".config"  # relative ones count as not set (XDG base dirs)
    return Path("warmgate.yaml"), user / "warmgate" / "config.yaml"
