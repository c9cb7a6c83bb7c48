"""Newline-delimited JSON: one object a line, ended by LF or CRLF. Pure, incremental."""

from __future__ import annotations

import re

from gateway.wire.frames import Framer


class Lines(Framer):
    """Cuts a stream into lines, each with its line end."""

    ends = (b"\n",)
    boundary = re.compile(rb"\n")

    __slots__ = ()


def parse(frame: bytes) -> tuple[bytes, bytes]:
    """(b"", the line without its end): the same shape as an event's, so that one tap reads both."""
    return b"", frame.strip()
