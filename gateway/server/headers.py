"""Which HTTP headers pass the gateway, in both directions. Pure: headers in, new headers out.

A proxy removes the headers that describe one connection (RFC 9110 section 7.6.1) and changes as little as possible of the rest.
Order and repeated headers (Set-Cookie) survive. A name or value with CR, LF or NUL never passes, wherever it came from.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from multidict import CIMultiDict, MultiMapping

from gateway.server.guard import TOKEN_COOKIE

HOP_BY_HOP = frozenset(
    ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"],
)
"""Plus everything that begins with `proxy-`, and every name that a Connection header lists."""

GATEWAY_PREFIX = "x-warmgate-"
"""Headers spoken between a client and this gateway; a backend neither sees nor sets them, but for HOPS."""

HOPS = "X-Warmgate-Hops"
"""How many gateways a request has passed. Each counts on, so that gateways that are each other's backends find out."""

NOT_FOR_BACKENDS = frozenset(["host", "expect", "origin"])
"""Host: the backend has its own address. Expect: answered here. Origin: checked here; servers refuse pages they do not know."""

CREDENTIALS = frozenset(["authorization", "x-api-key"])
"""If the backend's configuration sets one of them, the client's are meant for someone else."""

BODY_CODING = frozenset(["content-encoding", "content-length"])

_COUNT = re.compile(r"[0-9]{1,4}").fullmatch
_BREAK = re.compile(r"[\r\n\0]").search

STREAM_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform"}
"""Keep reverse proxies and compressing middle boxes from holding back events."""


def hops(headers: MultiMapping[str]) -> int:
    """How many gateways a request has passed before this one; a value that no gateway wrote counts nothing."""
    if HOPS not in headers:
        return 0
    return max((int(value) for value in headers.getall(HOPS) if _COUNT(value)), default=0)


def to_upstream(
    headers: MultiMapping[str],
    *,
    configured: Mapping[str, str] | None = None,
    strip: Collection[str] = (),
    drop: Collection[str] = (),
    dialect_call: bool,
    decoded: bool = False,
) -> CIMultiDict[str]:
    """Headers of the request to a backend.

    configured: the backend's own headers from the configuration, they replace the client's; strip: what this kind of server
    must not see, drop: what carried the gateway's key (both lower case); dialect_call: the body was read and may have been
    rewritten and the reply will be parsed, so the length is left to the HTTP client and no compression is asked for; decoded:
    the body is no longer in the client's Content-Encoding.
    """
    configured = configured or {}
    replaced = {name.lower() for name in configured}
    removed = _connection_names(headers) | NOT_FOR_BACKENDS | replaced | set(strip) | set(drop)
    if replaced & CREDENTIALS:
        removed |= CREDENTIALS
    if decoded:
        removed |= BODY_CODING
    if dialect_call:
        removed |= {"content-length", "accept-encoding"}
    if "Transfer-Encoding" in headers:  # a length beside chunks is a smuggling attempt (RFC 9112 section 6.3)
        removed.add("content-length")
    out = _passing(headers, removed)
    if "Cookie" in out:
        _remove_own_cookie(out)
    if dialect_call:
        out["Accept-Encoding"] = "identity"
    for name, value in configured.items():
        if _BREAK(name + value) is None:
            out[name] = value
    out[HOPS] = str(hops(headers) + 1)
    return out


def to_client(headers: MultiMapping[str], *, decoded: bool, streaming: bool) -> CIMultiDict[str]:
    """Headers of the reply to a client.

    decoded: the body is no longer in the backend's Content-Encoding; streaming: events, of which some may be added or hidden.
    The backend's CORS headers go: it never saw the Origin, guard.cors_headers speaks for the gateway.
    """
    removed = _connection_names(headers)
    if decoded:
        removed |= BODY_CODING
    if streaming:
        removed.add("content-length")
    out = _passing(headers, removed, prefixes=("proxy-", GATEWAY_PREFIX, "access-control-"))
    if streaming:
        out.update(STREAM_HEADERS)
    return out


def _passing(
    headers: MultiMapping[str], removed: Collection[str], prefixes: tuple[str, ...] = ("proxy-", GATEWAY_PREFIX)
) -> CIMultiDict[str]:
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in headers.items():
        low = name.lower()
        if low not in removed and not low.startswith(prefixes) and _BREAK(low + value) is None:
            out.add(name, value)
    return out


def _connection_names(headers: MultiMapping[str]) -> set[str]:
    names = set(HOP_BY_HOP)
    if "Connection" in headers:
        for line in headers.getall("Connection"):
            names.update(name.strip().lower() for name in line.split(","))
    return names


def _remove_own_cookie(out: CIMultiDict[str]) -> None:
    """Cookies do not know ports: a browser that is signed in on the admin port sends its token to the data port too."""
    lines = out.popall("Cookie")
    for line in lines:
        kept = [pair for pair in line.split(";") if pair.partition("=")[0].strip() != TOKEN_COOKIE]
        if kept:
            out.add("Cookie", ";".join(kept).strip())
