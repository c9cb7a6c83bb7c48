"""HTTP clients on raw sockets: they send exactly these bytes, see when which bytes came, and leave as they like.

    async with RawClient(gateway.url) as client:
        await client.send(post("/v1/chat/completions", {"model": "tiny", "messages": [...], "stream": True}))
        response = await client.response()
        async for piece in response.pieces():
            ...
        client.rst()

Nothing is read ahead: a client that does not ask for more holds the server back, as soon as the kernel's buffers are full.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from tests.support.http1 import Body, Headers, head_bytes, header, split_head

READ = 65536


def request_bytes(method: str, target: str, body: bytes = b"", *headers: tuple[str, str], host: str = "localhost") -> bytes:
    """A request with Host, and a Content-Length if there is a body; further headers follow as they are given."""
    length = [("Content-Length", str(len(body)))] if body else []
    return head_bytes(f"{method} {target} HTTP/1.1", [("Host", host), *length, *headers]) + body


def post(target: str, value: Any, *headers: tuple[str, str]) -> bytes:
    """A POST of JSON."""
    return request_bytes("POST", target, orjson.dumps(value), ("Content-Type", "application/json"), *headers)


@dataclass(frozen=True, slots=True)
class Piece:
    """Body bytes (one whole chunk of a chunked body, else what one read gave), and the monotonic second at which they came."""

    at: float
    data: bytes


@dataclass(slots=True)
class Response:
    """A response being read. at: monotonic seconds of its head; arrived: the pieces read so far, framing taken off."""

    status: int
    headers: Headers
    at: float
    _client: RawClient
    _body: Body
    arrived: list[Piece] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the body came to the end that its framing promised. Never so for a close-delimited one: ask `closed`."""
        return self._body.complete

    @property
    def closed(self) -> str | None:
        """How the server closed the connection: `eof`, `reset`, or None as far as was read."""
        return self._client.closed

    @property
    def body(self) -> bytes:
        """What was read so far."""
        return b"".join(piece.data for piece in self.arrived)

    def header(self, name: str, default: str = "") -> str:
        return header(self.headers, name, default)

    def json(self) -> Any:
        return orjson.loads(self.body)

    async def pieces(self) -> AsyncIterator[Piece]:
        """Further pieces until the body is complete or the connection closed."""
        while True:
            for data in self._body.take(self._client.buffer):
                self.arrived.append(Piece(self._client.last_read, data))
                yield self.arrived[-1]
            if self._body.complete or not await self._client.fill():
                return

    async def read(self) -> bytes:
        """The whole body, or what came of it before the connection closed."""
        async for _ in self.pieces():
            pass
        return self.body

    async def read_until(self, wanted: bytes) -> bool:
        """Reads until the body contains these bytes; False if it ends without them."""
        if wanted in self.body:
            return True
        async for _ in self.pieces():
            if wanted in self.body:
                return True
        return False


class RawClient:
    """One connection. receive_buffer: SO_RCVBUF in bytes (the kernel doubles it), for a client that does not read."""

    def __init__(self, url: str, *, receive_buffer: int | None = None):
        self._address = (urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or 80)
        self._receive_buffer = receive_buffer
        self.buffer = bytearray()
        self.last_read = 0.0
        self.closed: str | None = None
        self.socket: socket.socket

    async def __aenter__(self) -> Self:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(self.socket, self._address)
        except BaseException:
            self.socket.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fin()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def send_slowly(self, data: bytes, interval: float = 1.0, size: int = 1) -> None:
        """`size` bytes, then `interval` seconds of nothing, and so on. Raises ConnectionError if the server gives up."""
        for at in range(0, len(data), size):
            await self.send(data[at : at + size])
            await asyncio.sleep(interval)

    async def response(self, *, method: str = "POST") -> Response:
        """Reads the head of the next response, leaving out 1xx ones. Raises ConnectionError if there is none."""
        while True:
            while (head := split_head(self.buffer)) is None:
                if not await self.fill():
                    raise ConnectionError(f"the connection closed ({self.closed}) before a response")
            first, headers = head
            status = int(first.split(" ")[1])
            if status >= 200:
                bodiless = method == "HEAD" or status in (204, 304)
                body = Body("length") if bodiless else Body.of(headers, otherwise="close")
                return Response(status, headers, self.last_read, self, body)

    async def fill(self) -> bool:
        """Reads once into the buffer. False when the connection is closed, and `closed` tells how."""
        if self.closed:
            return False
        try:
            data = await asyncio.get_running_loop().sock_recv(self.socket, READ)
        except ConnectionResetError:
            self.closed = "reset"
            return False
        self.last_read = time.monotonic()
        self.buffer += data
        if not data:
            self.closed = "eof"
        return bool(data)

    def fin(self) -> None:
        """Leaves in an orderly way. (The kernel makes a reset of it if unread bytes are waiting.)"""
        self.socket.close()

    def half_close(self) -> None:
        """Sends FIN and goes on reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def rst(self) -> None:
        """Leaves with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


async def fetch(url: str, value: Any = None, *headers: tuple[str, str], method: str = "", within: float = 10.0) -> Response:
    """One request on its own connection, read to the end: GET, or POST of `value` as JSON. Raises TimeoutError."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    method = method or ("GET" if value is None else "POST")
    body = b"" if value is None else orjson.dumps(value)
    content = [] if value is None else [("Content-Type", "application/json")]
    async with asyncio.timeout(within), RawClient(url) as client:
        await client.send(request_bytes(method, target, body, *content, *headers, host=parts.netloc))
        response = await client.response(method=method)
        await response.read()
    return response


def events(body: bytes) -> list[Any]:
    """The JSON of each `data:` line of an event stream in which every event has one; `[DONE]` stays a string."""
    lines = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
    return ["[DONE]" if line == b"[DONE]" else orjson.loads(line) for line in lines]


def lines(body: bytes) -> list[Any]:
    """The JSON of each line of an NDJSON stream."""
    return [orjson.loads(line) for line in body.splitlines() if line]
