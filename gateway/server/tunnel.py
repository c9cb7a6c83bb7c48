"""WebSocket upgrades, passed through to the listener's own backend in both directions."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import WSMessage, WSMsgType, web

from gateway.dispatch.upstream import translate
from gateway.errors import BadRequest, NotFound, UpstreamError
from gateway.routing.locate import locate
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.headers import to_upstream

CLOSE_WAIT = 5.0  # seconds for the other side to answer a close
HANDSHAKE = {"sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol"}

Side = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


def wants_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket" and request.method == "GET"


async def tunnel(exchange: Exchange, gateway: Gateway) -> None:
    """Lives until either side closes. Raises BadRequest, NotFound, UpstreamError before the upgrade is answered."""
    request, flight = exchange.request, exchange.flight
    if not web.WebSocketResponse().can_prepare(request).ok:
        raise BadRequest("This is no WebSocket handshake of version 13.", code="bad_handshake")
    home = gateway.home(exchange.door)
    route = locate(None, request.path, gateway.fleet.view, exchange.now.catalog, home.name if home else "")
    if route is None:
        raise NotFound("No backend is configured; add one under `backends:`.", code="no_backend")
    place = exchange.now.places(route)[0]
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
    try:
        exchange.deadline.stop()
        chosen = (upstream.protocol,) if upstream.protocol else ()
        client = web.WebSocketResponse(protocols=chosen, autoping=False, autoclose=False, max_msg_size=0, timeout=CLOSE_WAIT)
        exchange.response = client
        await client.prepare(request)
        await _both(client, upstream)
        flight.ends(101, "ok")
    finally:
        await asyncio.shield(upstream.close())


async def _both(client: web.WebSocketResponse, upstream: aiohttp.ClientWebSocketResponse) -> None:
    """Pump both directions; the first that ends closes the other."""
    pumps = [asyncio.create_task(_pump(client, upstream)), asyncio.create_task(_pump(upstream, client))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    await client.close(code=upstream.close_code or 1000)
    await upstream.close(code=client.close_code or 1000)


async def _pump(source: Side, sink: Side) -> None:
    while True:
        message: WSMessage = await source.receive()
        if message.type is WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type is WSMsgType.PING:
            await sink.ping(message.data)
        elif message.type is WSMsgType.PONG:
            await sink.pong(message.data)
        else:
            return
