"""Everything that is no call for an answer: embeddings, uploads, pulls, listings, unknown paths. Streamed in both directions
without a size limit, to the backend of the model that the body names, else to the listener's own backend."""

from __future__ import annotations

from collections.abc import AsyncIterable

from multidict import CIMultiDict

from gateway.backends.base import Kind
from gateway.dialects.ollama_load import PATHS as SAYS_HOW_TO_LOAD
from gateway.dispatch.plan import Order
from gateway.errors import NotFound
from gateway.routing.locate import locate
from gateway.server import naming
from gateway.server.body import invite, read_body, read_head, rest_of
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.headers import STREAM_HEADERS, to_client, to_upstream
from gateway.server.orders import kept, renames
from gateway.server.reading import json_object
from gateway.server.replies import is_stream, next_piece, our_headers
from gateway.values import Target

HEAD = 64 << 10  # bytes of a large body in which a model's name is looked for
SMALL = 1 << 20  # a JSON body up to this length is read whole, so that an alias in it can be replaced
UPLOAD_PATIENCE = 900.0  # seconds in which a backend must take the next piece of an upload, or answer it

Body = bytes | AsyncIterable[bytes] | None


async def passthrough(exchange: Exchange, gateway: Gateway) -> None:
    """Raises NotFound (no backend), UpstreamError, Expired, ConnectionError; the caller tells the client."""
    request, flight, deadline = exchange.request, exchange.flight, exchange.deadline
    body, head = await _body(exchange)
    flight.read = gateway.clock.now()
    name = naming.find(request.path, request.rel_url.raw_query_string, request.content_type, head)
    flight.model = asked = name.model if name else None
    home = gateway.home(exchange.door)
    route = locate(asked, request.path, gateway.fleet.view, exchange.now.catalog, home.name if home else "")
    if route is None:
        raise NotFound("No backend is configured; add one under `backends:`.", code="no_backend")
    flight.label, flight.decision = route.label, route.decision

    def headers(target: Target, kind: Kind) -> CIMultiDict[str]:
        configured = exchange.now.config.backends[target.backend].headers
        out = to_upstream(
            request.headers, configured=configured, strip=kind.strip, drop=exchange.drop, dialect_call=False
        )  # fmt: skip
        if isinstance(body, bytes):
            out.pop("Content-Length", None)  # an alias that is replaced changes it
        return out

    def payload(target: Target, kind: Kind, _: int | None) -> Body:
        if not isinstance(body, bytes):
            return body
        named = body
        if name is not None and target.model is not None and renames(target, asked, kind):
            named = naming.in_body(body, name, target.model)
        if request.path not in SAYS_HOW_TO_LOAD:
            return named
        return kept(named, request.path, json_object(named), route.label, target, kind, exchange)

    def path_query(target: Target, kind: Kind) -> str:
        sent = request.rel_url.raw_path_qs
        if name is None or target.model is None or not renames(target, asked, kind):
            return sent
        return naming.in_path(sent, name, target.model)

    order = Order(
        method=request.method,
        path_query=path_query,
        places=exchange.now.places(route.targets, gateway.fleet.view, asked),
        label=route.label,
        headers=headers,
        body=payload,
        decode=False,
        single_use=not isinstance(body, bytes | None),
    )
    async with gateway.dispatcher.open(order, flight, deadline) as reply:
        out = to_client(reply.response.headers, decoded=False, streaming=False)
        out.update(our_headers(flight, reply))
        if is_stream(reply):
            out.update(STREAM_HEADERS)
        await exchange.start(reply.response.status, out)
        while True:
            deadline.move(reply.first_byte, "upstream")
            data = await next_piece(reply)
            if not data:
                break
            await exchange.write(data)
        status = reply.response.status
        flight.ends(status, "upstream_error" if status >= 500 else "client_error" if status >= 400 else "ok")
    await exchange.finish()


async def _body(exchange: Exchange) -> tuple[Body, bytes]:
    """The body to send, and the head of it in which a model may be named. Small JSON is read whole, anything else streamed."""
    request, limits = exchange.request, exchange.now.config.limits
    if not request.can_read_body:
        await invite(request)
        return None, b""
    length = request.content_length
    if length is not None and length <= SMALL:
        whole = await read_body(request, SMALL, limits.client_stall, exchange.deadline)
        return whole, whole
    head = await read_head(request, HEAD, limits.client_stall, exchange.deadline)
    return rest_of(request, head, limits.client_stall, UPLOAD_PATIENCE, exchange.deadline), head
