"""Durations, sizes and rates as people write them: `30s`, `5m`, `64MiB`, `300/s`. Pure."""

from __future__ import annotations

import re

_NUMBER = r"(\d+(?:\.\d+)?)"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_DURATION = re.compile(rf"{_NUMBER}(ms|[smhdw])")
_SIZE = re.compile(rf"{_NUMBER}\s*([kmgt]?i?b?)", re.IGNORECASE)
_RATE = re.compile(rf"{_NUMBER}\s*/\s*s")


def parse_duration(text: str) -> float:
    """Seconds in `1h30m`, `5m`, `250ms`, `0`. A bare number other than 0 is refused: its unit would be a guess.

    Raises ValueError with a sentence that says how to write it.
    """
    text = text.strip()
    if text in ("0", "0s"):
        return 0.0
    total, at = 0.0, 0
    for match in _DURATION.finditer(text):
        if match.start() != at:
            break
        total, at = total + float(match[1]) * _SECONDS[match[2]], match.end()
    if at != len(text) or not text:
        raise ValueError(f"{text!r} is not a duration; write a number and a unit such as 250ms, 30s, 5m, 1h30m or 2d")
    return total


def parse_size(text: str) -> int:
    """Bytes in `64MiB`, `20GiB`, `512kB` or a plain number. Raises ValueError with a sentence that says how to write it."""
    match = _SIZE.fullmatch(text.strip())
    if not match or match[2].lower() not in _BYTES:
        raise ValueError(f"{text!r} is not a size; write bytes, or a number and a unit such as 512kB, 64MiB or 20GiB")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def parse_rate(text: str) -> float:
    """Tokens per second in `300/s`. Raises ValueError with a sentence that says how to write it."""
    match = _RATE.fullmatch(text.strip())
    if not match or float(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a rate; write tokens per second such as 300/s")
    return float(match[1])


def show_duration(seconds: float) -> str:
    """The shortest spelling that parse_duration reads back: `90.0` -> `1m30s`."""
    if seconds == 0:
        return "0s"
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    out, rest = "", round(seconds, 3)
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _SECONDS[unit])
        out += f"{int(count)}{unit}" if count else ""
    return out + (f"{rest:g}s" if rest else "")


def show_size(count: int) -> str:
    """`67108864` -> `64MiB`; exact multiples only, else plain bytes, so that nothing is rounded away."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count and count % _BYTES[unit.lower()] == 0:
            return f"{count // _BYTES[unit.lower()]}{unit}"
    return str(count)
