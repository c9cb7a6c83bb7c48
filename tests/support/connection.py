"""One connection of the scripted upstream: it reads requests off the raw socket and runs their scripts, one after another."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

from tests.support.http1 import Body, Headers, header, split_head


@dataclass(slots=True)
class Request:
    """One request as it came in. at: monotonic seconds of its head; arrived: what has come of its body so far."""

    method: str
    target: str
    headers: Headers
    at: float
    connection: int
    arrived: bytearray = field(default_factory=bytearray)
    received: asyncio.Event = field(default_factory=asyncio.Event)
    answered_by: Literal["script", "persona"] = "persona"

    @property
    def body(self) -> bytes:
        return bytes(self.arrived)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def complete(self) -> bool:
        return self.received.is_set()

    def header(self, name: str, default: str = "") -> str:
        return header(self.headers, name, default)

    def json(self) -> Any:
        return orjson.loads(self.body)


Step = Callable[["Connection"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Script:
    """at_head: starts when the request's head is there, not its whole body."""

    steps: tuple[Step, ...]
    at_head: bool = False


class Plan(Protocol):
    """What a connection is told by its server, and where it leaves its records. See ScriptedUpstream."""

    idle_close: float | None
    reset_at_request: int | None
    reads: bool
    requests: list[Request]
    connections: list[Connection]
    errors: list[Exception]
    arrived: asyncio.Event

    def script_for(self, request: Request) -> Script: ...


class Connection(asyncio.Protocol):
    """One accepted connection. The event loop writes it, and the one task that runs its scripts.

    closed_at, closed_how: when (monotonic seconds) and how the peer left; None while it has not, or if this side closed first.
    sent: bytes handed to the kernel; scripted: requests so far that had a script. A peer cannot be seen leaving after
    `stop_reading`.
    """

    def __init__(self, upstream: Plan):
        self.upstream = upstream
        self.opened_at = time.monotonic()
        self.closed_at: float | None = None
        self.closed_how: Literal["eof", "reset"] | None = None
        self.open = True
        self.sent = 0
        self.number = -1
        self.request: Request  # the one whose script runs
        self.transport: asyncio.Transport
        self.task: asyncio.Task[None]
        self._buffer = bytearray()
        self._reading: tuple[Request, Body] | None = None
        self._requests: asyncio.Queue[tuple[Request, Script]] = asyncio.Queue()
        self.scripted = 0
        self._writable = asyncio.Event()
        self._left = asyncio.Event()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._writable.set()

    # what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # asyncio does it itself, but not for sockets of `socket.create_server`, whose protocol number is 0.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=0)  # `send` returns when the kernel has everything
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each step goes out at once
        self.number = len(self.upstream.connections)
        self.upstream.connections.append(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())
        self._start_idle_timer()
        if not self.upstream.reads:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self.open:
            if self._reading is None:
                if (head := split_head(self._buffer)) is None:
                    return
                self._begin(*head)
            if self._reading is None:  # the head alone made this side hang up
                return
            request, body = self._reading
            for piece in body.take(self._buffer):
                request.arrived += piece
            if not body.complete:
                return
            self._reading = None
            request.received.set()

    def eof_received(self) -> None:
        self._peer_left("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._peer_left("reset")
        self.open = False
        self.task.cancel()
        self._stop_idle_timer()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # what steps and tests call

    async def send(self, data: bytes) -> None:
        self.transport.write(data)
        await self._writable.wait()
        self.sent += len(data)

    def fin(self) -> None:
        self.open = False
        self.transport.close()

    def rst(self) -> None:
        self.open = False
        raw = self.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def peer_closed(self, within: float) -> bool:
        """Whether the peer has left, waiting for it for at most `within` seconds."""
        try:
            await asyncio.wait_for(self._left.wait(), within)
        except TimeoutError:
            return False
        return True

    # the inside

    def _peer_left(self, how: Literal["eof", "reset"]) -> None:
        if self.closed_at is None and self.open:
            self.closed_at, self.closed_how = time.monotonic(), how
            self._left.set()
            self.task.cancel()

    def _begin(self, first: str, headers: Headers) -> None:
        self._stop_idle_timer()
        method, target, _ = first.split(" ", 2)
        request = Request(method, target, headers, time.monotonic(), self.number)
        script = self.upstream.script_for(request)
        self.upstream.requests.append(request)
        self.upstream.arrived.set()
        self.scripted += request.answered_by == "script"
        if request.answered_by == "script" and self.scripted == self.upstream.reset_at_request:
            self.rst()
            return
        self._reading = (request, Body.of(headers, otherwise="length"))
        self._requests.put_nowait((request, script))

    async def _serve(self) -> None:
        while True:
            self.request, script = await self._requests.get()
            if not script.at_head:
                await self.request.received.wait()
            try:
                for step in script.steps:
                    await step(self)
            except Exception as error:  # a mistake in a script: told when the server is stopped
                self.upstream.errors.append(error)
                self.rst()
                return
            if self.request.header("connection").lower() == "close":
                self.fin()
            if self._requests.empty():
                self._start_idle_timer()

    def _start_idle_timer(self) -> None:
        self._stop_idle_timer()
        if self.upstream.idle_close is not None and self.open:
            self._idle_timer = asyncio.get_running_loop().call_later(self.upstream.idle_close, self.fin)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
