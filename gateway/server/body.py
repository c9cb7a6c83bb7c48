"""Reading a request's body: all of it up to a limit, or its head and then piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from aiohttp.web import BaseRequest, RequestPayloadError

from gateway.dispatch.deadline import Deadline
from gateway.errors import BadRequest, Refusal, TooLarge
from gateway.units import show_size

SLOWEST = 16 << 10  # bytes a second that a body must bring on the average, once its grace is over
MEMBERS = 16  # of a compressed body, each of which means a copy of what follows it
EXPECT = "100-continue"


async def read_body(request: BaseRequest, limit: int, grace: float, deadline: Deadline) -> bytes:
    """The whole body as sent. limit: bytes; grace: seconds in which it must arrive, and more the larger it is.

    Raises TooLarge, BadRequest; a body that is too slow ends in the deadline.
    """
    if (request.content_length or 0) > limit:
        raise too_large(limit)
    await invite(request)
    pieces, size = [], 0
    began = deadline.move(grace, "client")
    while not request.content.at_eof():
        piece = await _next(request)
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        # A body that drips forever holds a place forever: each byte buys a little time, not a new grace.
        deadline.move(max(0.0, began + grace + size / SLOWEST - deadline.now()), "client")
    deadline.stop()
    return b"".join(pieces)


async def read_head(request: BaseRequest, size: int, grace: float, deadline: Deadline) -> bytes:
    """At least `size` bytes of the body, or all of it. The rest is still to be read."""
    await invite(request)
    head = b""
    deadline.move(grace, "client")
    async for piece in _pieces(request):
        head += piece
        deadline.move(grace, "client")
        if len(head) >= size:
            break
    deadline.stop()
    return head


async def rest_of(request: BaseRequest, head: bytes, grace: float, patience: float, deadline: Deadline) -> AsyncIterator[bytes]:
    """The body as a stream, beginning with what has been read of it.

    grace: seconds in which the client must send more; patience: seconds in which the backend must take it, or answer.
    """
    if head:
        deadline.move(patience, "upstream")
        yield head
    deadline.move(grace, "client")
    async for piece in _pieces(request):
        deadline.move(patience, "upstream")
        yield piece
        deadline.move(grace, "client")
    deadline.move(patience, "upstream")


async def invite(request: BaseRequest) -> None:
    """Answer `Expect: 100-continue`: only now, when nothing speaks against the body."""
    expected = request.headers.get("Expect")
    if expected is None:
        return
    if expected.strip().lower() != EXPECT:
        raise Refusal("The only expectation that is understood is 100-continue.", status=417, code="expectation_failed")
    if request.version >= (1, 1) and request.transport is not None and not request.content.is_eof():
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def decompress(data: bytes, encoding: str, limit: int) -> bytes | None:
    """The body without its Content-Encoding; None for an encoding that is not read here. Raises TooLarge, BadRequest."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    for wbits in (47, -15) if encoding == "deflate" else (31,):  # "deflate" is sent with and without the zlib header
        try:
            return _inflate(data, wbits, limit)
        except zlib.error:
            continue
    raise BadRequest(f"The body is not valid {encoding}.", code="invalid_encoding")


def _inflate(data: bytes, wbits: int, limit: int) -> bytes:
    """All members of a compressed body: gzip allows several. Raises TooLarge, zlib.error."""
    out = b""
    for _ in range(MEMBERS):
        reader = zlib.decompressobj(wbits)
        out += reader.decompress(data, limit + 1 - len(out))
        if len(out) > limit:
            raise too_large(limit)
        if not reader.eof:
            raise zlib.error("cut short")
        data = reader.unused_data
        if not data:
            return out
    raise zlib.error("too many members")


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {show_size(limit)}; shorten the prompt, or raise limits.body.")


async def _pieces(request: BaseRequest) -> AsyncIterator[bytes]:
    while piece := await _next(request):
        yield piece


async def _next(request: BaseRequest) -> bytes:
    """What comes next of the body, b"" at its end. Not aiohttp's line iterator, which has a limit on the length of a line."""
    try:
        return await request.content.readany()
    except RequestPayloadError as error:
        raise BadRequest("The body ended early or its chunks are malformed.", code="invalid_body") from error
