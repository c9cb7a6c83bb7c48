"""aiohttp's server, set up for a proxy: no router, no access log, the handler ends when its client leaves, errors in JSON."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from gateway.dialects import PLAIN

HEADER_LIMIT = 32 << 10  # bytes in a header line; cookies and long tokens fit
KEEPALIVE = 75.0  # seconds an idle connection is kept, and that a request's head may take to arrive
LATER = 10.0  # seconds after its own limit for a client that stalls at which the kernel gives up on it too
LINGER = 2.0  # seconds in which a client that sends nonsense may read why it is not listened to
PROBE_IDLE, PROBE_EVERY, PROBES = 30, 10, 3  # TCP keepalive: seconds, seconds, count

Unparsed = Callable[[web.BaseRequest, int, str], str]
"""Told of a request that could not be parsed, with the status and code that it is refused with; returns the request's id."""


class Connection(RequestHandler):
    """One client connection."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            notice_silence(sock, self._manager.patience if isinstance(self._manager, HttpServer) else 0.0)

    def data_received(self, data: bytes) -> None:
        """aiohttp answers what it cannot parse after the request that runs; if that waits for the rest of its body, in vain."""
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo) and (running := self._current_request) is not None:
            content = running.content
            if not content.is_eof() and content.exception() is None:
                self._messages.pop()
                content.set_exception(web.RequestPayloadError("malformed"))
                content.feed_eof()

    def close(self) -> None:
        """Take no further request. aiohttp leaves an idle connection open here, but never reads from it again."""
        idle = self._waiter is not None
        super().close()
        if idle and self.transport is not None:
            self.transport.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A request that could not be parsed; everything later is handled by the handler itself."""
        if request.writer.output_size > 0:
            raise ConnectionError("a reply has begun already")
        words = " ".join((message or "The request could not be understood.").split())[:200]
        code = "bad_request" if status < 500 else "internal_error"
        if isinstance(exc, LineTooLong):
            status, code, words = 431, "headers_too_large", f"A line of the request's head has more than {HEADER_LIMIT} bytes."
        headers = {"Server": "warmgate"}
        if status < 500 and isinstance(self._manager, HttpServer):
            headers["X-Request-Id"] = self._manager.unparsed(request, status, code)
        response = LastWords(
            status=status,
            body=PLAIN.error(status, code, words, ""),
            headers=headers,
            content_type="application/json",
            charset="utf-8",
        )
        response.force_close()
        return response


class LastWords(web.Response):
    """A reply after which nothing that the client sends is understood."""

    async def write_eof(self, data: bytes = b"") -> None:
        request = self._req
        await super().write_eof(data)
        if request is not None:
            await part(request)


async def part(request: web.BaseRequest) -> None:
    """Tell the client that nothing more comes, and read on a little. Closing at once, with something unread, would make the
    kernel reset the connection, and the client lose the reply."""
    if request.transport is None:
        return
    request.protocol.close()  # what comes is no longer parsed
    request.transport.write_eof()
    await asyncio.sleep(LINGER)  # cut short when the client closes: that cancels the handler


class HttpServer(web.Server):
    """handler_cancellation is off by default in aiohttp; without it a client that leaves never frees the model."""

    def __init__(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], patience: float, unparsed: Unparsed
    ):
        """patience: seconds that a client may leave what was sent to it unread."""
        super().__init__(handler, handler_cancellation=True)
        self.patience, self.unparsed = patience, unparsed
        self._settings: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": KEEPALIVE,
            "max_line_size": HEADER_LIMIT,
            "max_field_size": HEADER_LIMIT,
            "auto_decompress": False,  # a body that is passed on must stay as it was sent
            "logger": logging.getLogger("warmgate.http"),
        }

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=asyncio.get_running_loop(), **self._settings)


def notice_silence(sock: socket.socket, patience: float) -> None:
    """Have the kernel end a connection whose other side is gone without a word (a closed laptop lid). Names of options differ
    between systems. Unread counts as unacknowledged, so a client that only reads slowly has its whole patience."""
    options = (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", PROBE_IDLE),
        (socket.IPPROTO_TCP, "TCP_KEEPALIVE", PROBE_IDLE),  # macOS
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", PROBE_EVERY),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", PROBES),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", int((patience + LATER) * 1000)),
    )
    for level, name, value in options:
        if (option := getattr(socket, name, None)) is not None:
            try:
                sock.setsockopt(level, option, value)
            except OSError:
                pass  # a Unix socket, or a kernel without it


def listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets, one for each address that the name resolves to, all on one port: clients take `localhost` to be either
    of 127.0.0.1 and ::1. An empty host is every interface. Raises OSError.

    An address that this machine does not have is left out if there is another.
    """
    if not host:
        if socket.has_dualstack_ipv6():
            return [socket.create_server(("", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)]
        return [socket.create_server(("", port), backlog=1024)]
    infos = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            at = opened[0].getsockname()[1] if opened else port
            try:
                opened.append(socket.create_server((address[0], at, *address[2:]), family=family, backlog=1024))
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                absent = error
    except OSError:
        for sock in opened:
            sock.close()
        raise
    if not opened:
        raise absent or OSError(errno.EADDRNOTAVAIL, "the name has no address")
    return opened
