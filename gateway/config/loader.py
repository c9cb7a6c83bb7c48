"""File or text -> Config, or one report of everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.config.bind import bind
from gateway.config.checks import check
from gateway.config.document import read
from gateway.config.problems import InvalidConfig
from gateway.config.root import Config
from gateway.errors import ConfigError

MAX_BYTES = 2**20


def load(path: Path, env: Mapping[str, str]) -> Config:
    """The configuration in a file. Raises ConfigError, whose text is the report."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path}: the configuration cannot be read: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise _too_large(str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: the configuration is not UTF-8 text; save it as UTF-8") from None
    return loads(text, str(path), env)


def loads(text: str, name: str, env: Mapping[str, str]) -> Config:
    """The configuration in a text. `name` is its file name: used in reports, and relative paths start beside it.

    Raises ConfigError, whose text is the report.
    """
    if len(text) > MAX_BYTES:
        raise _too_large(name)
    document = read(name, text, env)
    config, wrong_values = bind(document.root, Path(name).parent)
    problems = [*document.problems, *wrong_values, *check(document.root)]
    if config is None or problems:
        raise InvalidConfig(document.source, problems)
    return config


def _too_large(name: str) -> ConfigError:
    return ConfigError(f"{name}: the configuration is larger than {MAX_BYTES // 2**20} MiB")
