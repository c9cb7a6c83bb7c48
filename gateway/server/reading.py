"""From a request to a Call: the body is read, parsed and looked at, and refused if no server could make sense of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from gateway.dialects.base import Endpoint
from gateway.dialects.faults import find_fault
from gateway.errors import BadRequest
from gateway.server.body import decompress, read_body
from gateway.server.exchange import Exchange
from gateway.values import Call


async def read_call(exchange: Exchange, endpoint: Endpoint) -> Call:
    """Raises TooLarge, BadRequest; a body that is too slow ends in the deadline."""
    request, flight, limits = exchange.request, exchange.flight, exchange.now.config.limits
    raw = await read_body(request, limits.body, limits.client_stall, exchange.deadline)
    began = flight.clock.now()
    plain = _plain(raw, request.headers.get("Content-Encoding", ""), limits.body)
    body, exact = parse(plain) if plain is not None else ({}, False)
    if fault := find_fault(endpoint, body):
        raise BadRequest(fault)
    model, dialect = body.get("model"), endpoint.dialect
    call = Call(
        id=flight.id,
        dialect=dialect.name,
        path=endpoint.path,
        query=request.query_string,
        raw=raw if plain is None else plain,
        body=body if exact else None,
        model=model if isinstance(model, str) and model else None,
        stream=dialect.wants_stream(endpoint.path, body),
        client=flight.client,
        headers=request.headers,
        decoded=plain is not raw and plain is not None,
    )
    flight.model, flight.stream = call.model, call.stream
    flight.overhead["parse"] = flight.clock.now() - began
    return call


def parse(raw: bytes) -> tuple[Mapping[str, Any], bool]:
    """The body as an object, and whether orjson read it: what only json reads (BOM, NaN, lone surrogates) is not rewritten.

    Raises BadRequest with a sentence that says what is wrong.
    """
    try:
        body, exact = orjson.loads(raw), True
    except ValueError as strict:
        try:
            body, exact = json.loads(raw), False
        except RecursionError:
            raise BadRequest("The body is nested too deeply to be a prompt.", code="invalid_json") from None
        except ValueError:
            words = "The body is empty; send a JSON object." if not raw.strip() else f"The body is not valid JSON: {strict}"
            raise BadRequest(words, code="invalid_json") from None
    if not isinstance(body, dict):
        raise BadRequest("The body must be a JSON object.", code="invalid_body")
    return body, exact


def json_object(raw: bytes) -> Mapping[str, Any] | None:
    """The body as an object; None if it is none."""
    try:
        body = orjson.loads(raw)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _plain(raw: bytes, encoding: str, limit: int) -> bytes | None:
    """The body without its Content-Encoding; None if that is one which only the backend may be able to read."""
    encoding = encoding.strip().lower()
    return raw if encoding in ("", "identity") else decompress(raw, encoding, limit)
