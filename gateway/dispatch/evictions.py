"""Models of one backend that push each other out of its memory, so that a request for one waits until the others' answers end.

Some servers unload a model in the middle of its answer (`Kind.evicts`), unless it was loaded by hand; others wait, but have no
room for two. What two models do to each other is known once a load was seen to cost the other its place, or both were seen
together. Looks at a backend are seconds apart, so what a request loads is noted when it is sent.

One writer of `Engine.exclusive`; writes `Engine.resident` between two looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product

from gateway.backends.base import Kind
from gateway.clock import Clock
from gateway.events import BackendGone, BackendProbed
from gateway.routing.board import Board, Engine
from gateway.values import Probe

Pair = frozenset[str]

PAIRS = 512
"""Of which something is known, for each backend."""


class Evictions:
    """kind: of a backend, by its name. Written on the event loop, before the seats hear of a look and after."""

    def __init__(self, board: Board, kind: Callable[[str], Kind | None], clock: Clock):
        self._board, self._kind, self._clock = board, kind, clock
        self._resident: dict[str, dict[str, float | None]] = {}  # backend -> models of its last look, and when they expire
        self._apart: dict[str, dict[Pair, bool]] = {}  # backend -> whether two models were last seen to push each other out
        self._loading: dict[str, tuple[str, float]] = {}  # backend -> the model that was last sent for though absent, and when

    def mark(self, engine: Engine) -> None:
        """Set whether loading this engine's model would push out one that is at work."""
        engine.exclusive = any(
            one.running and one is not engine and self._pushes_out(engine.backend, one.model, engine.model)
            for one in self._of(engine.backend)
        )

    def taken(self, engine: Engine) -> None:
        """A request goes there. If its model is absent, it is loaded now, and what cannot stay beside it goes."""
        if engine.resident is False:
            self._loading[engine.backend] = engine.model, self._clock.now()
            self._loads(engine.backend, engine.model)

    def on_event(self, event: object) -> None:
        """Subscriber of the bus, behind the seats."""
        if isinstance(event, BackendProbed) and event.probe.up:
            self._learn(event.name, event.probe)
            model, since = self._loading.get(event.name, ("", 0.0))
            if model and since > self._clock.now() - event.seconds:
                self._loads(event.name, model)  # it was sent for while the server was looked at
            else:
                self._loading.pop(event.name, None)
        elif isinstance(event, BackendGone):
            for known in (self._resident, self._apart, self._loading):
                known.pop(event.name, None)

    def _learn(self, backend: str, probe: Probe) -> None:
        now = {model.name: model.expires for model in probe.models if model.resident}
        before, self._resident[backend] = self._resident.get(backend, {}), now
        came = now.keys() - before.keys()
        gone = [name for name, expires in before.items() if name not in now and not self._is_over(expires)]
        apart = self._apart.setdefault(backend, {})
        apart.update((frozenset(pair), True) for pair in product(came, gone))
        apart.update((frozenset(pair), False) for pair in combinations(now, 2))
        while len(apart) > PAIRS:
            del apart[next(iter(apart))]

    def _is_over(self, expires: float | None) -> bool:
        return expires is not None and expires <= self._clock.wall()

    def _loads(self, backend: str, model: str) -> None:
        for engine in self._of(backend):
            if engine.model == model:
                engine.resident = True
            elif engine.resident and self._pushes_out(backend, engine.model, model):
                engine.resident = False

    def _pushes_out(self, backend: str, one: str, other: str) -> bool:
        kind = self._kind(backend)
        return self._apart.get(backend, {}).get(frozenset((one, other)), kind is not None and kind.evicts)

    def _of(self, backend: str) -> Iterable[Engine]:
        return [engine for engine in self._board.engines.values() if engine.backend == backend]
