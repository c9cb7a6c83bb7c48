"""gzip and deflate, undone piece by piece. Pure, incremental; a small input never becomes a huge output at once."""

from __future__ import annotations

import zlib

CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
"""Values of Content-Encoding that are understood."""

PIECE = 256 << 10  # bytes that one call gives at most

_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's wbits


class Undecodable(ValueError):
    """The data is not in the coding that it claims, or was cut."""


class Inflater:
    """One body. `more` turns false when all that was fed has been given back; `end` checks that nothing is missing."""

    def __init__(self, coding: str):
        self._deflate = coding == "deflate"
        self._reader: zlib._Decompress | None = None  # an empty body is in every coding
        self._input = b""
        self.more = False

    def take(self, data: bytes = b"") -> bytes:
        """Feed data, which may be empty, and get what can be had of it, at most PIECE bytes. Raises Undecodable."""
        data = self._input + data
        if self._reader is None:
            if not data:
                return b""
            wbits = _GZIP if not self._deflate else _ZLIB if data[0] & 15 == 8 else _RAW  # "deflate" comes in two forms
            self._reader = zlib.decompressobj(wbits)
        if self._reader.eof:  # gzip may have several members, and zeros behind them
            data = data.lstrip(b"\0")
            if not data or self._deflate:
                self._input, self.more = b"", False
                return b""
            self._reader = zlib.decompressobj(_GZIP)
        try:
            out = self._reader.decompress(data, PIECE)
        except zlib.error as error:
            raise Undecodable(str(error)) from error
        self._input = self._reader.unused_data or self._reader.unconsumed_tail
        self.more = bool(self._input) or len(out) == PIECE
        return out

    def end(self) -> None:
        """Raises Undecodable if the data was cut."""
        if self._reader is not None and not self._reader.eof:
            raise Undecodable("cut short")
