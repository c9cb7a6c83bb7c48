"""The engines of the board: made on first use, kept as the servers tell, forgotten when there are too many.

One writer, together with `gateway.state.board`, whose part this is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.clock import Clock
from gateway.routing.board import Board, Engine, Prefill
from gateway.state.learned import Learned
from gateway.state.slot_server import Server
from gateway.values import Probe

ENGINES = 64
"""Engines that are remembered; idle ones that were not used for longest are forgotten."""

Rates = Callable[[str, str], Prefill]
"""How long a backend takes to read a prompt for a model, by its label, as it was learned."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A prefill rate that the configuration fixes, in tokens a second."""

    rate: float

    def seconds(self, cached: int, prompt: int) -> float | None:
        return max(0, prompt - cached) / self.rate


class Engines:
    def __init__(self, board: Board, clock: Clock, rates: Rates) -> None:
        self._board, self._clock, self._rates = board, clock, rates
        self._learned: dict[Key, Learned] = {}
        self._saves: dict[Key, bool] = {}  # where slots could be saved if nothing spoke against it
        self.servers: dict[str, Server] = {}

    def server(self, name: str) -> Server:
        return self.servers.setdefault(name, Server(name))

    def get(self, backend: str, model: str) -> Engine:
        """The engine of a model, by the backend's own name of it; made on first use."""
        server = self.server(backend)
        key = server.key(model)
        engine = self._board.engines.get(key)
        if engine is None:
            self._make_room()
            engine = self._board.engines[key] = Engine(*key, self.rate(server, model))
            self._update(server, engine)
        return engine

    def learned(self, engine: Engine) -> Learned:
        return self._learned.setdefault((engine.backend, engine.model), Learned())

    def used(self, engine: Engine) -> None:
        """The last one is the one that was used last."""
        key = engine.backend, engine.model
        if key in self._board.engines:
            self._board.engines[key] = self._board.engines.pop(key)

    def rate(self, server: Server, label: str) -> Prefill:
        fixed = server.config.prefill_rate if server.config else None
        return Fixed(fixed) if fixed else self._rates(server.name, label)

    def set_saves(self, engine: Engine, saves: bool) -> None:
        self._saves[engine.backend, engine.model] = saves
        self._update(self.servers[engine.backend], engine)

    def refresh(self, server: Server) -> None:
        """Bring all engines of a server up to date."""
        for engine in self._of(server):
            self._update(server, engine)
        self.exclude(server)

    def exclude(self, server: Server) -> None:
        """Mark what cannot be loaded without pushing out a model that is in use."""
        if server.kind.evicts:
            engines = self._of(server)
            for engine in engines:
                others = any(other.running for other in engines if other is not engine)
                engine.exclusive = others and engine.resident is False

    def gone(self, name: str) -> None:
        """The backend is no longer in the configuration."""
        if server := self.servers.pop(name, None):
            for engine in self._of(server):
                self._forget((engine.backend, engine.model))

    def forget_named(self, server: Server) -> None:
        """It ignores names: engines that were made before that was known are not used any more."""
        for engine in self._of(server):
            if engine.model and not engine.running and not engine.waiting:
                self._forget((engine.backend, engine.model))

    def _of(self, server: Server) -> list[Engine]:
        return [engine for key, engine in self._board.engines.items() if key[0] == server.name]

    def _update(self, server: Server, engine: Engine) -> None:
        """Write what is known of the server to one of its engines."""
        now, kind, config = self._clock.now(), server.kind, server.config
        engine.up, engine.circuit_open, engine.capacity = server.up, server.circuit_open, server.capacity
        engine.slots, engine.mode, engine.pins = server.shadow.slots, server.mode, not server.why_no_pins(now)
        engine.cache = server.trust.cache if server.total else None
        engine.context = server.context if server.shared else None
        engine.shares, engine.settle = kind.shares, kind.settle
        allowed = not (config and config.snapshots == "never") and not server.foreign(now)
        engine.saves = allowed and self._saves.get((engine.backend, engine.model), False)
        if server.probe is not None:
            engine.resident = _resident(server.probe, engine.model)

    def _make_room(self) -> None:
        """Forget the engine that was not used for longest and has nothing to do, if there are too many."""
        engines = self._board.engines
        if len(engines) >= ENGINES:
            idle = next((key for key, engine in engines.items() if not engine.running and not engine.waiting), None)
            if idle is not None:
                self._forget(idle)

    def _forget(self, key: Key) -> None:
        for known in (self._board.engines, self._learned, self._saves):
            known.pop(key, None)


def _resident(probe: Probe, model: str) -> bool | None:
    """Whether the model is loaded; None where the server does not tell."""
    plain = model.removesuffix(":latest")
    return next((one.resident for one in probe.models if not model or one.name.removesuffix(":latest") == plain), None)
