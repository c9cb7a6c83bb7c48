"""What `/status` shows: listeners, backends, models, and what runs. No prompt text, no keys."""

from __future__ import annotations

import math
from typing import Any

from gateway import __version__
from gateway.server.gateway import Gateway


def describe(gateway: Gateway, pins: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """What `/status` shows. No prompt text, no keys."""
    return {
        "version": __version__,
        "draining": gateway.draining,
        "scraped": gateway.scraped,
        "listeners": [
            {"address": f"{door.host}:{door.port}", "identity": gateway.identity(door)} for door in gateway.now.doors.values()
        ],
        "backends": [backend_row(gateway, name) for name in gateway.fleet.states],
        "models": {model.name: list(model.aliases) for model in gateway.now.catalog.models},
        "residency": gateway.residency.rows(),
        "pins": pins or [],
        "canonical": _canonical(gateway),
        "in_flight": gateway.requests.in_flight(),
        "recent": gateway.requests.recent(20),
    }


def _canonical(gateway: Gateway) -> dict[str, Any]:
    """How prompts are canonicalized, and what is remembered for it."""
    config, memory = gateway.now.config.canonical, gateway.memory
    return {
        "mode": config.mode,
        "rules": list(config.rules),
        "observe": list(config.observe),
        "custom": [rule.name for rule in config.custom],
        "ledger": {"rows": len(memory.ledger), "durable": memory.durable, "problem": memory.problem},
    }


def backend_row(gateway: Gateway, name: str) -> dict[str, Any]:
    """One backend as it is now. Raises KeyError for one that is not configured."""
    state = gateway.fleet.states[name]
    probe, view = state.probe, gateway.fleet.view.get(name)
    return {
        "name": name,
        "url": state.config.base_url,
        "kind": state.kind.name,
        "up": bool(probe and probe.up),
        "loading": bool(probe and probe.loading),
        "sleeping": bool(probe and probe.sleeping),
        "problem": probe.problem if probe else "not looked at yet",
        "version": probe.version if probe else None,
        "slots": probe.slots if probe else None,
        "slot_use": gateway.seats.shown(name),
        "snapshots": gateway.snapshots.status(name),
        "circuit_open": bool(view and view.circuit_open),
        "in_flight": state.in_flight,
        "waiting": gateway.dispatcher.waiting(name),
        "probed": state.probed,
        "models": [
            {
                "name": model.name,
                "context": model.context,
                "resident": model.resident,
                "bytes": model.resident_bytes,
                "expires": model.expires,  # null in JSON also where it is infinite
                "never_expires": model.expires == math.inf,
            }
            for model in (view.models.values() if view else ())
        ],
    }
