"""Bytes in, whole frames out: the holding-back that event streams and JSON lines have in common. Pure, incremental.

A frame runs up to and including its boundary. Network reads end anywhere, so what follows the last boundary is held until its
own boundary comes; a stream that dies in the middle of a frame can then still be closed with a clean error frame. Holding ends
at `HOLD`: a frame larger than that is forwarded as it comes, and still collected for the reader, up to `LOOK`.
"""

from __future__ import annotations

import re
from typing import ClassVar

HOLD = 64 * 1024
"""Bytes of an incomplete frame that may be kept from the client (exceeded by one read at most)."""

LOOK = 8 * 1024 * 1024
"""Bytes of the largest frame that is read at all. The last event of some APIs repeats the whole reply or its tokens."""


class Framer:
    """Cuts one stream. Subclasses say what a boundary is: `ends`, its spellings, and `boundary`, the same as a pattern."""

    ends: ClassVar[tuple[bytes, ...]]
    boundary: ClassVar[re.Pattern[bytes]]

    __slots__ = ("_gone", "_held", "_lost")

    def __init__(self) -> None:
        self._held = bytearray()
        self._gone = 0  # bytes of _held that were forwarded already
        self._lost = False  # _held is only the tail of a frame larger than LOOK

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """(bytes to forward now, the whole frames among them).

        The two differ only for frames above `HOLD`: their bytes are forwarded early, and the whole frame is given later, when
        it is complete. Unless the second is empty, both end at the same boundary.
        """
        if not self._held and data.endswith(self.ends):
            return data, data
        return self._join(data)

    @property
    def torn(self) -> bool:
        """Whether a part of an incomplete frame has been forwarded."""
        return self._gone > 0

    def close(self) -> tuple[bytes, bytes]:
        """(bytes still to forward, the last frame, which has no boundary). The framer is empty afterwards."""
        held, gone, lost = bytes(self._held), self._gone, self._lost
        self._reset()
        return held[gone:], b"" if lost else held

    def split(self, whole: bytes) -> list[bytes]:
        """The frames in `whole`, each with its boundary. Joined they are `whole` again."""
        frames, start = [], 0
        for match in self.boundary.finditer(whole):
            end = match.end()
            frames.append(whole[start:end])
            start = end
        if start < len(whole):
            frames.append(whole[start:])
        return frames

    def _join(self, data: bytes) -> tuple[bytes, bytes]:
        held = self._held
        overlap = max(0, len(held) - 2)  # a boundary of up to three bytes may lie across two reads
        held += data
        end = self._last_end(overlap)
        if not end:
            return self._overflow(), b""
        forward = bytes(held[self._gone : end])
        whole = bytes(held[self._first_end() : end]) if self._lost else bytes(held[:end])
        del held[:end]
        self._gone, self._lost = 0, False
        return forward, whole

    def _overflow(self) -> bytes:
        """What must be forwarded although its frame is not complete."""
        held = self._held
        if len(held) <= HOLD and not self._gone:
            return b""
        forward = bytes(held[self._gone :])
        if len(held) > LOOK:
            del held[:-2]
            self._lost = True
        self._gone = len(held)
        return forward

    def _last_end(self, start: int) -> int:
        """Where the last boundary from `start` on ends, 0 if there is none."""
        last = 0
        for end in self.ends:
            at = self._held.rfind(end, max(start, last - 2))  # only what ends behind the one that was found
            if at >= 0:
                last = max(last, at + len(end))
        return last

    def _first_end(self) -> int:
        return min(at + len(end) for end in self.ends if (at := self._held.find(end)) >= 0)

    def _reset(self) -> None:
        self._held, self._gone, self._lost = bytearray(), 0, False
