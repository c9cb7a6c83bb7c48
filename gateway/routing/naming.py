"""name(): which backends may answer a call by the name of its model. Which of them does is `gateway.routing.place`. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gateway.errors import UnknownModel
from gateway.routing.decisions import Decision
from gateway.routing.fleet import BackendView, Catalog, FleetView, NamedModel
from gateway.values import Target

OTHER = "other"  # the metrics label of every model that neither the configuration nor a backend names


@dataclass(frozen=True, slots=True)
class Named:
    """targets: never empty, in the order of preference by name, health and load apart; label: the model's name in metrics, from
    the configuration or a backend's list, else `other`; decision: what is known from the name alone."""

    targets: tuple[Target, ...]
    label: str
    decision: Decision


def name(asked: str | None, path: str, fleet: FleetView, catalog: Catalog, identity: str) -> Named:
    """asked: the model as the client named it; path: of the dialect table; identity: name of the listener's own backend.

    Raises UnknownModel with a sentence that names what there is.
    """
    serving = [backend for backend in fleet.backends if path in backend.serves]
    named = catalog.find(asked) if asked else None
    if named:
        found = tuple(target for backend, target in _targets(named, fleet) if backend in serving)
        if not found:
            raise _none_for(named.name, path, fleet)
        return Named(found, named.name, _decision(found))
    if asked:
        listed = [(own, Target(b.name, own if own != asked else None)) for b in serving if (own := b.own_name(asked))]
        if listed:
            targets = tuple(target for _, target in listed)
            return Named(targets, listed[0][0], _decision(targets))
    return _unlisted(asked, path, serving, fleet, catalog, identity)


def _targets(named: NamedModel, fleet: FleetView) -> list[tuple[BackendView, Target]]:
    if named.targets:
        pairs = [(fleet.get(target.backend), target) for target in named.targets]
        return [(backend, target) for backend, target in pairs if backend]
    listed = [(b, Target(b.name, own)) for b in fleet.backends if (own := b.own_name(named.name))]
    takes_it = [(b, Target(b.name, named.name)) for b in fleet.backends if b.single_model or not b.known]
    return listed or takes_it


def _decision(targets: tuple[Target, ...]) -> Decision:
    return "only" if len(targets) == 1 else "order"


def _unlisted(
    asked: str | None, path: str, serving: list[BackendView], fleet: FleetView, catalog: Catalog, identity: str
) -> Named:
    """No list has the name. A server with one model ignores names; one whose list is not known yet may have it."""
    home_first = sorted(serving, key=lambda backend: backend.name != identity)
    if single := [backend for backend in home_first if backend.single_model]:
        only = next(iter(single[0].models)) if len(single[0].models) == 1 else OTHER
        return Named(tuple(Target(backend.name, None) for backend in single), only, "single_model")
    if untold := [backend for backend in home_first if not backend.known or not asked]:
        return Named(tuple(Target(backend.name, None) for backend in untold), OTHER, "unlisted")
    if not serving:
        raise UnknownModel(f"No backend of this gateway serves {path}.{_kinds(fleet)}", code="path_not_served")
    names = list(dict.fromkeys([*catalog.names(), *(name for backend in serving for name in backend.models)]))
    raise UnknownModel(f"Model {_show(asked)} is not known here.{_hint(asked or '', names)}")


def _none_for(name: str, path: str, fleet: FleetView) -> UnknownModel:
    return UnknownModel(
        f"Model {_show(name)} is configured, but none of its backends has it and serves {path}.{_kinds(fleet)}",
        code="path_not_served",
    )


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
