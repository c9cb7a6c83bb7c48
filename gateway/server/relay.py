"""The data path, on one screen.

read call -> dialect -> name backends -> canonical form, chain -> place (hold) -> open upstream -> relay bytes, peeking -> close
record
"""

from __future__ import annotations

from collections import deque

from gateway.dialects.base import Endpoint, Tap
from gateway.dispatch.dispatcher import Reply
from gateway.dispatch.plan import Order
from gateway.errors import UpstreamDied
from gateway.server.asks import candidates, order_for
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.headers import to_client
from gateway.server.heart import Heart
from gateway.server.orders import hides_usage
from gateway.server.reading import read_call
from gateway.server.replies import REFUSALS, as_error, begun, close_record, ends_once, next_piece, our_headers
from gateway.values import Call

MOVES = 2  # backends that may die of one request, or beside it, before it is given up
AFTER_THE_END = 2.0  # seconds that a backend may take to end a reply whose last event has been seen


async def relay(exchange: Exchange, endpoint: Endpoint, gateway: Gateway) -> None:
    """One request for an answer. Raises Refusal, UpstreamError, Expired, ConnectionError; the caller tells the client."""
    flight, now = exchange.flight, exchange.now
    call = await read_call(exchange, endpoint)
    flight.read = gateway.clock.now()
    call = gateway.sort(call, flight)
    found = candidates(call, exchange, gateway)
    flight.lap("route")
    stable = now.stabilizer.make(call, (call.model or "", flight.label), counting=endpoint.task == "count")
    flight.lap("canonical")
    gateway.trace(stable, flight, counting=endpoint.task == "count")
    flight.lap("chain")
    with Heart(exchange, call, endpoint, now.config.heartbeat):
        attempts = deque(stable.tries)  # the canonical body; the client's own, if a server refuses that
        while attempts:
            attempt, edited = attempts[0], attempts[0] is not call
            flight.edits = stable.header if edited else ""
            exchange.transcript = bytearray() if stable.listens and edited else None
            order = order_for(attempt, found, endpoint, exchange, gateway, edited=edited)
            try:
                if await answered(exchange, attempt, endpoint, order, gateway, refusable=edited):
                    break
                attempts.popleft()
            except UpstreamDied:
                if not await may_move(exchange, gateway):
                    raise
            flight.retries += 1
    if flight.outcome == "ok":
        now.stabilizer.learn(stable, attempt, exchange.transcript, streaming=exchange.streaming)
        gateway.learn(attempt, flight)
    await exchange.finish()


async def answered(
    exchange: Exchange, call: Call, endpoint: Endpoint, order: Order, gateway: Gateway, *, refusable: bool
) -> bool:
    """Whether a backend's reply has been passed on; False: it refused the edited body."""
    async with gateway.dispatcher.open(order, exchange.flight, exchange.deadline) as opened:
        reply, streaming = await begun(opened, call)
        hide = streaming and hides_usage(call, reply.kind)
        exchange.tap = tap = endpoint.dialect.tap(call.path, streaming=streaming, hide_usage=hide)
        return await carry(exchange, call, reply, tap, streaming, refusable=refusable)


async def may_move(exchange: Exchange, gateway: Gateway) -> bool:
    """Whether a request whose backend broke the connection is sent to another: nothing of the reply has been passed on, and the
    backend is gone, so that it does not work on it any more."""
    backend = exchange.flight.backend
    exchange.moves += 1
    if exchange.wrote or exchange.moves > MOVES or backend is None:
        return False
    exchange.tap = None
    return await gateway.dispatcher.is_gone(backend, exchange.now.addresses[backend])


async def carry(exchange: Exchange, call: Call, reply: Reply, tap: Tap, streaming: bool, *, refusable: bool) -> bool:
    """The reply's bytes, as they come. A stream's headers go out at once; a document's with its first byte, so that a backend
    that dies before it costs an error reply and not a broken connection.

    refusable: the body was edited; False, with not a byte of the reply passed on, if that is what the backend did not like.
    """
    flight, deadline, response, written = exchange.flight, exchange.deadline, reply.response, False
    if refusable and response.status in REFUSALS:
        return False
    headers = to_client(response.headers, decoded=reply.body.decoded, streaming=streaming)
    headers.update(our_headers(flight, reply))
    if streaming and exchange.response is None:
        await exchange.start(response.status, headers, streaming=True)
    elif exchange.streaming and not streaming:  # a stream that has been begun, by a beat or by a backend that then refused it
        raise await as_error(reply, tap)
    data, end = reply.head, None
    while True:
        if data:
            out = tap.feed(data)
            if tap.seen.first and flight.first is None:
                flight.saw_first(tap.seen.first)
            if refusable and tap.seen.error and not (written or tap.seen.first):
                return False
            if exchange.response is None:
                await exchange.start(response.status, headers)
            if out:
                await exchange.write(out)
                written = True
        deadline.move(reply.idle if tap.seen.first else reply.first_byte, "upstream")
        if end is None and streaming and tap.seen.finished and ends_once(call):
            end = deadline.now() + AFTER_THE_END
        data = await next_piece(reply, end)
        if not data:
            break
    if rest := tap.close():
        await exchange.write(rest)
    close_record(flight, call, reply, tap, streaming)
    if exchange.response is None:  # an empty document
        await exchange.start(response.status, headers)
    return True
