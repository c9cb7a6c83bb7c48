"""What /metrics shows of states that nothing announces: looked at when it is asked, so that a request costs nothing for it."""

from __future__ import annotations

from collections import Counter

from gateway.events import ModelsKept, SlotsSeen
from gateway.routing.board import Slot
from gateway.server.gateway import Gateway

STATES = ("empty", "warm", "busy", "draining", "foreign")


def look(gateway: Gateway) -> None:
    """Publish what is so now. On the event loop."""
    gateway.bus.publish(ModelsKept(gateway.residency.kept()))
    for name in gateway.fleet.states:
        slots, why = gateway.seats.slots(name)
        states = Counter(state(slot) for slot in slots)
        gateway.bus.publish(
            SlotsSeen(
                name,
                {one: states[one] for one in STATES} if slots else {},
                gateway.scheduler.waiting(name),
                PINS if slots else (),
                why,
                bool((gateway.snapshots.status(name) or {}).get("given_up")),
            )
        )


PINS = ("broken", "foreign", "unreadable")
"""Why a server's slots are not pinned although they could be; what its kind or the configuration rules out is no fault."""


def state(slot: Slot) -> str:
    """What a slot does, by STATES."""
    if slot.foreign:
        return "foreign"
    if slot.draining:
        return "draining"
    if slot.flight is not None:
        return "busy"
    return "empty" if slot.held is None else "warm"
