"""What is looked at: the setup as a whole, and each server in it, which remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from gateway import values
from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.config import Backend, Config
from gateway.contract.heard import Heard
from gateway.contract.report import Masking
from gateway.contract.server import Server
from gateway.contract.suite import NotExamined, choose
from gateway.dispatch.plan import address_of
from gateway.doctor.running import Asked, Running, Silent
from gateway.errors import Unreachable

PATIENCE = 4.0
"""Seconds that a server may take for one question about itself, or for an answer of one token to a loaded model."""


@dataclass(frozen=True, slots=True)
class Setup:
    """config: in force, or the defaults; running: the gateway, if one could be asked; backends: to be looked at, by name."""

    config: Config
    running: Running | Silent
    backends: Mapping[str, Backend]

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Requests that the running gateway remembers, the newest first."""
        return self.running.asked if isinstance(self.running, Running) else ()


class Subject:
    """A server that answers. Written to by its own checks only, which come one after another.

    name: the backend's; server: how it is asked, with the model that is loaded, else its first; config: its part.
    """

    def __init__(self, name: str, config: Backend, server: Server, setup: Setup):
        self.name, self.config, self.server, self.setup = name, config, server, setup
        self.memo: dict[Any, Any] = {}

    @property
    def seen(self) -> values.Probe:
        return self.server.seen

    @property
    def loaded(self) -> list[values.ModelInfo]:
        return [model for model in self.seen.models if model.resident]

    @property
    def asked(self) -> list[Asked]:
        """Requests that went to it."""
        return [row for row in self.setup.asked if row.backend == self.name]

    async def get(self, path: str) -> Heard:
        if path not in self.memo:
            self.memo[path] = await self.server.get(path)
        heard: Heard = self.memo[path]
        return heard

    async def post(self, path: str, body: Mapping[str, Any]) -> Heard:
        key = (path, json.dumps(body))
        if key not in self.memo:
            self.memo[key] = await self.server.post(path, body)
        heard: Heard = self.memo[key]
        return heard


@asynccontextmanager
async def open_server(
    url: str, headers: Mapping[str, str], tls: Any, kind: str, model: str | None, patience: float
) -> AsyncIterator[tuple[Server, values.Probe]]:
    """A way of asking the server there, and what it is. kind: `auto` = it is asked; model: None = one that is loaded."""
    tls = tls if url.startswith("https:") else False  # http: there is no certificate to verify, so none need be read
    control = Control(url, headers, tls, timeout=PATIENCE)
    # A connection for each request: one that the server is just about to close would look like a fault.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(
        headers=dict(headers), verify=tls, trust_env=False, timeout=httpx.Timeout(patience, connect=PATIENCE), limits=limits
    ) as client:
        try:
            seen = await probe(kind, control)
            name = model if model is not None else _model(seen)
            masking = Masking(control.base_url, name, secrets(headers))
            yield Server(control, client, KINDS[seen.kind if seen.kind in KINDS else kind], seen, name, masking), seen
        finally:
            await control.close()


async def probe(kind: str, control: Control) -> values.Probe:
    """One look; a server that cannot be reached is down."""
    try:
        return await KINDS[kind].probe(control)
    except Unreachable as error:
        return values.Probe(kind, up=False, problem=str(error))


@asynccontextmanager
async def open_backend(backend: Backend, model: str | None, patience: float) -> AsyncIterator[tuple[Server, values.Probe]]:
    """Raises OSError or ssl.SSLError when its CA file cannot be used."""
    url, tls = backend.base_url.removesuffix("/v1"), address_of(backend).tls
    async with open_server(url, backend.headers, tls, backend.kind, model, patience) as opened:
        yield opened


def secrets(headers: Mapping[str, str]) -> Sequence[str]:
    """What must not be told: values of headers, with and without the scheme before a key."""
    return [word for value in headers.values() for word in (value, value.rpartition(" ")[2]) if word]


def _model(seen: values.Probe) -> str:
    try:
        return choose(seen)
    except NotExamined:
        return ""
