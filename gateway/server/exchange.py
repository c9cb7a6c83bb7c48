"""One exchange with a client: the request, what has been sent back so far, and how a failure is told.

Everything that writes to a client goes through here, so that each wait for a slow reader has the same limit and each error has
the shape that the caller's API expects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict

from gateway.dialects.base import Dialect, Tap
from gateway.dispatch.deadline import Deadline, Expired
from gateway.dispatch.flight import Flight
from gateway.errors import Answerable, Busy, Refusal, SlowRequest, UpstreamError, UpstreamSilent
from gateway.server.guard import cors_headers
from gateway.server.http import part
from gateway.values import Outcome

if TYPE_CHECKING:
    from gateway.config import Listener
    from gateway.server.gateway import Generation

log = logging.getLogger("warmgate.server")

LAST_WORDS = 2.0  # seconds to get an error event out to a client in the middle of a stream
MAX_TRANSCRIPT = 4 << 20  # bytes of a reply that are kept to be read at its end
MAX_SEGMENT = 64 << 10  # a single write to the client is at most this long, so that a slow reader costs little memory


class Stream(StreamResponse):
    """A reply with the headers that it was given: aiohttp would call one without a Content-Type an octet-stream."""

    async def _prepare_headers(self) -> None:
        typed = "Content-Type" in self.headers
        await super()._prepare_headers()
        if not typed:
            self.headers.popall("Content-Type", None)


class Document(Stream):
    """A reply whose head need not go out before its body: one system call for both."""

    _send_headers_immediately = False


class Exchange:
    """Written by the handler of its request only. deadline: the one limit that is running now."""

    def __init__(self, request: BaseRequest, flight: Flight, dialect: Dialect, now: Generation, door: Listener):
        self.request, self.flight, self.dialect, self.now, self.door = request, flight, dialect, now, door
        self.response: StreamResponse | None = None
        self.streaming = False
        self.over = False  # the outcome is known, and what is left is to close: a client that leaves now changes nothing
        self.early = False  # a heartbeat has begun a document, of which nothing has been sent but white space
        self.moves = 0  # how often a backend was gone before anything of its reply had come
        self.wrote = False  # something of a backend's reply has been passed on
        self.sent = 0.0  # when something was last sent, in the loop's time
        self.tap: Tap | None = None
        self.transcript: bytearray | None = None  # what was written, kept for who asked by putting one here
        self.origin = request.headers.get("Origin")
        self.drop: frozenset[str] = frozenset()  # headers that carried the gateway's own key
        self.deadline = Deadline()
        self._patience = now.config.limits.client_stall

    async def start(self, status: int, headers: CIMultiDict[str], *, streaming: bool = False) -> None:
        """Send status and headers; waits as `write` does."""
        self.deadline.move(self._patience, "client")
        await self.begin(status, headers, streaming=streaming)

    async def begin(self, status: int, headers: CIMultiDict[str], *, streaming: bool) -> None:
        """Send status and headers. A body of unknown length goes out chunked, or until the connection closes on HTTP/1.0."""
        response = (Stream if streaming else Document)(status=status, headers=headers)
        response.headers.extend(cors_headers(self.origin))
        response.headers["X-Request-Id"] = self.flight.id
        response.headers.setdefault("Server", "warmgate")
        if response.headers.get("Connection") == "close":
            response.force_close()
        if "Content-Length" not in response.headers and not _bodiless(self.request.method, status):
            if self.request.version >= (1, 1):
                response.enable_chunked_encoding()
            else:
                response.force_close()
        self.response, self.streaming, self.sent = response, streaming, self.deadline.now()
        await response.prepare(self.request)

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client does not read, at most limits.client_stall."""
        if self.response is None:
            raise RuntimeError("write before start")
        if self.transcript is not None:
            self.transcript += data
            if len(self.transcript) > MAX_TRANSCRIPT:
                self.transcript = None
        self.sent, self.early, self.wrote = self.deadline.move(self._patience, "client"), False, True
        if len(data) <= MAX_SEGMENT:
            await self.response.write(data)
            return
        for at in range(0, len(data), MAX_SEGMENT):
            await self.response.write(data[at : at + MAX_SEGMENT])

    async def finish(self) -> None:
        if self.response is not None:
            self.deadline.move(self._patience, "client")
            await self.response.write_eof()

    async def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A complete JSON reply of the gateway's own."""
        head = CIMultiDict(headers or {})
        head.setdefault("Content-Type", "application/json; charset=utf-8")
        if self.request.method == "HEAD" or not _bodiless(self.request.method, status):
            head["Content-Length"] = str(len(body))
        await self.start(status, head)
        if body and not _bodiless(self.request.method, status):
            await self.write(body)
        await self.finish()

    async def fail(self, error: Answerable) -> None:
        """Tell the client: an error reply if nothing has been sent, an error event in a stream, else a broken connection."""
        self.flight.ends(error.status, _outcome(error), error.code)
        words = (error.status, error.code, str(error), self.flight.id)
        if self.response is None:
            headers = {"Retry-After": str(error.retry_after)} if error.retry_after is not None else {}
            broken = self.request.content.exception() is not None
            if broken or not self.request.content.is_eof():
                headers["Connection"] = "close"  # what is left of the body would be read as the next request
            await self.reply(error.status, self.dialect.error(*words), headers)
            if broken:
                await part(self.request)
        elif self.streaming:
            torn = self.tap.abandon() if self.tap else b""
            await self.write(torn + self.dialect.error_event(*words))
            await self.finish()
        elif self.early:
            await self.write(self.dialect.error(*words))
            await self.finish()
        else:
            self.abort()

    def abort(self) -> None:
        """Break the connection: the only way to tell that a reply which has begun will never be complete."""
        if self.request.transport is not None:
            self.request.transport.abort()

    async def settle(self, error: BaseException) -> None:
        """End an exchange that raised. Re-raises only what is no Exception, as a cancellation: the client has left."""
        if not isinstance(error, Exception):
            if not self.over:
                self.flight.ends(499, "cancelled", "client_left")
            raise error
        if isinstance(error, ConnectionError):
            self.flight.ends(499, "cancelled", "client_left")
            return
        if isinstance(error, Expired) and error.waiting == "client" and self.response is not None:
            self.flight.ends(499, "cancelled", "client_stalled")
            self.abort()
            return
        told = _as_answer(error)
        if told is not error and not isinstance(error, Expired):
            log.error("request %s failed", self.flight.id, exc_info=error)
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self.fail(told)
        except (ConnectionError, TimeoutError):
            self.abort()


def _as_answer(error: Exception) -> Answerable:
    """What the caller is told. Nothing of an unexpected error but that it happened."""
    if isinstance(error, Answerable):
        return error
    if not isinstance(error, Expired):
        return Answerable("The gateway failed on this request; its log says why.")
    if error.waiting == "client":  # error.seconds is what was left of the time when its last piece came
        return SlowRequest("The request did not arrive in time; send it faster, or raise limits.client_stall.")
    seconds = f"{error.seconds:g} s"
    if error.waiting == "queue":
        return Busy(
            f"No place became free within {seconds}; try again later.", status=503, code="queue_timeout", retry_after=10
        )
    return UpstreamSilent(f"The model server sent nothing for {seconds}; see timeouts.first_byte and timeouts.idle.")


def _outcome(error: Answerable) -> Outcome:
    if isinstance(error, Refusal):
        return "refused"
    if isinstance(error, UpstreamError):
        if error.status < 500:
            return "client_error"
        return "timeout" if isinstance(error, UpstreamSilent) else "upstream_error"
    return "internal_error"


def _bodiless(method: str, status: int) -> bool:
    return method == "HEAD" or status in (204, 304) or status < 200
