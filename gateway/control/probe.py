"""Looking at each backend now and then. A probe never runs, loads or wakes a model, and users' requests never wait for one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace

from gateway.backends import KINDS
from gateway.backends.auto import contradiction
from gateway.backends.base import Kind
from gateway.backends.control import Control
from gateway.clock import Clock
from gateway.config import Backend
from gateway.control.supervise import Supervisor
from gateway.dispatch.upstream import Address
from gateway.errors import Unreachable
from gateway.state.fleet import Fleet
from gateway.values import Probe

log = logging.getLogger("warmgate.probe")

EVERY_UP = 10.0  # seconds between two looks at a backend that is well
EVERY_DOWN = 2.0
PATIENCE = 2.0  # seconds for each question
LONGEST = 15.0  # seconds for all questions of one look


class Prober:
    """One task for each backend. Written by `apply` only."""

    def __init__(self, fleet: Fleet, clock: Clock, supervisor: Supervisor):
        self._fleet, self._clock, self._supervisor = fleet, clock, supervisor
        self._watched: dict[str, Backend] = {}

    async def apply(self, backends: Mapping[str, Backend], addresses: Mapping[str, Address]) -> None:
        """Watch these backends and no others."""
        for name, config in list(self._watched.items()):
            if backends.get(name) != config:
                await self._supervisor.stop(f"probe {name}")
                del self._watched[name]
        for name, config in backends.items():
            if name not in self._watched:
                self._watched[name] = config
                watch = Watch(name, config, addresses[name], self._fleet, self._clock)
                self._supervisor.start(f"probe {name}", watch.run)

    async def first_look(self, seconds: float) -> None:
        """Wait until each backend has been seen once, or so long."""
        end = self._clock.now() + seconds
        while any(state.probe is None for state in self._fleet.states.values()) and self._clock.now() < end:
            await asyncio.sleep(0.02)


class Watch:
    """Looks at one backend again and again."""

    def __init__(self, name: str, config: Backend, address: Address, fleet: Fleet, clock: Clock):
        self._name, self._config, self._address = name, config, address
        self._fleet, self._clock = fleet, clock
        self._said: str | None = None

    async def run(self) -> None:
        control = control_of(self._config, self._address)
        try:
            while True:
                began = self._clock.now()
                probe = await self.look(control)
                state = self._fleet.states.get(self._name)
                busy = state is not None and state.in_flight > 0 and state.good is not None
                if probe.up or probe.loading or not busy:  # some servers answer nothing else while they read a prompt
                    self._fleet.saw(self._name, self._config, probe, self._clock.now() - began)
                    self._tell(probe)
                self._fleet.refresh()
                await self._pause(EVERY_UP if probe.up else EVERY_DOWN)
        finally:
            await control.close()

    async def _pause(self, seconds: float) -> None:
        """Until the next look is due, or wanted."""
        state = self._fleet.states.get(self._name)
        if state is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await state.look.wait()
        state.look.clear()

    async def look(self, control: Control) -> Probe:
        """One look. An `auto` backend is looked at as what it was last time, until that fails."""
        state = self._fleet.states.get(self._name)
        known = state is not None and state.probe is not None and state.probe.up
        return await look(self._config, control, state.kind if state and known else KINDS[self._config.kind])

    def _tell(self, probe: Probe) -> None:
        """One log line when what is seen changes."""
        words = probe.problem or f"up: {probe.kind} {probe.version or ''} with {len(probe.models)} model(s)".replace("  ", " ")
        if words != self._said:
            self._said = words
            log.log(logging.INFO if probe.up and not probe.problem else logging.WARNING, "backend %s: %s", self._name, words)


def control_of(config: Backend, address: Address, timeout: float = PATIENCE) -> Control:
    return Control(config.base_url.removesuffix("/v1"), config.headers, address.tls, timeout=timeout)


async def look(config: Backend, control: Control, kind: Kind) -> Probe:
    """One look at a backend, as this kind. Never raises for what the backend does.

    A server that does not give the sign of the kind that the configuration names is up, with a problem; an `auto` backend that
    does not give that of `kind` is looked at anew, because another server may have taken the port.
    """
    try:
        async with asyncio.timeout(LONGEST):
            probe = await kind.probe(control)
            doubt = await contradiction(kind.name, control) if probe.up else None
            if config.kind != "auto":
                return replace(probe, problem=doubt) if doubt else probe
            anew = kind.name != "auto" and (doubt or not (probe.up or probe.loading))
            return await KINDS["auto"].probe(control) if anew else probe
    except Unreachable as error:
        return Probe(kind.name, up=False, problem=str(error))
    except TimeoutError:
        return Probe(kind.name, up=False, problem=f"{config.base_url}: no answer in time")
