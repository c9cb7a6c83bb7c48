"""What goes to a backend: the client's own bytes, with the few control fields that the gateway sets spliced in by range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from multidict import CIMultiDict

from gateway.backends.base import Kind
from gateway.dialects.base import Endpoint
from gateway.dialects.openai import usage_request
from gateway.dialects.prefill import prefill
from gateway.dispatch.plan import Order, Place, Warm
from gateway.errors import BadRequest
from gateway.routing.board import Ask
from gateway.server.exchange import Exchange
from gateway.server.headers import to_upstream
from gateway.server.reading import json_object
from gateway.values import Call, Target
from gateway.wire.splice import set_fields

ASK_FOR_USAGE = frozenset({"openai_chat", "openai_completions"})
"""Dialects whose streams count tokens only on request."""


def answer_order(
    call: Call,
    places: tuple[Place, ...],
    endpoint: Endpoint,
    exchange: Exchange,
    ask: Ask | None = None,
    warm: Warm | None = None,
    first: Place | None = None,
) -> Order:
    """The order for a call of the dialect table. ask, warm, first: as in Order; counting tokens is quick, and has no ask."""
    config = exchange.now.config
    query = exchange.request.rel_url.raw_query_string

    label = exchange.flight.label

    def headers(target: Target, kind: Kind) -> CIMultiDict[str]:
        return to_upstream(
            exchange.request.headers,
            configured=config.backends[target.backend].headers,
            strip=kind.strip,
            drop=exchange.drop,
            dialect_call=True,
            decoded=call.decoded,
        )

    def lead(target: Target, kind: Kind) -> tuple[str, bytes] | None:
        made = prefill(call.path, json_object(body(target, kind, None)) or {})
        return (endpoint.path, made) if made is not None else None

    def body(target: Target, kind: Kind, slot: int | None) -> bytes:
        return kept(body_for(call, target, kind, slot), call.path, call.body, label, target, kind, exchange)

    return Order(
        method="POST",
        path_query=lambda *_: f"{endpoint.path}?{query}" if query else endpoint.path,
        places=places,
        label=label,
        headers=headers,
        body=body,
        decode=True,
        ask=ask,
        warm=warm,
        first=first,
        queue=config.routing.queue,
        lead=lead,
    )


def body_for(call: Call, target: Target, kind: Kind, slot: int | None = None) -> bytes:
    """The client's bytes, but for a model name that is an alias, the slot that it gets, a request for token counts where none
    would come, and one to use the cache where that must be asked for."""
    fields = {}
    if slot is not None and call.path in kind.pins and "id_slot" not in (call.body or ()):
        fields["id_slot"] = orjson.dumps(slot)
    if options := _usage_options(call, kind):
        fields["stream_options"] = options
    if call.path in kind.asks_cache and call.body is not None and "cache_prompt" not in call.body:
        fields["cache_prompt"] = b"true"
    renamed = renames(target, call.model, kind)
    if renamed:
        fields["model"] = orjson.dumps(target.model)
    if not fields:
        return call.raw
    try:
        return set_fields(call.raw, fields)
    except ValueError as error:
        if not renamed:
            return call.raw
        raise BadRequest(
            f"{call.model!r} is an alias, and this body cannot be edited ({error}); name {target.model!r} itself.",
            code="body_not_editable",
        ) from error


def kept(
    raw: bytes, path: str, body: Mapping[str, Any] | None, label: str, target: Target, kind: Kind, exchange: Exchange
) -> bytes:
    """The body with how long its model is to stay and how it is to be loaded, where requests say that."""
    if body is None or kind.loads is None or kind.loads.asked is None:
        return raw
    residency, model = exchange.now.residency, target.model or body.get("model")
    if kind.loads.asked == "ttl":
        return residency.with_ttl(raw, body, label, target.backend)
    return residency.edit(raw, path, body, label, target.backend, model) if isinstance(model, str) else raw


def renames(target: Target, asked: str | None, kind: Kind) -> bool:
    """Whether the backend must be told another name than the client wrote. Replies repeat the name that was told, so a server
    to which `x` and `x:latest` are one model is told the client's spelling."""
    if target.model is None or asked is None:
        return target.model is not None
    if kind.latest:
        return target.model.removesuffix(":latest") != asked.removesuffix(":latest")
    return target.model != asked


def hides_usage(call: Call, kind: Kind) -> bool:
    """Whether the reply has a usage chunk that the client did not ask for."""
    return _usage_options(call, kind) is not None


def _usage_options(call: Call, kind: Kind) -> bytes | None:
    """`stream_options` that ask for token counts, where the client did not and the server reports nothing otherwise."""
    if call.body is None or not call.stream or kind.usage_unasked:
        return None
    return usage_request(call.body) if call.dialect in ASK_FOR_USAGE else None
