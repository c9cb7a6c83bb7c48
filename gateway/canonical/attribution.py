"""Rule `attribution`: the rotating billing header that one client puts in front of its system text. Pure.

It is for that client's own servers and means nothing to a model, so it is dropped, the only thing that ever is. Only where it
stands first; the same words elsewhere are somebody's text.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.canonical import patterns
from gateway.canonical.cuts import Cut

NAME = "attribution"

_HEADER = patterns.compile(r"^(?:\s*x-anthropic-billing-header\s*[:=][^\n]*(?:\n|$))+")


def first(texts: Sequence[str]) -> int:
    """How many of the texts have nothing but headers before them."""
    for at, text in enumerate(texts):
        if _HEADER.sub("", text, count=1).strip():
            return at + 1
    return len(texts)


def cut(text: str) -> Cut | None:
    """The header at the start of a system text before which nothing stands."""
    match = _HEADER.match(text)
    return Cut(0, match.end(), NAME, "", "", "", "") if match else None
