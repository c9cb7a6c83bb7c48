"""What `warmgate check --live` finds: one look at each configured backend, as the running gateway would take it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from gateway.backends import KINDS
from gateway.config import Backend, Config
from gateway.control.probe import control_of, look
from gateway.server.gateway import addresses_of
from gateway.values import Probe


async def look_at_all(config: Config) -> dict[str, Probe]:
    """By name of the backend, all at the same time. Raises ConfigError for TLS settings that cannot be used."""
    addresses = await asyncio.to_thread(addresses_of, config)

    async def one(name: str, backend: Backend) -> Probe:
        control = control_of(backend, addresses[name])
        try:
            return await look(backend, control, KINDS[backend.kind])
        finally:
            await control.close()

    found = await asyncio.gather(*(one(name, backend) for name, backend in config.backends.items()))
    return dict(zip(config.backends, found, strict=True))


def is_well(probe: Probe) -> bool:
    return probe.up and probe.problem is None


def lines(found: Mapping[str, Probe]) -> Iterator[str]:
    """One line for each backend."""
    for name, probe in found.items():
        what, count = f"{probe.kind} {probe.version or ''}".strip(), len(probe.models)
        seen = f"up, {what}, {count} model{'' if count == 1 else 's'}" if probe.up else "not up"
        yield f"live     {name}: {seen}{f'; {probe.problem}' if probe.problem else ''}"


def document(found: Mapping[str, Probe]) -> dict[str, object]:
    return {
        name: {
            "up": probe.up,
            "kind": probe.kind,
            "version": probe.version,
            "problem": probe.problem,
            "models": [model.name for model in probe.models],
        }
        for name, probe in found.items()
    }
