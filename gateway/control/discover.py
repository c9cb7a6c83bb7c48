"""Finding model servers on the well-known ports of this machine, for a gateway without a configuration file.

Only loopback is looked at, and only with the questions of an `auto` backend, which never run, load or wake a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gateway import config as configuration
from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.backends.openai import KIND as PLAIN
from gateway.backends.openai import NEEDS_KEY
from gateway.clock import Clock, SystemClock
from gateway.errors import Unreachable
from gateway.values import Probe

HOST = "127.0.0.1"
PORTS = (11434, 1234, 8080, 9931, 8000, 30000)
"""Ollama; LM Studio; llama-server and mlx-lm; newer llama-servers; vLLM and oMLX; SGLang."""

FIRST = 3.0  # seconds for a look that someone waits for
LATER = 15.0  # seconds for one in the background: a busy server answers slowly
CONNECT = 1.0  # seconds for a connection on this machine
EVERY = 3.0  # seconds between two looks at a port where nothing listens
LONGEST_PAUSE = 300.0  # seconds between two looks at one where something else than a model server answers


@dataclass(frozen=True, slots=True)
class Sight:
    """What answers at a port."""

    port: int
    probe: Probe

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def usable(self) -> bool:
        """A model server, up or reading its model. That a plain server says 503 proves nothing: any web server may."""
        return self.probe.up or (self.probe.loading and self.probe.kind != PLAIN)

    @property
    def locked(self) -> bool:
        """It wants an API key."""
        return self.probe.problem == NEEDS_KEY


async def look(ports: Iterable[int], seconds: float) -> tuple[Sight, ...]:
    """What answers at these ports, in their order. All are asked at once, each for at most so long."""
    seen = await asyncio.gather(*(_look_at(port, seconds) for port in ports))
    return tuple(sight for sight in seen if sight)


async def _look_at(port: int, seconds: float) -> Sight | None:
    if not await _listens(port):
        return None
    control = Control(f"http://{HOST}:{port}", verify=False, timeout=seconds)  # http: there is no certificate to verify
    try:
        async with asyncio.timeout(seconds):
            return Sight(port, await KINDS["auto"].probe(control))
    except (Unreachable, TimeoutError):
        return Sight(port, Probe("auto", up=False, problem="it does not answer in HTTP, or not in time"))
    finally:
        await control.close()


async def _listens(port: int) -> bool:
    try:
        async with asyncio.timeout(CONNECT):
            _, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


@dataclass(slots=True)
class Stranger:
    """A port where something answers that is no usable model server. due: when it is looked at again; pause: seconds."""

    sight: Sight
    due: float
    pause: float


@dataclass(slots=True)
class Discovery:
    """The servers found so far, by name. One writer: `look` and `look_again`.

    ports: where to look, the first found comes first; own: ports that are the gateway's and never looked at.
    """

    ports: tuple[int, ...] = PORTS
    own: set[int] = field(default_factory=set)
    clock: Clock = field(default_factory=SystemClock)
    servers: dict[str, Sight] = field(default_factory=dict)
    strangers: dict[int, Stranger] = field(default_factory=dict)

    async def look(self, seconds: float = LATER) -> dict[str, Sight]:
        """Look where no server is known. Returns those that are new."""
        known, now = {sight.port for sight in self.servers.values()}, self.clock.now()
        waiting = {port for port, stranger in self.strangers.items() if stranger.due > now}
        due = [port for port in self._allowed() if port not in known | waiting]
        return self._take(due, await look(due, seconds))

    async def look_again(self, seconds: float = FIRST) -> dict[str, Sight]:
        """Look everywhere, and forget servers at whose port nothing listens now. Returns those that are new."""
        ports = self._allowed()
        seen = await look(ports, seconds)
        open_ports = {sight.port for sight in seen}
        self.servers = {name: sight for name, sight in self.servers.items() if sight.port in open_ports}
        return self._take(ports, seen)

    def text(self) -> str:
        """A configuration with these servers, in the order of the ports.

        Their kind stays `auto`: another server may take the port later.
        """
        rows = sorted(self.servers.items(), key=lambda row: self.ports.index(row[1].port))
        return configuration.to_yaml({"backends": {name: {"url": sight.url} for name, sight in rows}})

    def _allowed(self) -> list[int]:
        return [port for port in self.ports if port not in self.own]

    def _take(self, asked: Iterable[int], seen: Iterable[Sight]) -> dict[str, Sight]:
        known = {sight.port: name for name, sight in self.servers.items()}
        answered = {sight.port: sight for sight in seen}
        new: dict[str, Sight] = {}
        for port in asked:
            sight, before = answered.get(port), self.strangers.pop(port, None)
            if sight is None or port in known:
                continue
            if sight.usable:
                name = free_name(sight.probe.kind, self.servers)
                self.servers[name] = new[name] = sight
            else:
                pause = min(2 * before.pause, LONGEST_PAUSE) if before else EVERY
                self.strangers[port] = Stranger(sight, self.clock.now() + pause, pause)
        return new


def free_name(kind: str, taken: Mapping[str, object]) -> str:
    """The kind, with a number from 2 on where there is one of it already."""
    number = 1
    while (name := kind if number == 1 else f"{kind}{number}") in taken:
        number += 1
    return name


async def watch(discovery: Discovery, found: Callable[[dict[str, Sight]], Awaitable[None]], every: float = EVERY) -> None:
    """Go on looking, as background work. found: told of servers that are new."""
    while True:
        await asyncio.sleep(every)
        if new := await discovery.look():
            await found(new)
