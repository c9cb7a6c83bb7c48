"""WebSocket upgrades, passed through to the listener's own backend in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

import aiohttp
from aiohttp import WSMessage, WSMsgType, web

from gateway.dispatch.upstream import translate, transport_of
from gateway.errors import BadRequest, NotFound, UpstreamError
from gateway.routing.locate import locate
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.headers import to_upstream
from gateway.values import Outcome

CLOSE_WAIT = 5.0  # seconds for the other side to answer a close
GOING_AWAY, INTERNAL_ERROR, ABNORMAL = 1001, 1011, 1006  # close codes (RFC 6455 section 7.4.1)
HANDSHAKE = {"sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol"}

Stalled = Literal["client", "upstream"] | None
OUTCOMES: Mapping[Stalled, tuple[int, Outcome, str | None]] = {
    None: (101, "ok", None),
    "client": (499, "cancelled", "client_stalled"),
    "upstream": (504, "timeout", "upstream_stalled"),
}

Side = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


def wants_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket" and request.method == "GET"


async def tunnel(exchange: Exchange, gateway: Gateway) -> None:
    """Lives until either side closes, however long nothing is said, or does not read for limits.client_stall. Raises
    BadRequest, NotFound, UpstreamError before the upgrade is answered."""
    request, flight = exchange.request, exchange.flight
    if not web.WebSocketResponse().can_prepare(request).ok:
        raise BadRequest("This is no WebSocket handshake of version 13.", code="bad_handshake")
    home = gateway.home(exchange.door)
    route = locate(None, request.path, gateway.fleet.view, exchange.now.catalog, home.name if home else "")
    if route is None:
        raise NotFound("No backend is configured; add one under `backends:`.", code="no_backend")
    place = exchange.now.places(route.targets, gateway.fleet.view, None)[0]
    flight.backend, flight.decision = place.state.name, route.decision
    headers = to_upstream(
        request.headers,
        configured=place.state.config.headers,
        strip=place.state.kind.strip,
        drop=exchange.drop | HANDSHAKE,
        dialect_call=False,
    )
    asked = request.headers.get("Sec-WebSocket-Protocol", "")
    protocols = tuple(name.strip() for name in asked.split(",") if name.strip())
    exchange.deadline.move(place.state.config.timeouts.first_byte, "upstream")
    try:
        upstream = await gateway.upstream.websocket(place.address, request.rel_url.raw_path_qs, headers, protocols)
    except aiohttp.WSServerHandshakeError as error:
        words = f"{place.state.name} answered {error.status} to the upgrade."
        status = error.status if 400 <= error.status < 600 else None
        raise UpstreamError(words, status=status, code="upgrade_refused") from error
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
        raise translate(error, place.address) from error
    transport, limit = transport_of(upstream), exchange.now.config.limits.client_stall
    try:
        exchange.deadline.stop()
        chosen = (upstream.protocol,) if upstream.protocol else ()
        client = web.WebSocketResponse(protocols=chosen, autoping=False, autoclose=False, max_msg_size=0, timeout=CLOSE_WAIT)
        exchange.response = client
        await client.prepare(request)
        stalled = await _both(client, upstream, limit)
        exchange.over = True
        flight.ends(*OUTCOMES[stalled])
        if stalled == "client":
            exchange.abort()
            return
        if stalled == "upstream" and transport is not None:
            transport.abort()
        await _close(client, INTERNAL_ERROR if stalled else upstream.close_code or 1000, limit)
        if client.close_code in (None, ABNORMAL):  # it does not answer, and what it has not read is not kept for it
            exchange.abort()
        await _close(upstream, client.close_code or 1000, CLOSE_WAIT)
    finally:
        await asyncio.shield(_end(upstream, transport))


async def _both(client: web.WebSocketResponse, upstream: aiohttp.ClientWebSocketResponse, limit: float) -> Stalled:
    """Pump both directions until the first ends. Who did not read, if that was the end."""
    pumps = [asyncio.create_task(_pump(client, upstream, limit)), asyncio.create_task(_pump(upstream, client, limit))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        upward, downward = await asyncio.gather(*pumps, return_exceptions=True)
    if isinstance(downward, TimeoutError):
        return "client"
    return "upstream" if isinstance(upward, TimeoutError) else None


async def _close(side: Side, code: int, seconds: float) -> None:
    """Tell a side, if it still reads. Does nothing to a side that is closed."""
    try:
        async with asyncio.timeout(seconds):
            await side.close(code=code)
    except TimeoutError:
        pass


async def _end(upstream: aiohttp.ClientWebSocketResponse, transport: asyncio.Transport | None) -> None:
    """However the tunnel ended. A connection that is only closed would live until its peer has read what is left."""
    await _close(upstream, GOING_AWAY, CLOSE_WAIT)
    if transport is not None and upstream.close_code in (None, ABNORMAL):
        transport.abort()


async def _pump(source: Side, sink: Side, limit: float) -> None:
    """Raises TimeoutError when the sink does not take a message within `limit` seconds; the source may be silent for ever."""
    while True:
        message: WSMessage = await source.receive()
        async with asyncio.timeout(limit):
            if not await _pass(message, sink):
                return


async def _pass(message: WSMessage, sink: Side) -> bool:
    """Send a message on; False: it was the end."""
    if message.type is WSMsgType.TEXT:
        await sink.send_str(message.data)
    elif message.type is WSMsgType.BINARY:
        await sink.send_bytes(message.data)
    elif message.type is WSMsgType.PING:
        await sink.ping(message.data)
    elif message.type is WSMsgType.PONG:
        await sink.pong(message.data)
    else:
        return False
    return True
