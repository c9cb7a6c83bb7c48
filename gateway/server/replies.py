"""What a reply is, what the gateway says beside it, and what is kept of it when it has ended."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import aiohttp
from multidict import CIMultiDict

from gateway.backends.base import Kind
from gateway.dialects.base import Seen, Tap
from gateway.dialects.counts import distrust_zero
from gateway.dispatch.dispatcher import Reply
from gateway.dispatch.flight import Flight
from gateway.errors import UpstreamDied, UpstreamError
from gateway.values import Call, Usage
from gateway.wire.inflate import Undecodable

REFUSALS = frozenset({400, 413, 422, 500, 501})
"""Statuses by which a server may say that it cannot work with a body; the others have reasons that no edit causes."""

MAX_ERROR = 256 << 10  # bytes of a document that are read for what it says

STREAMS = ("text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl")


SHORT = 12
"""Hexadecimal digits of a digest that are shown."""

SAYS_NOTHING = ("", "text/plain", "application/octet-stream")
"""Content types that servers also send a stream with. An absent one reads as the last."""

LOOKS: dict[str, re.Pattern[bytes]] = {"ollama": re.compile(rb"\s*\{[^\n]*\}\s*\n")}
"""How a stream of a dialect begins; of all others with a line of server-sent events."""

EVENT_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")


def is_stream(reply: Reply) -> bool:
    """Whether the reply's events can be read. One in a coding that is not understood is passed on as it is."""
    return reply.response.content_type in STREAMS and not reply.body.coded


async def begun(reply: Reply, call: Call) -> tuple[Reply, bool]:
    """The reply, and whether it is a stream: what does not say so is judged by its first piece, if the call asked for one.

    Raises UpstreamDied.
    """
    if is_stream(reply):
        return reply, True
    response = reply.response
    if not call.stream or response.status != 200 or reply.body.coded or response.content_type not in SAYS_NOTHING:
        return reply, False
    head = reply.head or await next_piece(reply)
    return replace(reply, head=head), LOOKS.get(call.dialect, EVENT_LINE).match(head) is not None


async def next_piece(reply: Reply, end: float | None = None) -> bytes:
    """What the backend sends next, b"" at the end. Raises UpstreamDied.

    end: the reply is complete, and whatever its backend does from now on, it is over at this time of the loop.
    """
    if end is not None and asyncio.get_running_loop().time() >= end:
        return b""
    try:
        if end is None:
            return await reply.body.read()
        async with asyncio.timeout_at(end):
            return await reply.body.read()
    except TimeoutError:
        if end is not None:
            return b""
        raise
    except (aiohttp.ClientError, OSError, Undecodable) as error:
        if end is not None:
            return b""
        raise UpstreamDied(f"{reply.target.backend} closed the connection before its answer was complete.") from error


async def as_error(reply: Reply, tap: Tap) -> UpstreamError:
    """A document that came where a stream has been begun: what it says, as an error that can be told in the stream."""
    data, size = reply.head, 0
    while size < MAX_ERROR and (data := data or await next_piece(reply)):
        size += len(tap.feed(data))
        data = b""
    tap.close()
    words = tap.seen.error or f"{reply.target.backend} answered a stream with a document."
    status = reply.response.status
    return UpstreamError(words, status=status if status >= 400 else 502, code=f"upstream_{status}")


def ends_once(call: Call) -> bool:
    """Whether the first terminator is the last: on llama.cpp's own paths, each of several prompts has one of its own."""
    prompt = call.body.get("prompt") if call.body else None
    return call.dialect != "llamacpp" or not isinstance(prompt, list) or all(isinstance(part, int) for part in prompt)


def our_headers(flight: Flight, reply: Reply) -> CIMultiDict[str]:
    """Headers that tell where a reply came from and why, what of its prompt was expected to be reused, and where its time went.
    Server-Timing is in milliseconds."""
    spans = {"queue": flight.queue, **flight.overhead}
    if flight.headers_at is not None and flight.read is not None:
        spans["upstream"] = max(0.0, flight.headers_at - flight.read - flight.queue)
    headers = CIMultiDict({"X-Warmgate-Backend": reply.target.backend})
    if flight.edits:
        headers["X-Warmgate-Edits"] = flight.edits
    if flight.decision:
        slot = f"; slot={flight.slot}" if flight.slot is not None else ""
        headers["X-Warmgate-Route"] = f"{reply.target.backend}{slot}; {flight.decision}"
    if flight.trace is not None and flight.choice is not None:
        start = flight.trace.sent.chain.start.hex()[:SHORT]
        headers["X-Warmgate-Prefix"] = f"{start}; expected={flight.choice.reused}"
    headers["Server-Timing"] = ", ".join(f"{name};dur={seconds * 1000:.1f}" for name, seconds in spans.items())
    return headers


def close_record(flight: Flight, call: Call, reply: Reply, tap: Tap, streaming: bool) -> None:
    """Keep what was seen of a reply whose bytes have all been passed on.

    Raises UpstreamDied when a stream ended without its terminator, or a document in its middle: the client must not take it
    for complete.
    """
    status, seen = reply.response.status, tap.seen
    flight.usage = trusted(seen.usage, call.path, reply.kind)
    if status >= 500:
        flight.ends(status, "upstream_error", f"upstream_{status}")
    elif status >= 400:
        flight.ends(status, "client_error", f"upstream_{status}")
    elif seen.error is not None:
        flight.ends(status, "upstream_error", "upstream_error_in_reply")
    elif not complete(seen) and (streaming or _may_be_cut(reply)):
        raise UpstreamDied(f"{reply.target.backend} ended its answer before it was complete.", code="upstream_incomplete")
    else:
        flight.ends(status, "ok")


def complete(seen: Seen) -> bool:
    """Whether a reply that has ended cleanly is whole: its terminator came, or at least the reason why it stopped."""
    return seen.finished or seen.stopped


def _may_be_cut(reply: Reply) -> bool:
    """Whether only the end of the connection ended this JSON document, so that HTTP did not tell if it was the whole."""
    response = reply.response
    framed = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
    return not framed and response.content_type == "application/json" and not reply.body.coded


def trusted(usage: Usage, path: str, kind: Kind) -> Usage:
    """A cached count of 0 that a server writes without looking is *not reported*."""
    return distrust_zero(usage) if path in kind.blind_zero else usage
