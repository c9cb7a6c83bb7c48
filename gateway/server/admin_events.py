"""`/events`: what happens, as server-sent events: `hello` first, then `request`, `started`, `backend` and `gone`.

A reader that does not keep up is dropped with a last comment, so that it costs a bounded amount of memory. Nothing waits for
readers, neither a request nor the end of the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from gateway import __version__
from gateway.errors import Busy
from gateway.events import BackendGone, BackendProbed, CircuitChanged, RequestClosed, RequestStarted
from gateway.server.admin_replies import GATEWAY
from gateway.server.admin_status import backend_row
from gateway.server.gateway import Gateway
from gateway.server.http import notice_silence
from gateway.state.log import row_of

SILENCE = 20.0  # seconds, and LATER of gateway.server.http, after which the kernel gives up on a reader that is gone
MAX_READERS = 16
QUEUE = 256  # events that may wait for one reader
KEEPALIVE = 15.0  # seconds without an event after which a comment is sent
LOOK = 1.0  # seconds after which a reader that left is noticed
LAST_WORDS = 1.0  # seconds in which a reader that is dropped may take its last comment

TOO_SLOW = "dropped: events came faster than they were read"
ENDING = "the gateway is shutting down"

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # proxies of the nginx kind would hold events back
}


class Reader:
    """One open /events. Writers: the hub (put, end) and the reader's own handler (run), both on the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self.limit = asyncio.timeout(None)  # to be entered before the hub knows the reader
        self._last_words: str | None = None

    def put(self, event: bytes) -> None:
        if len(self._waiting) >= QUEUE:
            self.end(TOO_SLOW)
        elif self._last_words is None:
            self._waiting.append(event)
            self._wake.set()

    def end(self, words: str) -> None:
        """Say this instead of what waits, and end."""
        if self._last_words is None:
            self._last_words = words
            self._waiting.clear()
            self._wake.set()
            self.limit.reschedule(asyncio.get_running_loop().time() + LAST_WORDS)

    async def run(self, response: web.StreamResponse, request: web.Request) -> None:
        """Write events until the reader leaves or is to end."""
        while self._last_words is None:
            if not await self._next(request):
                return
            while self._waiting:
                await response.write(self._waiting.popleft())
        await response.write(comment(self._last_words))

    async def _next(self, request: web.Request) -> bool:
        """Wait for something to write, at most KEEPALIVE. False when the reader has left."""
        for _ in range(int(KEEPALIVE / LOOK)):
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._wake.wait()
            if request.transport is None or request.transport.is_closing():
                return False
            if self._wake.is_set():
                self._wake.clear()
                return True
        self._waiting.append(comment("still here"))
        return True


class Hub:
    """Subscriber of the bus: makes each event once and puts it into every reader's queue. One writer: the event loop."""

    hears = (CircuitChanged, BackendProbed, BackendGone, RequestStarted, RequestClosed)

    def __init__(self, gateway: Gateway) -> None:
        self.readers: set[Reader] = set()
        self._gateway = gateway
        self._backends: dict[str, bytes] = {}  # as last told

    def on_event(self, event: Any) -> None:
        if isinstance(event, CircuitChanged):
            self._backend(event.backend)
        elif isinstance(event, BackendProbed):
            self._backend(event.name)
        elif isinstance(event, BackendGone):
            self._backends.pop(event.name, None)
            self._tell("gone", {"name": event.name})
        elif isinstance(event, RequestStarted):
            now = self._gateway.clock.wall()
            self._tell("started", {"id": event.id, "number": event.number, "backend": event.backend, "time": now})
        elif isinstance(event, RequestClosed) and self.readers:
            self._tell("request", {**row_of(event.record), "number": event.number})

    def hello(self) -> bytes:
        return event_bytes("hello", {"version": __version__, "time": self._gateway.clock.wall()})

    def close(self) -> None:
        for reader in self.readers:
            reader.end(ENDING)

    def _backend(self, name: str) -> None:
        """Tell of a backend when something about it has changed; every look at it would be too much."""
        if name not in self._gateway.fleet.states:
            return
        row = backend_row(self._gateway, name)
        known = orjson.dumps({**row, "probed": None}, default=str)
        if self._backends.get(name) != known:
            self._backends[name] = known
            self._tell("backend", row)

    def _tell(self, name: str, value: Any) -> None:
        if self.readers:
            made = event_bytes(name, value)
            for reader in self.readers:
                reader.put(made)


HUB = web.AppKey("hub", Hub)


def add_routes(app: web.Application) -> None:
    hub = app[HUB] = Hub(app[GATEWAY])
    app[GATEWAY].bus.subscribe(hub.on_event, *hub.hears)
    app.router.add_get("/events", events, allow_head=False)
    app.on_shutdown.append(_close)


async def events(request: web.Request) -> web.StreamResponse:
    hub = request.app[HUB]
    if len(hub.readers) >= MAX_READERS:
        raise Busy(f"{MAX_READERS} readers have /events open already; close one of them.", code="too_many_readers", status=503)
    response = web.StreamResponse(headers=HEADERS)
    if request.transport and (sock := request.transport.get_extra_info("socket")) is not None:
        notice_silence(sock, SILENCE)
    reader = Reader()
    try:
        async with reader.limit:
            hub.readers.add(reader)
            await response.prepare(request)
            await response.write(hub.hello())
            await reader.run(response, request)
    except (TimeoutError, ConnectionError):  # it did not even take the last comment, or it is gone
        if request.transport:
            request.transport.abort()
    finally:
        hub.readers.discard(reader)
    return response


async def _close(app: web.Application) -> None:
    app[HUB].close()


def event_bytes(name: str, value: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(value, default=str))


def comment(words: str) -> bytes:
    return f": {words}\n\n".encode()
