"""What dispatch is asked to send, and a backend's configuration in the form that it needs. No I/O but reading a CA file."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass

from multidict import CIMultiDict

from gateway.backends.base import Kind
from gateway.config import Backend
from gateway.dispatch.upstream import Address
from gateway.state.fleet import BackendState
from gateway.values import Target


@dataclass(frozen=True, slots=True)
class Place:
    """A target, with the backend and the address that it had when the request began: a reload does not touch those."""

    target: Target
    state: BackendState
    address: Address


@dataclass(frozen=True, slots=True)
class Order:
    """A request in the form in which any of its targets can be served.

    Path, headers and body are made for each target, because kinds differ in what must be stripped or asked for; one that can be
    read only once (`single_use`) is never sent twice. gated: it waits for a place at the backend, as answers do, among at most
    `queue` others; lead: path and body that have a server read the head of the prompt alone, None where it has none.
    """

    method: str
    path_query: Callable[[Target, Kind], str]
    places: tuple[Place, ...]
    label: str
    headers: Callable[[Target, Kind], CIMultiDict[str]]
    body: Callable[[Target, Kind], bytes | AsyncIterable[bytes] | None]
    gated: bool
    decode: bool
    queue: int = 64
    single_use: bool = False
    lead: Callable[[Target, Kind], tuple[str, bytes] | None] = lambda target, kind: None


def address_of(backend: Backend) -> Address:
    """Raises OSError or ssl.SSLError when the CA file cannot be used."""
    tls: ssl.SSLContext | bool = backend.tls.verify
    if backend.tls.ca:
        tls = ssl.create_default_context(cafile=str(backend.tls.ca))
    return Address(backend.base_url, connect=backend.timeouts.connect, tls=tls)
