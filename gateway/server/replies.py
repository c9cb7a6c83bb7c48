"""What a reply is, what the gateway says beside it, and what is kept of it when it has ended."""

from __future__ import annotations

import asyncio

import aiohttp
from multidict import CIMultiDict

from gateway.backends.base import Kind
from gateway.dialects.base import Seen, Tap
from gateway.dialects.counts import distrust_zero
from gateway.dispatch.dispatcher import Reply
from gateway.dispatch.flight import Flight
from gateway.errors import UpstreamDied
from gateway.values import Call, Usage

STREAMS = ("text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl")


def is_stream(response: aiohttp.ClientResponse) -> bool:
    return response.content_type in STREAMS


async def next_piece(reply: Reply, patience: float | None = None) -> bytes:
    """What the backend sends next, b"" at the end. Raises UpstreamDied.

    patience: the reply is complete, and a backend that does not end it within so many seconds has ended it for us.
    """
    try:
        async with asyncio.timeout(patience):
            return await reply.response.content.readany()
    except TimeoutError:
        if patience is not None:
            return b""
        raise
    except (aiohttp.ClientError, OSError) as error:
        raise UpstreamDied(f"{reply.target.backend} closed the connection before its answer was complete.") from error


def our_headers(flight: Flight, reply: Reply) -> CIMultiDict[str]:
    """Headers that tell where a reply came from and where its time went. Server-Timing is in milliseconds."""
    spans = {"queue": flight.queue, **flight.overhead}
    if flight.headers_at is not None and flight.read is not None:
        spans["upstream"] = max(0.0, flight.headers_at - flight.read - flight.queue)
    headers: CIMultiDict[str] = CIMultiDict({"X-Warmgate-Backend": reply.target.backend})
    if flight.decision:
        headers["X-Warmgate-Route"] = flight.decision
    headers["Server-Timing"] = ", ".join(f"{name};dur={seconds * 1000:.1f}" for name, seconds in spans.items())
    return headers


def close_record(flight: Flight, call: Call, reply: Reply, tap: Tap, streaming: bool) -> None:
    """Keep what was seen of a reply whose bytes have all been passed on.

    Raises UpstreamDied when a stream ended without its terminator: the client must not take it for complete.
    """
    status, seen = reply.response.status, tap.seen
    flight.usage = trusted(seen.usage, call.path, reply.kind)
    if status >= 500:
        flight.ends(status, "upstream_error", f"upstream_{status}")
    elif status >= 400:
        flight.ends(status, "client_error", f"upstream_{status}")
    elif seen.error is not None:
        flight.ends(status, "upstream_error", "upstream_error_in_reply")
    elif streaming and not complete(seen):
        raise UpstreamDied(f"{reply.target.backend} ended its answer before it was complete.", code="upstream_incomplete")
    else:
        flight.ends(status, "ok")


def complete(seen: Seen) -> bool:
    """Whether a stream that has ended cleanly is whole: its terminator came, or at least the reason why it stopped."""
    return seen.finished or seen.stopped


def trusted(usage: Usage, path: str, kind: Kind) -> Usage:
    """A cached count of 0 that a server writes without looking is *not reported*."""
    return distrust_zero(usage) if path in kind.blind_zero else usage
