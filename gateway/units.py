"""Durations and sizes as people write them: `30s`, `5m`, `64MiB`. Pure.

The `*_PATTERN` constants are what the parsers accept, as anchored regular expressions that JavaScript reads too: they are
part of the configuration's JSON schema. Error sentences never repeat the text that was given: it may have come from a secret.
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,6})?"
_SECONDS = {"w": Fraction(604800), "d": Fraction(86400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1),
            "ms": Fraction(1, 1000)}  # fmt: skip
_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip

DURATION_PATTERN = "^(?=[0-9])(?:0|" + "".join(f"(?:{_NUMBER}{unit})?" for unit in _SECONDS) + ")$"
SIZE_PATTERN = rf"^{_NUMBER} ?(?:[kKmMgGtT][iI]?)?[bB]$|^[0-9]{{1,18}}$"

_DURATION = re.compile(DURATION_PATTERN)
_DURATION_PART = re.compile(rf"({_NUMBER})(ms|[wdhms])")
_SIZE = re.compile(SIZE_PATTERN)


def parse_duration(text: str) -> float:
    """Seconds in `1h30m`, `5m`, `250ms`, `0`. A bare number other than 0 is refused: its unit would be a guess.

    Units go from large to small, each at most once. Raises ValueError with a sentence that says how to write it.
    """
    text = text.strip()
    if not _DURATION.fullmatch(text):
        raise ValueError("not a duration; write a number and a unit such as 250ms, 30s, 5m, 1h30m or 2d")
    return float(sum(Fraction(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)))


def parse_size(text: str) -> int:
    """Bytes in `64MiB`, `20GiB`, `1.5kB` or a plain number, rounded down to whole bytes.

    Raises ValueError with a sentence that says how to write it.
    """
    text = text.strip()
    if not _SIZE.fullmatch(text):
        raise ValueError("not a size; write bytes, or a number and a unit such as 512kB, 64MiB or 20GiB")
    number = text.rstrip(" kKmMgGtTiIbB")
    return int(Fraction(number) * _BYTES[text[len(number) :].strip().lower()])


def show_duration(seconds: float) -> str:
    """A short spelling that parse_duration reads back: `90.0` -> `1m30s`. Exact to the microsecond."""
    rest = round(Fraction(seconds) * 10**6)
    if rest < 10**6:
        return f"{_decimal(rest, 3)}ms" if rest else "0s"
    out = ""
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, int(_SECONDS[unit]) * 10**6)
        out += f"{count}{unit}" if count else ""
    return out + (f"{_decimal(rest, 6)}s" if rest else "")


def show_size(count: int) -> str:
    """`67108864` -> `64MiB`; exact multiples only, else plain bytes, so that nothing is rounded away."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count and count % _BYTES[unit.lower()] == 0:
            return f"{count // _BYTES[unit.lower()]}{unit}"
    return str(count)


def _decimal(count: int, places: int) -> str:
    """`count / 10**places` in plain decimal notation, without trailing zeros."""
    whole, part = divmod(count, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".") if part else str(whole)
