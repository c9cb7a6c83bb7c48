"""Heartbeats: what keeps a client from giving up on a backend that reads a long prompt and says nothing.

In the dialect's own frames, because comment lines do not count as life for several clients; only at the boundary of an event,
and none after the last one; never while the client is still taking what was sent before. Before the backend's headers a beat
must begin the reply itself, with status 200: what fails after that is told in the stream.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from multidict import CIMultiDict

from gateway.config.heartbeat import Heartbeat
from gateway.dialects.base import Endpoint
from gateway.server.exchange import Exchange
from gateway.server.headers import STREAM_HEADERS
from gateway.server.replies import ends_once
from gateway.values import Call

SPACE = b" "
"""Beat of a reply that is one JSON document: white space may stand in front of it."""

LONGEST_NAME = 256  # characters of a model's name that a beat repeats

STREAM_TYPES = {"ollama": "application/x-ndjson"}


class Heart:
    """`with Heart(...)` beats while the block waits for a backend. Costs one timer for a request, re-armed when it fires."""

    def __init__(self, exchange: Exchange, call: Call, endpoint: Endpoint, config: Heartbeat):
        self._exchange, self._stream = exchange, call.stream
        self._ends_once = ends_once(call)
        self._call, self._dialect = call, endpoint.dialect
        self._type = STREAM_TYPES.get(call.dialect, "text/event-stream") if call.stream else "application/json"
        self._before = config.before_headers if call.stream else config.non_stream
        self._after = config.after_headers if call.stream else config.non_stream
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.Task[None] | None = None

    def __enter__(self) -> Heart:
        self._exchange.sent = self._loop.time()
        self._arm()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._timer:
            self._timer.cancel()
        if self._beat:
            self._beat.cancel()

    @property
    def _interval(self) -> float:
        """Seconds of silence until the next beat; 0: none."""
        return self._before if self._exchange.response is None else self._after

    def _arm(self) -> None:
        if intervals := [seconds for seconds in (self._before, self._after) if seconds]:
            due = self._exchange.sent + (self._interval or min(intervals))
            self._timer = self._loop.call_at(max(due, self._loop.time() + min(intervals) / 4), self._ring)

    def _ring(self) -> None:
        exchange, interval = self._exchange, self._interval
        if interval and self._loop.time() - exchange.sent >= interval and self._may_beat():
            self._beat = self._loop.create_task(self._pulse())
        self._arm()

    def _may_beat(self) -> bool:
        exchange = self._exchange
        if self._beat is not None and not self._beat.done():
            return False
        if exchange.deadline.waiting == "client" or (exchange.response is not None and exchange.streaming != self._stream):
            return False  # a write goes on, or the backend answers a stream with a document
        tap = exchange.tap
        return tap is None or (tap.at_boundary and not (tap.seen.finished and self._ends_once))

    def _frame(self) -> bytes:
        model = self._call.model or ""
        named = model if len(model) <= LONGEST_NAME and model.isprintable() else ""
        return self._dialect.heartbeat(self._call.path, named) if self._stream else SPACE

    async def _pulse(self) -> None:
        exchange = self._exchange
        try:
            if exchange.response is None:
                extra = STREAM_HEADERS if self._stream else {}
                await exchange.begin(200, CIMultiDict({"Content-Type": self._type, **extra}), streaming=self._stream)
                exchange.early = True
            if exchange.response is not None and (self._stream or exchange.early):
                exchange.sent = self._loop.time()
                await exchange.response.write(self._frame())
        except ConnectionError:
            pass  # the handler is being told the same
