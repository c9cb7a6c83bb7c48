"""The process: listeners, background work, reload and a graceful end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.backends.control import Control
from gateway.config import Config
from gateway.control.pin_files import PinProblem, read_pins
from gateway.control.probe import Prober, control_of
from gateway.control.residency import LONGEST, Keeper
from gateway.control.slots import SlotPoller
from gateway.control.supervise import Supervisor
from gateway.control.warmup import Warmer
from gateway.errors import ConfigError
from gateway.events import ConfigReloaded
from gateway.hours import Cron
from gateway.server import unread
from gateway.server.admin import admin_app
from gateway.server.entry import entry
from gateway.server.gateway import Gateway, addresses_of
from gateway.server.http import HttpServer, listen
from gateway.server.warm import Reader

log = logging.getLogger("warmgate")

FIRST_LOOK = 2.0  # seconds that start-up waits for the backends to be seen
LAST_GRACE = 2.0  # seconds for cancelled handlers to end
LOOK_AGAIN = 0.05

Address = tuple[str, int]

Load = Callable[[], Awaitable[Config]]
"""Reads the configuration anew; raises ConfigError."""


@dataclass(slots=True)
class Site:
    """An open listener. bound: the first of its addresses; a name may have several."""

    server: web.Server
    accepting: tuple[asyncio.Server, ...]
    bound: Address

    async def serve(self) -> None:
        for one in self.accepting:
            await one.start_serving()

    def close(self) -> None:
        """Accept no more connections."""
        for one in self.accepting:
            one.close()


class App:
    """Owns listeners and background tasks."""

    def __init__(self, gateway: Gateway, load: Load):
        self.gateway = gateway
        self.supervisor = Supervisor()
        self.prober = Prober(gateway.fleet, gateway.clock, self.supervisor)
        self.slots = SlotPoller(gateway.seats, gateway.bus, gateway.clock, self.supervisor)
        self.keeper = Keeper(gateway.residency, gateway.fleet, gateway.bus, gateway.clock, self._control)
        pins = gateway.memory.pins
        self.warmer = Warmer(pins, Reader(gateway), gateway.fleet, gateway.residency, gateway.bus, gateway.clock)
        self.sites: dict[Address, Site] = {}
        self._admin: web.AppRunner | None = None
        self._load = load
        self._reloading = asyncio.Lock()
        self._reload_asked = asyncio.Event()
        self.admin_bound: Address | None = None

    async def start(self) -> None:
        """Raises ConfigError when an address cannot be taken."""
        config = self.gateway.now.config
        await self._take_pins(config)
        for door in config.listeners:
            self.sites[door.host, door.port] = await self._open(door.host, door.port)
        await self._open_admin(config.admin.address)
        await self.prober.apply(config.backends, self.gateway.now.addresses)
        await self.slots.apply(config.backends, self.gateway.now.addresses)
        await self.prober.first_look(FIRST_LOOK)
        await self.slots.first_look(FIRST_LOOK / 4)
        for site in self.sites.values():  # until now connections have waited in the kernel
            await site.serve()
        self.supervisor.start("reload", self._reload_when_asked)
        self.supervisor.start("unread", lambda: unread.watch(self._connections))
        self.supervisor.start("residency", self.keeper.run)
        self.supervisor.start("warmup", self.warmer.run)

    async def reload(self, load: Load | None = None) -> str | None:
        """Read the configuration again and take it over, all or nothing. Returns what is wrong with it, or None.

        load: in the place of what the configuration is read by otherwise.
        """
        async with self._reloading:
            try:
                config = await (load or self._load)()
                await self._switch(config)
            except ConfigError as error:
                log.error("the configuration was not reloaded:\n%s", error)
                self.gateway.bus.publish(ConfigReloaded(False, str(error)))
                return str(error)
            log.info("configuration reloaded")
            self.gateway.bus.publish(ConfigReloaded(True))
            return None

    def ask_reload(self) -> None:
        """Reload in the background: for a signal. One that comes during a reload is followed by another."""
        self._reload_asked.set()

    async def _reload_when_asked(self) -> None:
        while True:
            await self._reload_asked.wait()
            self._reload_asked.clear()
            await self.reload()

    async def stop(self) -> None:
        """Stop accepting, let running requests finish within limits.drain, then end what is left."""
        gateway, limit = self.gateway, self.gateway.now.config.limits.drain
        gateway.draining = True
        for site in self.sites.values():
            site.close()
            site.server.pre_shutdown()  # idle connections close now, busy ones after their reply
        end = asyncio.get_running_loop().time() + limit
        if gateway.running:
            log.info("waiting up to %g s for %d running request(s)", limit, gateway.running)
        while gateway.running and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(LOOK_AGAIN)
        for site in self.sites.values():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_GRACE):
                    await site.server.shutdown(LAST_GRACE / 4)
        await self.supervisor.aclose()
        await gateway.aclose()
        if self._admin:
            await self._admin.cleanup()

    async def _switch(self, config: Config) -> None:
        addresses = await asyncio.to_thread(addresses_of, config)
        if config.admin.address != self.gateway.now.config.admin.address:
            raise ConfigError("admin.listen cannot change while the gateway runs; restart it.")
        if config.state_dir != self.gateway.memory.directory:
            raise ConfigError("state_dir cannot change while the gateway runs; restart it.")
        wanted = {(door.host, door.port) for door in config.listeners}
        opened: dict[Address, Site] = {}
        try:
            for address in wanted - self.sites.keys():
                opened[address] = await self._open(*address)
        except ConfigError:
            for site in opened.values():
                site.close()
            raise
        self.gateway.take(config, addresses)
        for site in opened.values():
            await site.serve()
        for address in self.sites.keys() - wanted:
            site = self.sites.pop(address)
            site.close()
            site.server.pre_shutdown()
        self.sites.update(opened)
        await self.prober.apply(config.backends, addresses)
        await self.slots.apply(config.backends, addresses)
        await self._take_pins(config)

    async def _take_pins(self, config: Config) -> None:
        """The pins of the configuration. One whose file cannot be used is left out, and said so."""
        found = await asyncio.to_thread(lambda: list(read_pins(config.warmup.pins)))
        for problem in found:
            if isinstance(problem, PinProblem):
                log.warning("%s", problem)
        self.gateway.memory.pins.give([pin for pin in found if not isinstance(pin, PinProblem)])
        crons = [(pin.name, Cron(pin.cron, pin.zone)) for pin in config.warmup.pins if pin.cron]
        self.warmer.configure(crons)

    def _control(self, backend: str) -> Control:
        """A control path with the patience that loading a model takes. Raises KeyError."""
        return control_of(self.gateway.now.config.backends[backend], self.gateway.now.addresses[backend], LONGEST)

    def _connections(self) -> list[RequestHandler]:
        return [connection for site in self.sites.values() for connection in site.server.connections]

    async def _open(self, host: str, port: int) -> Site:
        gateway = self.gateway
        server = HttpServer(entry(gateway, (host, port)), gateway.now.config.limits.client_stall, gateway.unparsed)
        accepting, bound = await _accept(host, port, server)
        log.info("listening on http://%s", _show(bound))
        return Site(server, accepting, bound)

    async def _open_admin(self, address: Address) -> None:
        app = admin_app(self.gateway, self.reload, self.keeper, self.warmer)
        quiet = logging.getLogger("warmgate.admin.http")
        quiet.disabled = True  # it would log a traceback for every request that cannot be parsed; handlers log their own
        self._admin = web.AppRunner(app, access_log=None, logger=quiet, handle_signals=False, keepalive_timeout=75)
        await self._admin.setup()
        socks = _bind(*address)
        for sock in socks:
            await web.SockSite(self._admin, sock).start()
        self.admin_bound = socks[0].getsockname()[:2]
        log.info("metrics and status on http://%s", _show(self.admin_bound))


async def _accept(host: str, port: int, server: web.Server) -> tuple[tuple[asyncio.Server, ...], Address]:
    socks, loop = _bind(host, port), asyncio.get_running_loop()
    accepting = [await loop.create_server(server, sock=sock, backlog=1024, start_serving=False) for sock in socks]
    return tuple(accepting), socks[0].getsockname()[:2]


def _bind(host: str, port: int) -> list[socket.socket]:
    try:
        return listen(host, port)
    except OSError as error:
        raise ConfigError(f"{_show((host, port))} cannot be listened on: {error.strerror or error}") from error


def _show(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host or '0.0.0.0'}:{port}"
