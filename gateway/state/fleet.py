"""The backends as they are now.

One writer: this class, on the event loop. The prober reports what it sees, dispatch reports connections that failed; both
get an immutable FleetView back, which is rebuilt on a change and never for a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gateway.backends import KINDS
from gateway.backends.base import Kind
from gateway.clock import Clock
from gateway.config import Backend
from gateway.events import BackendGone, BackendProbed, Bus, CircuitChanged
from gateway.routing.fleet import BackendView, FleetView
from gateway.state.breaker import Breaker
from gateway.values import Probe


@dataclass(slots=True)
class BackendState:
    """One backend. probe: last look at it; good: last look that found it up; in_flight: requests it is working on;
    look: set when it is to be looked at before its time."""

    name: str
    config: Backend
    probe: Probe | None = None
    probed: float | None = None  # wall clock
    good: Probe | None = None
    in_flight: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    look: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def kind(self) -> Kind:
        """The configured kind; for `auto` what the last good look found it to be."""
        seen = self.good or self.probe
        return KINDS.get(seen.kind if seen and self.config.kind == "auto" else self.config.kind, KINDS["auto"])


class Fleet:
    def __init__(self, bus: Bus, clock: Clock):
        self.states: dict[str, BackendState] = {}
        self.view = FleetView()
        self._bus, self._clock = bus, clock

    def apply(self, backends: Mapping[str, Backend]) -> None:
        """Take over a configuration; what is known about a backend survives if its entry is unchanged."""
        old = self.states
        self.states = {
            name: old[name] if name in old and old[name].config == config else BackendState(name, config)
            for name, config in backends.items()
        }
        self._rebuild()
        for name in old.keys() - self.states.keys():
            self._bus.publish(BackendGone(name))

    def saw(self, name: str, config: Backend, probe: Probe, seconds: float) -> None:
        """Take a probe's result. config tells a result for an entry that a reload has replaced meanwhile."""
        state = self.states.get(name)
        if state is None or state.config != config:
            return
        if not probe.up and not probe.loading and probe.kind == "auto" and state.good:
            probe = replace(probe, kind=state.good.kind)  # a server that is down is still of its kind
        state.probe, state.probed = probe, self._clock.wall()
        if probe.up:
            state.good = probe
            self.succeeded(name)
        self._rebuild()
        self._bus.publish(BackendProbed(name, probe, seconds))

    def want_look(self, name: str) -> None:
        """Have the prober look at it now."""
        if (state := self.states.get(name)) is not None:
            state.look.set()

    def failed(self, name: str) -> None:
        """A connection to it failed."""
        self._turn(name, lambda breaker: breaker.failed(self._clock.now()))

    def succeeded(self, name: str) -> None:
        """It answered."""
        state = self.states.get(name)
        if state and state.breaker.failures:
            self._turn(name, lambda breaker: breaker.succeeded())

    def refresh(self) -> None:
        """Let circuits close whose pause is over; called by the prober."""
        now = self._clock.now()
        over = [b.name for b in self.view.backends if b.circuit_open and not self.states[b.name].breaker.is_open(now)]
        if over:
            self._rebuild()
        for name in over:
            self._bus.publish(CircuitChanged(name, open=False))

    def load(self, name: str) -> int:
        state = self.states.get(name)
        return state.in_flight if state else 0

    def _turn(self, name: str, change: Callable[[Breaker], None]) -> None:
        state = self.states.get(name)
        if state is None:
            return
        was = state.breaker.is_open(self._clock.now())
        change(state.breaker)
        now_open = state.breaker.is_open(self._clock.now())
        if was != now_open:
            self._rebuild()
            self._bus.publish(CircuitChanged(name, open=now_open))

    def _rebuild(self) -> None:
        now = self._clock.now()
        self.view = FleetView(tuple(_view(state, now) for state in self.states.values()))


def _view(state: BackendState, now: float) -> BackendView:
    """The model list of a backend that is down is the one it had: its models are unreachable, not unknown."""
    kind, known = state.kind, state.good
    return BackendView(
        name=state.name,
        kind=kind.name,
        serves=kind.serves,
        up=bool(state.probe and state.probe.up),
        known=known is not None,
        circuit_open=state.breaker.is_open(now),
        single_model=bool(known and known.single_model),
        latest=kind.latest,
        owns=kind.owns,
        models={model.name: model for model in known.models} if known else {},
    )
