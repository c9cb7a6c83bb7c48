"""Servers that answer 503 to everything while they read their model."""

from __future__ import annotations

import aiohttp
import orjson

from gateway.dispatch.reading import Body
from gateway.errors import UpstreamDied, UpstreamLoading
from gateway.wire.inflate import Undecodable

MAX_ERROR = 64 << 10  # bytes of a 503 that are read to see what it says


async def unless_loading(body: Body, backend: str) -> bytes:
    """The beginning of a 503's body, which has been read to see what it says; any other than "loading" is the client's to see.

    Raises UpstreamLoading, UpstreamDied.
    """
    head = b""
    try:
        while len(head) < MAX_ERROR and (piece := await body.read()):
            head += piece
    except (aiohttp.ClientError, OSError, Undecodable) as error:
        raise UpstreamDied(f"{backend} closed the connection before its answer was complete.") from error
    if says_loading(head):
        raise UpstreamLoading(f"{backend} is still loading its model; try again in a moment.", retry_after=5)
    return head


def says_loading(body: bytes) -> bool:
    try:
        error = orjson.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return False
    if isinstance(error, dict):
        return error.get("type") == "unavailable_error" or "loading" in str(error.get("message", "")).lower()
    return isinstance(error, str) and "loading" in error.lower()
