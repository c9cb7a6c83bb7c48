"""A reply as a client hears it: every byte, when it came, and what the gateway's own tap makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.dialects import Seen
from gateway.dialects.counts import as_dict
from gateway.wire import ndjson, sse
from gateway.wire.frames import Framer
from gateway.wire.lenient import loads

LONGEST = 160
"""Characters of a server's own words that are told."""

READ = 65_536
"""Bytes of them that are looked at."""

Event = tuple[str, Any]
"""Name, '' where it has none, and the parsed data: an object, or the bytes where they are no JSON (`[DONE]`)."""


@dataclass(slots=True)
class Heard:
    """A reply, complete or left early. headers, first, end: seconds since the request was sent; first: of the first content;
    mask: takes out of the words what tells about a user's machine."""

    path: str
    status: int
    media: str
    headers: float
    seen: Seen = field(default_factory=Seen)
    first: float | None = None
    end: float = 0.0
    pieces: list[bytes] = field(default_factory=list)
    mask: Callable[[str], str] = str

    @property
    def raw(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def body(self) -> Any:
        """The reply as JSON; None if it is none."""
        return loads(self.raw)

    @property
    def doc(self) -> dict[str, Any]:
        """The reply as one JSON object; {} if it is none."""
        return dict(as_dict(self.body))

    @property
    def words(self) -> str:
        """The beginning of the body, in one line, masked before it is cut, so that no part of a masked name is left."""
        return " ".join(self.mask(self.raw[:READ].decode("utf-8", "replace")).split())[:LONGEST]

    def events(self) -> list[Event]:
        """The events of a stream; comments are left out."""
        lines = self.media == "application/x-ndjson"
        framer: Framer = ndjson.Lines() if lines else sse.Events()
        parse = ndjson.parse if lines else sse.parse
        found = []
        for frame in framer.split(self.raw):
            name, data = parse(frame)
            if data:
                doc = loads(data)
                found.append((name.decode("ascii", "replace"), data if doc is None else doc))
        return found
