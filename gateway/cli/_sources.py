"""Where `warmgate run` has its configuration from: a file, or what is found on this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import click

from gateway import config as configuration
from gateway.cli import _found, _paste
from gateway.config import Address, Config
from gateway.control.discover import Discovery, Sight, watch
from gateway.server.app import App


@dataclass(frozen=True, slots=True)
class Overrides:
    """Addresses from the command line; none: the configuration's own."""

    listen: Sequence[Address] = ()
    admin: Address | None = None

    def apply(self, config: Config) -> Config:
        """Raises ConfigError."""
        return configuration.at_addresses(config, self.listen, self.admin)


class Source(Protocol):
    @property
    def name(self) -> str:
        """For the log."""

    async def load(self) -> Config:
        """Raises ConfigError."""

    async def started(self, app: App) -> None:
        """Told once the gateway listens."""


@dataclass(frozen=True, slots=True)
class FileSource:
    path: Path
    overrides: Overrides

    @property
    def name(self) -> str:
        return f"configuration {self.path}"

    async def load(self) -> Config:
        return self.overrides.apply(await asyncio.to_thread(configuration.load, self.path, os.environ))

    async def started(self, app: App) -> None:
        """A file is read again only when somebody asks for it."""


@dataclass(slots=True)
class PortSource:
    """The servers on the well-known ports, and more of them as they appear. Tells on standard output what was found."""

    overrides: Overrides
    discovery: Discovery
    name: str = "no configuration file"
    _told: bool = field(default=False, init=False)
    _app: App | None = field(default=None, init=False)

    async def load(self) -> Config:
        """Look everywhere: at start-up, and when somebody asks for a reload."""
        base = self.overrides.apply(configuration.loads("", "defaults", os.environ))
        self.discovery.own |= {address.port for address in (*(entry.address for entry in base.listen), base.admin.listen)}
        new = await self.discovery.look_again()
        if self._app:
            await self._tell(new)
        return await self._config()

    async def started(self, app: App) -> None:
        self._app = app
        self.discovery.own |= {site.bound[1] for site in app.sites.values()}
        if app.admin_bound:
            self.discovery.own.add(app.admin_bound[1])
        app.supervisor.start("discovery", self._look_on)

    async def _look_on(self) -> None:
        if not self._told:
            await self._tell(self.discovery.servers)
        await watch(self.discovery, self._joined)

    async def _config(self) -> Config:
        return self.overrides.apply(configuration.loads(self.discovery.text(), "what was found", os.environ))

    async def _joined(self, new: Mapping[str, Sight]) -> None:
        if self._app and await self._app.reload(self._config) is None:
            await self._tell(new)

    async def _tell(self, new: Mapping[str, Sight]) -> None:
        """What is new, and with the first servers how clients are pointed at them. In a thread: a pipe may be full."""
        lines = _found.lines(new, self.discovery, first=not self._told)
        if self._app and new and not self._told:
            self._told = True
            addresses = [Address(host, site.bound[1]) for (host, _), site in self._app.sites.items()]
            lines += ["", *_paste.guide(_paste.Places.of(addresses), _found.offers(self.discovery.servers))]
        if lines:
            with suppress(OSError):  # nobody reads it
                await asyncio.to_thread(click.echo, "\n".join(lines))
