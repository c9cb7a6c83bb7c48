"""Label values that no client can multiply: the first ones are known by name, all later ones are `other`."""

from __future__ import annotations

from gateway.logs import printable

OTHER = "other"
LONGEST = 128  # characters of a label value


class Names:
    """Values of one label: the reserved ones and the first `limit` others that come, made printable, then `other`."""

    def __init__(self, limit: int, *reserved: str) -> None:
        self._known = {name: name for name in reserved}
        self._limit = limit + len(reserved)

    def __call__(self, value: str) -> str:
        name = self._known.get(value)
        if name is None:
            if len(self._known) >= self._limit:
                return OTHER
            name = self._known[value] = printable(value, LONGEST)
        return name


class Pairs:
    """(backend, model) labels: the first `limit` pairs that come; then the model, and an unknown backend too, is `other`."""

    def __init__(self, limit: int, backends: Names) -> None:
        self._limit = limit
        self._backends = backends
        self._known: dict[tuple[str, str], tuple[str, str]] = {}

    def __call__(self, backend: str, model: str) -> tuple[str, str]:
        pair = self._known.get((backend, model))
        if pair is None:
            if len(self._known) >= self._limit:
                return self._backends(backend), OTHER
            pair = self._known[backend, model] = self._backends(backend), printable(model, LONGEST)
        return pair
