"""From a call to its order: where it may go by name, and what routing has to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.dialects.base import Endpoint
from gateway.dispatch.plan import Order, Place
from gateway.routing.board import Ask
from gateway.routing.fleet import FleetView
from gateway.routing.naming import name
from gateway.server.exchange import Exchange
from gateway.server.gateway import Gateway
from gateway.server.orders import answer_order
from gateway.values import Call, Target

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict")
"""Fields by which the APIs bound an answer, in tokens; Ollama's own stands in `options`."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where a call may go. first: where it goes as long as that can be reached, None: wherever routing says."""

    places: tuple[Place, ...]
    first: Place | None = None


def candidates(call: Call, exchange: Exchange, gateway: Gateway) -> Candidates:
    """By the name of its model. A side request goes to the model that the configuration has for it, unless that is down.

    Raises UnknownModel.
    """
    flight, now, view = exchange.flight, exchange.now, gateway.fleet.view
    home = gateway.home(exchange.door)
    named = name(call.model, call.path, view, now.catalog, home.name if home else "")
    flight.label, flight.decision = named.label, named.decision
    places = now.places(named.targets, view, call.model)
    side = _side_target(call, view, exchange)
    if side is None:
        return Candidates(places)
    flight.label, flight.decision = side.model or named.label, "side"
    (first,) = now.places((side,), view, call.model)
    return Candidates((first, *(place for place in places if place.known_as != first.known_as)), first)


def _side_target(call: Call, view: FleetView, exchange: Exchange) -> Target | None:
    configured = exchange.now.catalog.find(call.model) if call.model and call.kind == "side" else None
    side = configured.side if configured else None
    backend = view.get(side.backend) if side else None
    able = backend is not None and backend.up and not backend.circuit_open and call.path in backend.serves
    return side if able else None


def order_for(
    call: Call, found: Candidates, endpoint: Endpoint, exchange: Exchange, gateway: Gateway, *, edited: bool
) -> Order:
    """call: as it is sent; edited: it is the canonical form."""
    if endpoint.task != "answer":
        return answer_order(call, found.places, endpoint, exchange)
    trace = exchange.flight.trace
    chain = trace.went_out(edited).chain if trace is not None else None
    if chain is not None and not chain.digests:  # an empty prompt, as for loading a model
        chain = None

    def warm() -> Mapping[str, int]:
        return gateway.accounting.warm(chain, trace.label) if trace is not None and chain is not None else {}

    body = call.body or {}
    carries_slot = call.body is not None and any(call.path in place.state.kind.pins for place in found.places)
    asked_slot = _slot(body) if carries_slot else None
    ask = Ask(
        targets=tuple(place.known_as for place in found.places),
        chain=chain,
        warm=warm(),
        side=call.kind == "side",
        stream=call.stream,
        pinnable=carries_slot and asked_slot is None,
        asked_slot=asked_slot,
        limit=answer_limit(body),
        session=trace.session if trace is not None else "",
        label=trace.label if trace is not None else exchange.flight.label,
        hold=exchange.now.config.routing.hold,
    )
    return answer_order(call, found.places, endpoint, exchange, ask, warm, found.first)


def answer_limit(body: Mapping[str, Any]) -> int | None:
    """The most tokens that the answer may have, None where the call does not say. Negative numbers mean no limit."""
    options = body.get("options")
    said = [body.get(name) for name in LIMITS]
    said.append(options.get("num_predict") if isinstance(options, dict) else None)
    limits = [value for value in said if isinstance(value, int) and not isinstance(value, bool) and value > 0]
    return min(limits, default=None)


def _slot(body: Mapping[str, Any]) -> int | None:
    """The slot that the client asks for by itself; -1 means any."""
    slot = body.get("id_slot")
    return slot if isinstance(slot, int) and not isinstance(slot, bool) and slot >= 0 else None
