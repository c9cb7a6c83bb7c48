"""The kinds of servers. To add one: write its file, put its table here."""

from __future__ import annotations

from gateway.backends.auto import AUTO
from gateway.backends.base import Kind
from gateway.backends.llamacpp import LLAMACPP
from gateway.backends.ollama import OLLAMA
from gateway.backends.openai import OPENAI

KINDS: dict[str, Kind] = {kind.name: kind for kind in (LLAMACPP, OLLAMA, OPENAI, AUTO)}

IDENTITY_PATHS: frozenset[str] = frozenset(path for kind in KINDS.values() for path in kind.probes) | {
    "/api/v1/models",
    "/api/v0/models",
    "/version",
}
"""Paths by which clients recognise a kind of server. A listener answers those of its identity only, so that a client that asks
in order and believes the first answer sees one kind. `/health` is left out below: it tells nothing apart."""

IDENTITY_PATHS -= {"/health", "/v1/health"}
