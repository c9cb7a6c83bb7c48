"""What dispatch is asked to send, and a backend's configuration in the form that it needs. No I/O but reading a CA file."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable, Callable, Mapping
from dataclasses import dataclass

from multidict import CIMultiDict

from gateway.backends.base import Kind
from gateway.config import Backend
from gateway.dispatch.upstream import Address
from gateway.routing.board import Ask
from gateway.state.fleet import BackendState
from gateway.values import Target

Warm = Callable[[], Mapping[str, int]]
"""How many nodes of a prompt's chain each backend holds, as is known now."""


@dataclass(frozen=True, slots=True)
class Place:
    """A target, with the backend and the address that it had when the request began: a reload does not touch those.

    model: by which routing knows the model there, None where the backend ignores names.
    """

    target: Target
    state: BackendState
    address: Address
    model: str | None = None

    @property
    def known_as(self) -> Target:
        """The target in the words of routing's board."""
        return Target(self.target.backend, self.model)


@dataclass(frozen=True, slots=True)
class Order:
    """A request in the form in which any of its targets can be served.

    Path, headers and body are made for each target, because kinds differ in what must be stripped or asked for; the body also
    for the slot that is named in it, if one is. One that can be read only once (`single_use`) is never sent twice.

    ask: what routing has to know of it, but for the targets; None: small or unknown, so that it never waits and its places are
    tried in their order. It may have to wait among at most `queue` others. warm: renews what `ask` says. first: where it goes
    as long as that can be reached. lead: path and body that have a server read the head of the prompt alone, None without one.
    """

    method: str
    path_query: Callable[[Target, Kind], str]
    places: tuple[Place, ...]
    label: str
    headers: Callable[[Target, Kind], CIMultiDict[str]]
    body: Callable[[Target, Kind, int | None], bytes | AsyncIterable[bytes] | None]
    decode: bool
    ask: Ask | None = None
    warm: Warm | None = None
    first: Place | None = None
    queue: int = 64
    single_use: bool = False
    lead: Callable[[Target, Kind], tuple[str, bytes] | None] = lambda target, kind: None


def address_of(backend: Backend) -> Address:
    """Raises OSError or ssl.SSLError when the CA file cannot be used."""
    tls: ssl.SSLContext | bool = backend.tls.verify
    if backend.tls.ca:
        tls = ssl.create_default_context(cafile=str(backend.tls.ca))
    return Address(backend.base_url, connect=backend.timeouts.connect, tls=tls)
