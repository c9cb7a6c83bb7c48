"""locate(): where a request goes that is no call for an answer: embeddings, pulls, listings, anything unknown. Pure."""

from __future__ import annotations

from gateway.routing.fleet import BackendView, Catalog, FleetView
from gateway.routing.naming import OTHER
from gateway.values import Route, Target


def locate(asked: str | None, path: str, fleet: FleetView, catalog: Catalog, identity: str) -> Route | None:
    """The backend that has the model, preferring one whose own API the path is; without a model the listener's own backend.

    identity: name of the listener's own backend. None only when no backend is configured.
    """
    found = _holders(asked, fleet, catalog) if asked else []
    if found:
        ranked = sorted(found, key=lambda pair: (-_owned(pair[0], path), not pair[0].up))
        return Route(
            tuple(target for _, target in ranked), "only" if len(ranked) == 1 else "order", _label(asked, found, catalog)
        )
    home = fleet.get(identity)
    closest = max((_owned(backend, path) for backend in fleet.backends), default=0)
    own = [backend for backend in fleet.backends if closest and _owned(backend, path) == closest]
    if home is not None and (not own or home in own):
        return Route((Target(home.name, None),), "unlisted", OTHER)
    if own:
        return Route((Target(own[0].name, None),), "unlisted", OTHER)
    return Route((Target(fleet.backends[0].name, None),), "unlisted", OTHER) if fleet.backends else None


def _holders(asked: str, fleet: FleetView, catalog: Catalog) -> list[tuple[BackendView, Target]]:
    named = catalog.find(asked)
    if named and named.targets:
        pairs = [(fleet.get(target.backend), target) for target in named.targets]
        return [(backend, target) for backend, target in pairs if backend]
    name = named.name if named else asked
    return [(b, Target(b.name, own if own != asked else None)) for b in fleet.backends if (own := b.own_name(name))]


def _label(asked: str | None, found: list[tuple[BackendView, Target]], catalog: Catalog) -> str:
    named = catalog.find(asked) if asked else None
    backend, target = found[0]
    return named.name if named else target.model or backend.own_name(asked or "") or OTHER


def _owned(backend: BackendView, path: str) -> int:
    """How much of a path's beginning is the backend's own. The most wins: LM Studio's `/api/v1/` over Ollama's `/api/`."""
    return max((len(beginning) for beginning in backend.owns if path.startswith(beginning)), default=0)
