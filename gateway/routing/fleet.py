"""What routing sees: an immutable picture of the backends, and the names that the configuration gives to models. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.values import ModelInfo, Target


@dataclass(frozen=True, slots=True)
class BackendView:
    """One backend as last seen. serves: paths of the dialect table; models: by the backend's own name.

    known: it has been seen at least once, so its model list means something; latest: `x` and `x:latest` are one model;
    owns: beginnings of paths that belong to its own API.
    """

    name: str
    kind: str
    serves: frozenset[str]
    up: bool = False
    known: bool = False
    circuit_open: bool = False
    single_model: bool = False
    latest: bool = False
    owns: tuple[str, ...] = ()
    models: Mapping[str, ModelInfo] = field(default_factory=dict)

    def own_name(self, model: str) -> str | None:
        """The backend's own spelling of a model name, or None if it does not list it."""
        if model in self.models:
            return model
        if self.latest:
            other = model.removesuffix(":latest") if model.endswith(":latest") else f"{model}:latest"
            return other if other in self.models else None
        return None


@dataclass(frozen=True, slots=True)
class FleetView:
    """All backends in the order of the configuration, which is the tie-break."""

    backends: tuple[BackendView, ...] = ()

    def get(self, name: str) -> BackendView | None:
        return next((backend for backend in self.backends if backend.name == name), None)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model of the configuration. targets: empty means every backend that lists `name` itself; side: where its side requests
    go, None: where the others do."""

    name: str
    aliases: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    side: Target | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    """The configured models. A name wins over an exact alias, an exact alias over a glob, an earlier glob over a later one."""

    models: tuple[NamedModel, ...] = ()

    def find(self, asked: str) -> NamedModel | None:
        globs: NamedModel | None = None
        exact: NamedModel | None = None
        for model in self.models:
            if model.name == asked:
                return model
            for alias in model.aliases:
                if alias == asked:
                    exact = exact or model
                elif globs is None and is_glob(alias) and fnmatch.fnmatchcase(asked, alias):
                    globs = model
        return exact or globs

    def names(self) -> list[str]:
        """Names that clients can be told: names and exact aliases, no globs."""
        return [name for model in self.models for name in (model.name, *(a for a in model.aliases if not is_glob(a)))]


def is_glob(text: str) -> bool:
    return any(char in text for char in "*?[")
