"""What a connection is believed to have brought, which decides whether a request may be sent a second time."""

from __future__ import annotations

import asyncio

from gateway.dispatch.pool import Attempt, Line


async def test_a_read_of_nothing_is_not_an_answer() -> None:
    """aiohttp calls `data_received` with no bytes when it resumes its parser, also on a connection that is just being taken."""
    line = Line(asyncio.get_running_loop())
    line.data_received(b"the answer to an earlier request")
    attempt = Attempt(line, line.heard)
    line.data_received(b"")
    assert attempt.was_stale
    line.data_received(b"HTTP/1.1 200 OK")
    assert not attempt.was_stale
