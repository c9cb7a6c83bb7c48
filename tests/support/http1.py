"""Just enough HTTP/1.1 to read both directions of a raw socket exactly. Pure: bytes in, heads and pieces of bodies out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

Headers = list[tuple[str, str]]
Framing = Literal["length", "chunked", "close"]


def split_head(buffer: bytearray) -> tuple[str, Headers] | None:
    """Takes a complete head out of the buffer: its first line, and the headers in order as they were spelled. None: not yet."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    del buffer[: end + 4]
    return first, [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]


def header(headers: Iterable[tuple[str, str]], name: str, default: str = "") -> str:
    """The first value of a header, whatever its case."""
    return next((value for key, value in headers if key.lower() == name.lower()), default)


def head_bytes(first: str, headers: Sequence[tuple[str, str]]) -> bytes:
    return "".join([first, "\r\n", *(f"{name}: {value}\r\n" for name, value in headers), "\r\n"]).encode("latin-1")


def chunk_bytes(data: bytes) -> bytes:
    """One chunk of a chunked body; of no bytes at all, its end."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Body:
    """Reads one message body out of a growing buffer.

    `take` removes what it understands and gives back the pieces: whole chunks of a chunked body, else what was there.
    `complete` turns true at the end that the framing promised; a close-delimited body never is: the caller sees the end.
    """

    def __init__(self, framing: Framing, length: int = 0):
        self.framing: Framing = framing
        self.complete = framing == "length" and length == 0
        self._missing = length

    @classmethod
    def of(cls, headers: Headers, *, otherwise: Framing) -> Body:
        """otherwise: the framing where no header gives one: `length` (of 0) for requests, `close` for responses."""
        if "chunked" in header(headers, "transfer-encoding").lower():
            return cls("chunked")
        length = header(headers, "content-length")
        return cls("length", int(length)) if length else cls(otherwise)

    def take(self, buffer: bytearray) -> list[bytes]:
        if self.framing == "chunked":
            return self._take_chunks(buffer)
        piece = bytes(buffer) if self.framing == "close" else bytes(buffer[: self._missing])
        del buffer[: len(piece)]
        if self.framing == "length":
            self._missing -= len(piece)
            self.complete = self._missing == 0
        return [piece] if piece else []

    def _take_chunks(self, buffer: bytearray) -> list[bytes]:
        pieces = []
        while not self.complete and (end := buffer.find(b"\r\n")) >= 0:
            size = int(buffer[:end].split(b";")[0], 16)
            if size == 0:  # trailers are not expected: the body ends with the next empty line
                if (stop := buffer.find(b"\r\n\r\n")) < 0:
                    break
                del buffer[: stop + 4]
                self.complete = True
            elif len(buffer) < end + 2 + size + 2:
                break
            else:
                pieces.append(bytes(buffer[end + 2 : end + 2 + size]))
                del buffer[: end + 2 + size + 2]
        return pieces
