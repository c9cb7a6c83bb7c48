"""Clients that left while nothing was read from them.

A client that leaves is noticed by reading. Where a backend does not take an upload as fast as it comes, the client's socket is
not read, so now and then the kernel is asked about those sockets.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterable

from aiohttp.web_protocol import RequestHandler

EVERY = 0.5  # seconds
LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""Without POLLRDHUP (it is Linux's) only a reset is noticed."""


async def watch(connections: Callable[[], Iterable[RequestHandler]]) -> None:
    """Ends the connections of such clients, until it is cancelled. Their requests end as those of any client that leaves."""
    while True:
        await asyncio.sleep(EVERY)
        unread = {}
        for connection in connections():
            transport = connection.transport
            if transport is not None and not transport.is_reading() and not transport.is_closing():
                unread[transport.get_extra_info("socket").fileno()] = transport
        for number in left(unread):
            unread[number].abort()


def left(numbers: Iterable[int]) -> list[int]:
    """Those of these sockets (file descriptors) whose other side has closed or reset the connection."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, LEFT)
    return [number for number, _ in poll.poll(0)]
