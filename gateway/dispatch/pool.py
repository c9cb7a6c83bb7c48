"""Connections to backends that know whether anything has ever come on them: what a second try of a request depends on."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection


class Line(ResponseHandler):
    """One connection. heard: reads that brought something."""

    heard = 0

    def data_received(self, data: bytes) -> None:
        self.heard += bool(data)  # aiohttp resumes its parser with no bytes at all
        super().data_received(data)


def _line(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return Line(loop)


@dataclass(slots=True)
class Attempt:
    """One request on a connection. Written by Pool."""

    line: Line | None = None
    before: int = 0

    @property
    def was_stale(self) -> bool:
        """Whether the connection had served another request, and brought nothing for this one: its end had come before."""
        return self.line is not None and self.line.heard == self.before > 0


ATTEMPT: ContextVar[Attempt] = ContextVar("attempt")
"""That of the running task."""


class Pool(aiohttp.TCPConnector):
    """Without a limit on connections, because admission has one."""

    def __init__(self, **options: Any):
        super().__init__(limit=0, **options)
        self._factory = partial[ResponseHandler](_line, self._loop)

    async def connect(self, *args: Any, **more: Any) -> Connection:
        connection = await super().connect(*args, **more)
        attempt = ATTEMPT.get(None)
        if attempt is not None and isinstance(connection.protocol, Line):
            attempt.line, attempt.before = connection.protocol, connection.protocol.heard
        return connection
