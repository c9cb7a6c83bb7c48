"""How the slots of a server are used, for people: no prompt text, and digests only. Pure."""

from __future__ import annotations

from typing import Any

from gateway.clock import Clock
from gateway.routing.board import Slot
from gateway.state.shadow import held
from gateway.state.slot_server import Server


def shown(server: Server, clock: Clock) -> dict[str, Any]:
    """mode, pins, why_no_pins, cache (in RAM, null: not known) and slots, with times in seconds since the epoch."""
    why = server.why_no_pins(clock.now())
    return {
        "mode": server.mode,
        "pins": not why,
        "why_no_pins": why or None,
        "cache": server.trust.cache,
        "slots": [_slot(slot, clock) for slot in server.shadow.slots],
    }


def _slot(slot: Slot, clock: Clock) -> dict[str, Any]:
    content = held(slot)
    return {
        "number": slot.number,
        "busy": slot.flight is not None,
        "draining": slot.draining,
        "foreign": slot.foreign,
        "tokens": content.tokens if content else None,
        "session": content.session or None if content else None,
        "side": content.side if content else False,
        "used": clock.wall() - (clock.now() - content.used) if content else None,
        "hits": content.hits if content else 0,
    }
