"""How one model is asked: through the running gateway, as clients do, or directly at the server that has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway import values
from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.config import Backend
from gateway.contract.server import Server
from gateway.dispatch.plan import address_of
from gateway.doctor.running import DOCTOR, Running, listeners, reachable
from gateway.doctor.subject import Setup, open_backend, open_server, probe
from gateway.errors import WarmgateError

PATIENCE = 120.0
"""Seconds that one answer may take: the model may have to be loaded first."""

ALONE = {"x-warmgate-mode": "off", "user-agent": DOCTOR}
"""The gateway neither edits what the doctor asks nor learns from it, and its requests are not taken for a client's later."""


class NoTarget(WarmgateError):
    """Nobody has that model."""


@dataclass(frozen=True, slots=True)
class Target:
    """server: how it is asked; name: of the backend; through: the gateway is in between."""

    server: Server
    name: str
    through: bool


@asynccontextmanager
async def open_target(setup: Setup, model: str, *, direct: bool) -> AsyncIterator[Target]:
    """Raises NoTarget, with a sentence; OSError or ssl.SSLError when the file of an authority cannot be used."""
    name, own = await _having(setup, model)
    backend = setup.backends[name]
    if direct or not isinstance(setup.running, Running):
        async with open_backend(backend, own, PATIENCE) as (server, seen):
            if not seen.up:
                raise NoTarget(f"{backend.base_url}: {seen.problem or 'it does not answer'}")
            yield Target(server, name, through=False)
        return
    url, headers = _gateway(setup, setup.running)
    async with open_server(url, headers, True, "openai", model, PATIENCE) as (server, seen):
        if not seen.up:
            raise NoTarget(f"The gateway at {url} does not answer: {seen.problem}")
        server.seen = await _look(backend)  # of what it says, that counts which the server behind the gateway can say
        server.kind = KINDS[server.seen.kind]
        yield Target(server, name, through=True)


def _gateway(setup: Setup, running: Running) -> tuple[str, Mapping[str, str]]:
    """Its first data address, and what it wants to be shown."""
    addresses = listeners(running.status)
    if not addresses:
        raise NoTarget("The running gateway has no data address; ask the server itself with --direct.")
    host, _, port = addresses[0].rpartition(":")
    key = {"authorization": f"Bearer {setup.config.api_keys[0]}"} if setup.config.api_keys else {}
    return f"http://{reachable(host.strip('[]'))}:{port}", {**key, **ALONE}


async def _having(setup: Setup, model: str) -> tuple[str, str]:
    """The first backend that has the model, and its own name for it. A name of the configuration counts, aliases too."""
    for name, wanted in _configured(setup, model):
        if name in setup.backends:
            return name, wanted
    seen = {name: await _look(backend) for name, backend in setup.backends.items()}
    for name, looked in seen.items():
        spelt = {listed.name for listed in looked.models}
        if own := next((one for one in (model, f"{model}:latest") if one in spelt), None):
            return name, own
    for name, looked in seen.items():
        if looked.up and looked.single_model and looked.models:
            return name, model
    names = sorted({listed.name for looked in seen.values() for listed in looked.models})
    raise NoTarget(f"No server has the model {model}; there are: {', '.join(names[:20]) or 'none'}.")


def _configured(setup: Setup, model: str) -> list[tuple[str, str]]:
    found = [
        tuple(target.split("/", 1))
        for name, entry in setup.config.models.items()
        if model == name or model in entry.aliases
        for target in entry.targets
    ]
    return [(target[0], target[1]) for target in found]


async def _look(backend: Backend) -> values.Probe:
    control = Control(backend.base_url, backend.headers, address_of(backend).tls)
    try:
        return await probe(backend.kind, control)
    finally:
        await control.close()
