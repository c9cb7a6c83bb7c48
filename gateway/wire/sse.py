"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). Pure, incremental.

Lines may end in LF or CRLF, also mixed, or in lone CRs, as the standard allows.
"""

from __future__ import annotations

import re

from gateway.wire.frames import Framer

_BOM = b"\xef\xbb\xbf"

COMMENT = b": keep-alive\n\n"
"""An event that carries nothing."""


class Events(Framer):
    """Cuts a stream into events, each with the blank line that ends it."""

    ends = (b"\n\n", b"\n\r\n", b"\r\r")
    boundary = re.compile(rb"\n\r?\n|\r\r")

    __slots__ = ()


def parse(frame: bytes) -> tuple[bytes, bytes]:
    """(event name, data) of one frame, b"" where the frame has none. White space around the data is dropped."""
    if frame.startswith(b"data:") and frame.find(b"\n") == len(frame) - 2 and frame.endswith(b"\n"):
        return b"", frame[5:].strip()  # one line, as most events are
    name, data = b"", []
    for line in frame.removeprefix(_BOM).splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.strip()
    return name, b"\n".join(data).strip()
