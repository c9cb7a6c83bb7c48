"""choose(): which backends may answer a call, best first, and why. Pure: everything it knows is in its arguments."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from gateway.errors import UnknownModel
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.values import Route, Target

OTHER = "other"  # the metrics label of every model that neither the configuration nor a backend names

DECISIONS = ("only", "resident", "least_busy", "order", "single_model", "unlisted", "unhealthy")
"""Why the first target is first: the `only` candidate; the model is `resident`; the `least_busy`; first in the `order` of the
configuration; the server takes any name (`single_model`); no list is known yet, so it is tried (`unlisted`); all are
`unhealthy`, so the first is tried."""


def choose(
    asked: str | None, path: str, fleet: FleetView, catalog: Catalog, identity: str, load: Callable[[str], int]
) -> Route:
    """asked: the model as the client named it; path: of the dialect table; identity: name of the listener's own backend;
    load: requests at a backend, in flight or waiting for it.

    Raises UnknownModel with a sentence that names what there is.
    """
    serving = [backend for backend in fleet.backends if path in backend.serves]
    named = catalog.find(asked) if asked else None
    if named:
        found = [(backend, target) for backend, target in _targets(named, fleet) if backend in serving]
        if not found:
            raise _none_for(named.name, path, fleet)
        return _order(found, named.name, load)
    if asked:
        found = [(b, Target(b.name, own if own != asked else None)) for b in serving if (own := b.own_name(asked))]
        if found:
            return _order(found, found[0][0].own_name(asked) or asked, load)
    return _unlisted(asked, path, serving, fleet, catalog, identity)


def _targets(named: NamedModel, fleet: FleetView) -> list[tuple[BackendView, Target]]:
    if named.targets:
        pairs = [(fleet.get(target.backend), target) for target in named.targets]
        return [(backend, target) for backend, target in pairs if backend]
    listed = [(b, Target(b.name, own)) for b in fleet.backends if (own := b.own_name(named.name))]
    takes_it = [(b, Target(b.name, named.name)) for b in fleet.backends if b.single_model or not b.known]
    return listed or takes_it


def _order(found: list[tuple[BackendView, Target]], label: str, load: Callable[[str], int]) -> Route:
    """Healthy before unhealthy, resident before absent, idle before busy, then the order of the configuration."""

    def rank(pair: tuple[BackendView, Target]) -> tuple[bool, bool, int]:
        backend, target = pair
        info = backend.models.get(backend.own_name(target.model or label) or "")
        return (_sick(backend), info is not None and info.resident is False, load(backend.name))

    ranked = sorted(found, key=rank)
    return Route(tuple(target for _, target in ranked), _reason([rank(pair) for pair in ranked]), label)


def _reason(ranks: list[tuple[bool, bool, int]]) -> str:
    if len(ranks) == 1:
        return "only"
    if ranks[0][0]:
        return "unhealthy"
    healthy = [rank for rank in ranks if not rank[0]]
    if len(healthy) == 1:
        return "only"
    if healthy[0][1] != healthy[-1][1]:
        return "resident"
    if healthy[0][2] != healthy[-1][2]:
        return "least_busy"
    return "order"


def _unlisted(
    asked: str | None, path: str, serving: list[BackendView], fleet: FleetView, catalog: Catalog, identity: str
) -> Route:
    """No list has the name. A server with one model ignores names; one whose list is not known yet may have it."""
    for reason, takes in (("single_model", lambda b: b.single_model), ("unlisted", lambda b: not b.known or not asked)):
        able = sorted((b for b in serving if takes(b)), key=lambda b: (_sick(b), b.name != identity))
        if able:
            only = next(iter(able[0].models), None) if reason == "single_model" and len(able[0].models) == 1 else None
            return Route(tuple(Target(b.name, None) for b in able), reason, only or OTHER)
    if not serving:
        raise UnknownModel(f"No backend of this gateway serves {path}.{_kinds(fleet)}", code="path_not_served")
    names = list(dict.fromkeys([*catalog.names(), *(name for backend in serving for name in backend.models)]))
    raise UnknownModel(f"Model {_show(asked)} is not known here.{_hint(asked or '', names)}")


def _none_for(name: str, path: str, fleet: FleetView) -> UnknownModel:
    return UnknownModel(
        f"Model {_show(name)} is configured, but none of its backends has it and serves {path}.{_kinds(fleet)}",
        code="path_not_served",
    )


def _sick(backend: BackendView) -> bool:
    return backend.circuit_open or (backend.known and not backend.up)


def _show(text: str | None) -> str:
    return repr((text or "")[:80])


def _kinds(fleet: FleetView) -> str:
    kinds = ", ".join(f"{backend.name} ({backend.kind})" for backend in fleet.backends[:8])
    return f" Backends: {kinds}." if kinds else " No backends are configured."


def _hint(asked: str, names: list[str]) -> str:
    if not names:
        return " No backend lists any model."
    close = difflib.get_close_matches(asked[:80], names, n=1)
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return (f" Did you mean {_show(close[0])}?" if close else "") + f" Known models: {shown}."
