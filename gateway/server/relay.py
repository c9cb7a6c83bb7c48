"""The data path, on one screen.

read call -> dialect -> choose backend -> open upstream -> relay bytes unchanged, peeking -> close the record
"""

from __future__ import annotations

from gateway.dialects.base import Endpoint, Tap
from gateway.dispatch.dispatcher import Reply
from gateway.routing.choose import choose
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.headers import to_client
from gateway.server.orders import answer_order, hides_usage
from gateway.server.reading import read_call
from gateway.server.replies import close_record, is_stream, next_piece, our_headers

AFTER_THE_END = 2.0  # seconds that a backend may take to end a reply whose last event has been seen


async def relay(exchange: Exchange, endpoint: Endpoint, gateway: Gateway) -> None:
    """One request for an answer. Raises Refusal, UpstreamError, Expired, ConnectionError; the caller tells the client."""
    flight, fleet = exchange.flight, gateway.fleet
    call = await read_call(exchange, endpoint)
    flight.read = gateway.clock.now()
    home = gateway.home(exchange.door)
    route = choose(call.model, call.path, fleet.view, exchange.now.catalog, home.name if home else "", fleet.load)
    flight.label, flight.decision = route.label, route.decision
    order = answer_order(call, route, endpoint, exchange)
    flight.overhead["route"] = gateway.clock.now() - flight.read
    async with gateway.dispatcher.open(order, flight, exchange.deadline) as reply:
        streaming = is_stream(reply.response)
        tap = endpoint.dialect.tap(call.path, streaming=streaming, hide_usage=streaming and hides_usage(call, reply.kind))
        exchange.tap = tap
        await carry(exchange, reply, tap, streaming)
        close_record(flight, call, reply, tap, streaming)
    await exchange.finish()


async def carry(exchange: Exchange, reply: Reply, tap: Tap, streaming: bool) -> None:
    """The reply's bytes, as they come. A stream's headers go out at once; a document's with its first byte, so that a backend
    that dies before it costs an error reply and not a broken connection."""
    flight, deadline, response = exchange.flight, exchange.deadline, reply.response
    headers = to_client(response.headers, decoded="Content-Encoding" in response.headers, streaming=streaming)
    headers.update(our_headers(flight, reply))
    if streaming:
        await exchange.start(response.status, headers, streaming=True)
    data = reply.head
    while True:
        if data:
            out = tap.feed(data)
            if tap.seen.first and flight.first is None:
                flight.saw_first(tap.seen.first)
            if exchange.response is None:
                await exchange.start(response.status, headers)
            if out:
                await exchange.write(out)
        deadline.move(reply.idle if tap.seen.first else reply.first_byte, "upstream")
        data = await next_piece(reply, patience=AFTER_THE_END if streaming and tap.seen.finished else None)
        if not data:
            break
    if rest := tap.close():
        await exchange.write(rest)
    if exchange.response is None:  # an empty document
        await exchange.start(response.status, headers)
