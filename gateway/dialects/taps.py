"""The taps: bytes on their way to the client, and the reader that looks at a copy. Pure; no bytes make them raise.

Readers are small, one per API (`Reader` below); the two taps are shared. After visible content has come, events are parsed only
if they contain one of the reader's `news` or `members`: words without which an event cannot say anything new.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from gateway.dialects.base import Seen
from gateway.dialects.counts import Json, as_dict, merge
from gateway.values import First, Usage
from gateway.wire.frames import HOLD, LOOK, Framer
from gateway.wire.lenient import loads

Parse = Callable[[bytes], tuple[bytes, bytes]]

ESCAPED = b"\\u00"
"""Letters may be written `\\u0065`: what contains such an escape is parsed, so that no spelling of a key is overlooked."""

ERROR_TEXT = 300
"""Characters of an in-band error that are kept."""


class Reader:
    """What the events of one API mean. One per reply; writes `seen`.

    news: words; members: a pattern, for members that many events carry as null.
    """

    news: ClassVar[tuple[bytes, ...]] = ()
    members: ClassVar[re.Pattern[bytes] | None] = None
    terminator: ClassVar[bytes] = b""

    def __init__(self) -> None:
        self.seen = Seen()

    def chunk(self, name: str, doc: Json) -> bool:
        """One parsed event. True: it holds token counts and nothing for a client that did not ask for them."""
        raise NotImplementedError

    def document(self, doc: Json) -> None:
        """A whole reply that was not streamed."""
        raise NotImplementedError

    def read(self, event: bytes, data: bytes) -> bool:
        """One event as it came. The result is that of `chunk`."""
        if self.terminator and data.startswith(self.terminator):
            self.seen.finished = True
            return False
        doc = loads(data) if data else None
        name = event.decode("ascii", "replace")
        self.note_error(name, data.decode("utf-8", "replace") if doc is None else doc)
        return isinstance(doc, dict) and self.chunk(name, doc)

    def whole(self, data: bytes) -> None:
        """A reply of one JSON document. One that is cut short or no JSON leaves `seen` as it is."""
        doc = loads(data)
        for part in doc if isinstance(doc, list) else [doc]:
            self.note_error("", part)
            if isinstance(part, dict):
                self.document(part)
        self.seen.finished = isinstance(doc, (dict, list))

    def mark(self, kind: First) -> None:
        """Content of this kind has come."""
        self.seen.first = self.seen.first or kind
        self.seen.visible = self.seen.visible or kind != "reasoning"

    def count(self, usage: Usage) -> None:
        self.seen.usage = merge(self.seen.usage, usage)

    def note_error(self, name: str, doc: Any) -> None:
        """Keeps the text of the first in-band error: an `error` member, an object or event of that name, or the bare event."""
        if self.seen.error is None and (says_error(doc) or name == "error"):
            self.seen.error = error_text(doc)


def says_error(doc: Any) -> bool:
    return isinstance(doc, dict) and bool(doc.get("error") or doc.get("object") == "error" or doc.get("type") == "error")


def error_text(doc: Any) -> str:
    """A short text for any shape of error: {"error": {"message"}}, {"error": "text"}, {"message"}, or none of them."""
    inner = as_dict(doc).get("error") or doc
    text = as_dict(inner).get("message") or as_dict(inner).get("type") or inner
    return (text if isinstance(text, str) else "error")[:ERROR_TEXT] or "error"


class StreamTap:
    """Watches a stream of events. See `base.Tap`."""

    def __init__(self, framer: Framer, parse: Parse, reader: Reader, separator: bytes, hide: bool = False) -> None:
        self.seen = reader.seen
        self._framer = framer
        self._parse = parse
        self._reader = reader
        self._news, self._members = reader.news, reader.members
        self._separator = separator
        self._hide = hide

    def feed(self, data: bytes) -> bytes:
        forward, whole = self._framer.feed(data)
        if whole and (not self.seen.visible or self._has_news(whole)):
            return self._study(whole, forward)
        return forward

    def close(self) -> bytes:
        forward, whole = self._framer.close()
        return self._study(whole, forward) if whole else forward

    @property
    def at_boundary(self) -> bool:
        return not self._framer.torn

    def abandon(self) -> bytes:
        torn = self._framer.torn
        self._framer.close()
        return self._separator if torn else b""

    def _has_news(self, whole: bytes) -> bool:
        for word in self._news:
            if word in whole:
                return True
        if self._members and self._members.search(whole):
            return True
        return b"\\" in whole and ESCAPED in whole

    def _study(self, whole: bytes, forward: bytes) -> bytes:
        """Reads the frames in `whole`; gives back `forward` less the hidden ones."""
        kept, start = [], 0
        at = len(forward) - len(whole)  # where a frame lies in `forward`; before 0 if its head was forwarded earlier
        for frame in self._framer.split(whole):
            end = at + len(frame)
            if self._look(frame) and self._hide and len(frame) <= HOLD:
                kept.append(forward[start:at])
                start = end
            at = end
        return b"".join((*kept, forward[start:])) if kept else forward

    def _look(self, frame: bytes) -> bool:
        """Has the reader look at one frame, if it may say something new. The result is the reader's."""
        if self.seen.visible and not self._has_news(frame):
            return False
        event, data = self._parse(frame) if len(frame) <= LOOK else (b"", b"")
        return self._reader.read(event, data)


class DocumentTap:
    """Watches a reply of one JSON document, whose bytes are forwarded at once. See `base.Tap`."""

    def __init__(self, reader: Reader) -> None:
        self.seen = reader.seen
        self._reader = reader
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size <= LOOK:
            self._parts.append(data)
        else:
            self._parts = [b"".join((*self._parts, data))[-64:]]
        return data

    def close(self) -> bytes:
        data, self._parts = b"".join(self._parts), []
        if data and self._size > LOOK:
            self.seen.finished = data.rstrip().endswith((b"}", b"]"))  # too large to read: all that is known is its end
        elif data:
            self._reader.whole(data)
        return b""

    @property
    def at_boundary(self) -> bool:
        return self._size == 0

    def abandon(self) -> bytes:
        self._parts = []
        return b""
