"""`warmgate run`: the gateway in the foreground, until SIGTERM or SIGINT; SIGHUP reads the configuration, or looks, again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import click

from gateway import __version__, logs
from gateway import config as configuration
from gateway.cli import _found
from gateway.cli._settle import settle_in
from gateway.cli._sources import FileSource, Overrides, PortSource, Source
from gateway.config import Address, Config
from gateway.control.discover import Discovery
from gateway.errors import ConfigError
from gateway.events import ConfigReloaded
from gateway.server.app import App
from gateway.server.gateway import Gateway

log = logging.getLogger("warmgate")


def address(text: str) -> Address:
    """An option's value. Raises click.BadParameter."""
    try:
        return configuration.parse_address(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command("run")
@click.option("--config", "path", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option(
    "--listen", type=address, multiple=True, metavar="ADDRESS", help="In place of the configured `listen`; repeatable."
)
@click.option("--admin-listen", type=address, metavar="ADDRESS", help="In place of the configured `admin.listen`.")
def command(path: Path | None, listen: tuple[Address, ...], admin_listen: Address | None) -> None:
    """Run the gateway: with a configuration file, or without one in front of the servers that are found on this machine."""
    try:
        source = find_source(path, Overrides(listen, admin_listen))
        config = asyncio.run(source.load())
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    writer = logs.Logs(config.log.format, config.log.level)
    try:
        code = run(config, source, writer)
    finally:
        writer.stop()
    sys.exit(code)


def find_source(path: Path | None, overrides: Overrides) -> Source:
    """Raises click.UsageError when the ports to look at are no ports."""
    found = configuration.find(path, os.environ)
    if found is not None:
        return FileSource(found, overrides)
    try:
        return PortSource(overrides, Discovery(_found.ports(os.environ)))
    except ValueError as error:
        raise click.UsageError(f"{_found.PORTS_VARIABLE}: {error}") from None


def run(config: Config, source: Source, writer: logs.Logs) -> int:
    """Serve until told to stop. Returns the exit code."""
    return _runner()(serve(config, source, writer))


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    runner: Callable[[Coroutine[Any, Any, int]], int] = uvloop.run
    return runner


async def serve(config: Config, source: Source, writer: logs.Logs) -> int:
    log.info("warmgate %s, %s", __version__, source.name)
    gateway = Gateway(config)
    requests = logs.RequestLog()
    gateway.bus.subscribe(requests.on_event, *requests.hears)
    openness = Openness()

    def on_event(event: object) -> None:
        if isinstance(event, ConfigReloaded):
            writer.set_level(gateway.now.config.log.level)
            openness.tell(gateway.now.config)

    gateway.bus.subscribe(on_event, ConfigReloaded)
    app = App(gateway, source.load)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, app.ask_reload)
    try:
        await app.start()
        openness.tell(config)
        for doubt in doubts(gateway, source):
            log.warning("%s", doubt)
        await source.started(app)
        settle_in()
    except ConfigError as error:
        log.error("%s", error)
        await app.stop()
        return 1
    await stop.wait()
    log.info("stopping")
    ending = asyncio.create_task(app.stop())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.cancel)  # asked twice: do not wait for running requests
    await asyncio.gather(ending, return_exceptions=True)
    return 0


def doubts(gateway: Gateway, source: Source) -> Iterator[str]:
    """What is hardly meant as it is written, now that each backend has been looked at once."""
    config, states = gateway.now.config, gateway.fleet.states.values()
    if not states and isinstance(source, FileSource):
        yield "no backends are configured, so that every request is refused; add one under `backends:`"
    if states:
        wanted = dict.fromkeys(door.identity for door in config.listeners)
        if missing := [kind for kind in wanted if kind not in {"auto", *(state.kind.name for state in states)}]:
            yield f"identity {', '.join(missing)}: no backend that has been seen is of this kind"


class Openness:
    """Warns of addresses at which others than this machine's programs come in without a key; once for the same addresses."""

    def __init__(self) -> None:
        self._told: list[str] = []

    def tell(self, config: Config) -> None:
        found = [] if config.api_keys else [str(e.address) for e in config.listen if not e.address.is_loopback]
        if found and found != self._told:
            log.warning(
                "%s: everyone who can reach this machine can use its models there, for no api_keys are set; set some, or"
                " listen on 127.0.0.1",
                ", ".join(found),
            )
        self._told = found
