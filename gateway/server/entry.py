"""The data port's door: who may come in, and which of four ways a request goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp.web import BaseRequest, StreamResponse
from multidict import CIMultiDict

from gateway import dialects
from gateway.backends import IDENTITY_PATHS, KINDS
from gateway.config import Listener
from gateway.errors import Busy, Forbidden, Loop, NotFound, Unauthorized, UnknownModel
from gateway.server import guard, lists
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.headers import hops
from gateway.server.passthrough import passthrough
from gateway.server.relay import relay
from gateway.server.tunnel import tunnel, wants_websocket

MOST_HOPS = 4
"""Gateways that a request may have passed. More than two in a row are rare; a ring of them goes round for ever."""

LEAVING = Listener(host="127.0.0.1", port=0, identity="auto")
"""Stands in for a listener that a reload has removed while a connection to it was still open."""

Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]


def entry(gateway: Gateway, address: tuple[str, int]) -> Handler:
    """The handler of the listener at this configured address."""

    async def handle(request: BaseRequest) -> StreamResponse:
        dialect = dialects.for_path(request.path, request.headers)
        now = gateway.now
        exchange = Exchange(request, gateway.begin(request), dialect, now, now.doors.get(address) or LEAVING)
        try:
            async with exchange.deadline:
                await admit(exchange, gateway)
        except BaseException as error:
            await exchange.settle(error)
        finally:
            gateway.close(exchange.flight)
        return exchange.response or StreamResponse()  # a broken connection needs no reply, aiohttp needs an object

    return handle


async def admit(exchange: Exchange, gateway: Gateway) -> None:
    """Check the door, then go one of the ways. Raises Refusal."""
    request, config = exchange.request, exchange.now.config
    host = request.headers.get("Host")
    if not guard.host_allowed(host, exchange.door.host, config.hosts):
        exchange.origin = None
        raise Forbidden("This Host name is not served here; add it under `hosts:`.", code="host_not_allowed")
    if not guard.origin_allowed(exchange.origin, host, config.cors_origins):
        exchange.origin = None
        raise Forbidden(
            "Pages of this origin may not use this gateway; add it under `cors_origins:`.", code="origin_not_allowed"
        )
    if guard.is_preflight(request.method, request.headers):
        await local(exchange, 204, guard.preflight(request.headers))
        return
    auth = guard.authenticate(request.headers, config.api_keys)
    if not auth.ok:
        raise Unauthorized("No valid API key; send one of the gateway's `api_keys` as Bearer or x-api-key.")
    exchange.drop = auth.drop
    exchange.flight.knows(auth.key)
    if hops(request.headers) > MOST_HOPS:
        raise Loop("This request has passed too many gateways; one of them has another gateway, or itself, as a backend.")
    if gateway.draining:
        raise Busy("The gateway is shutting down; try again in a moment.", status=503, code="draining", retry_after=2)
    await go(exchange, gateway)


async def go(exchange: Exchange, gateway: Gateway) -> None:
    request, fleet = exchange.request, gateway.fleet
    endpoint = dialects.find(request.method, request.path)
    if endpoint is not None:
        exchange.flight.dialect, exchange.dialect = endpoint.dialect.name, endpoint.dialect
        await relay(exchange, endpoint, gateway)
        return
    if exchange.now.config.passthrough != "all" and gateway.destructive(request.method, request.path):
        raise Forbidden(
            "This path takes models or caches away from everyone, so it is refused; `passthrough: all` lets it through.",
            code="destructive_path",
        )
    identity = gateway.identity(exchange.door)
    if _foreign(request.path, identity):
        raise NotFound(f"This gateway answers as {identity}, which has no {request.path}.", code="other_identity")
    if request.method in ("GET", "HEAD") and lists.must_merge(request.path, fleet.view, exchange.now.catalog):
        await local(exchange, 200, body=lists.merged(request.path, fleet.view, exchange.now.catalog))
        return
    if request.method in ("GET", "HEAD") and (name := lists.model_named(request.path, fleet.view, exchange.now.catalog)):
        row = lists.one(name, fleet.view, exchange.now.catalog)
        if row is None:
            raise UnknownModel(f"Model {name[:80]!r} is not known here; /v1/models lists what is.")
        await local(exchange, 200, body=row)
        return
    if wants_websocket(request):
        await tunnel(exchange, gateway)
        return
    await passthrough(exchange, gateway)


async def local(exchange: Exchange, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
    """A reply that needs no backend."""
    await exchange.reply(status, body, CIMultiDict(headers or {}))
    exchange.flight.ends(status, "ok")


def _foreign(path: str, identity: str) -> bool:
    """Whether clients ask this path to recognise another kind of server than this listener looks like."""
    return path in IDENTITY_PATHS and identity != "auto" and path not in KINDS[identity].probes
