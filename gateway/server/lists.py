"""Model lists: what several backends offer, and the names that the configuration gives, as one list in the client's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import orjson

from gateway.backends import KINDS
from gateway.dialects import ENDPOINTS
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel, is_glob
from gateway.server import naming
from gateway.values import Target

Row = Mapping[str, Any]

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "/v1/models": ("data", {"object": "list"}),
    "/models": ("data", {"object": "list"}),
    "/api/tags": ("models", {}),
    "/api/ps": ("models", {}),
    "/api/v0/models": ("data", {"object": "list"}),
    "/api/v1/models": ("models", {}),
}
"""List path -> the key that its rows stand under, and what else the reply has."""

SOURCE = {"/models": "/v1/models"}
NAMES: dict[str, tuple[str, ...]] = {"/api/tags": ("name", "model"), "/api/ps": ("name", "model"), "/api/v1/models": ("key",)}
"""Keys by which a row names its model; `id` in all other lists."""

REACHED_BY = {
    "/v1/models": frozenset(path for path in ENDPOINTS if path.startswith("/v1/")),
    "/models": frozenset(path for path in ENDPOINTS if not path.startswith("/api/")),
    "/api/tags": frozenset({"/api/chat", "/api/generate"}),
    "/api/ps": frozenset({"/api/chat", "/api/generate"}),
    "/api/v0/models": frozenset({"/v1/chat/completions", "/api/v0/chat/completions"}),
    "/api/v1/models": frozenset({"/v1/chat/completions"}),
}
"""A list names only models that its own dialect's paths can reach."""


def must_merge(path: str, fleet: FleetView, catalog: Catalog) -> bool:
    """Whether this list cannot simply be the backend's own."""
    return path in SHAPES and (len(fleet.backends) != 1 or bool(catalog.models))


def merged(path: str, fleet: FleetView, catalog: Catalog) -> bytes:
    """The list as JSON. Rows are the backends' own, unknown fields included; the first backend that has a name wins."""
    key, around = SHAPES[path]
    rows: dict[str, Row] = {}
    for named in catalog.models:
        if (row := _row_of(named, path, key, fleet)) is not None:
            for name in (named.name, *(alias for alias in named.aliases if not is_glob(alias))):
                rows.setdefault(name, {**row, **dict.fromkeys(NAMES.get(path, ("id",)), name)})
    for backend in _reaching(path, fleet):
        for name, model in backend.models.items():
            if (own := model.rows.get(SOURCE.get(path, path))) is not None:
                rows.setdefault(name, own)
    return orjson.dumps({**around, key: list(rows.values())})


def model_named(path: str, fleet: FleetView, catalog: Catalog) -> str | None:
    """The model in `/v1/models/{name}`, where its row cannot simply be the backend's own."""
    found = naming.PATH.match(path)
    if found is None or found[1] != "/v1/models/" or found[2] in naming.LISTS or found[3]:
        return None
    return unquote(found[2]) if must_merge("/v1/models", fleet, catalog) else None


def one(name: str, fleet: FleetView, catalog: Catalog) -> bytes | None:
    """The row of one model in `/v1/models/{name}`, or None."""
    rows = orjson.loads(merged("/v1/models", fleet, catalog))["data"]
    named = catalog.find(name)
    wanted = {name, named.name} if named else {name}
    found = next((row for row in rows if row.get("id") in wanted), None)
    return orjson.dumps(found) if found else None


def _reaching(path: str, fleet: FleetView) -> list[BackendView]:
    return [backend for backend in fleet.backends if backend.serves & REACHED_BY[path] and path in KINDS[backend.kind].lists]


def _row_of(named: NamedModel, path: str, key: str, fleet: FleetView) -> Row | None:
    """The row of the first target that this list can reach. A configured model that no list shows yet gets a bare one."""
    reaching = {backend.name: backend for backend in _reaching(path, fleet)}
    targets = named.targets or tuple(Target(name, named.name) for name in reaching)
    for target in targets:
        backend = reaching.get(target.backend)
        model = backend.models.get(backend.own_name(target.model or "") or "") if backend else None
        if model and (row := model.rows.get(SOURCE.get(path, path))):
            return row
    if path in ("/api/ps", "/api/v1/models") or not any(target.backend in reaching for target in named.targets):
        return None
    return {"object": "model", "owned_by": "warmgate"} if key == "data" else {}
