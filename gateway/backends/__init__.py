"""The kinds of servers. To add one: write its file, put its sign into `auto.SIGNS`; the configuration lists the names too."""

from __future__ import annotations

from gateway.backends.auto import AUTO, KNOWN
from gateway.backends.base import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*KNOWN, AUTO)}

IDENTITY_PATHS: frozenset[str] = frozenset(path for kind in KINDS.values() for path in kind.probes) - {"/health", "/v1/health"}
"""Paths by which clients recognise a kind of server. A listener answers those of its identity only, so that a client that asks
in order and believes the first answer sees one kind. `/health` is left out: it tells nothing apart."""
