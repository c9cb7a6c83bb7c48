"""`warmgate run`: the gateway in the foreground, until SIGTERM or SIGINT; SIGHUP reads the configuration again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from gateway import __version__, logs
from gateway import config as configuration
from gateway.config import Config
from gateway.errors import ConfigError
from gateway.events import ConfigReloaded
from gateway.server.app import App
from gateway.server.gateway import Gateway

log = logging.getLogger("warmgate")


@click.command("run")
@click.option("--config", "path", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
def command(path: Path | None) -> None:
    """Run the gateway."""
    found = configuration.find(path, os.environ)
    if found is None:
        click.echo("No configuration was found. The smallest useful one is:\n\n" + SMALLEST, err=True)
        sys.exit(1)

    def load() -> Config:
        return configuration.load(found, os.environ)

    try:
        config = load()
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    writer = logs.Logs(config.log.format, config.log.level)
    try:
        code = run(config, load, found, writer)
    finally:
        writer.stop()
    sys.exit(code)


SMALLEST = """    # warmgate.yaml
    backends:
      local: { url: http://127.0.0.1:11434 }
"""


def run(config: Config, load: Callable[[], Config], path: Path, writer: logs.Logs) -> int:
    """Serve until told to stop. Returns the exit code."""
    return _runner()(serve(config, load, path, writer))


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    runner: Callable[[Coroutine[Any, Any, int]], int] = uvloop.run
    return runner


async def serve(config: Config, load: Callable[[], Config], path: Path, writer: logs.Logs) -> int:
    log.info("warmgate %s, configuration %s", __version__, path)
    gateway = Gateway(config)
    gateway.bus.subscribe(logs.RequestLog().on_event)

    def on_event(event: object) -> None:
        if isinstance(event, ConfigReloaded):
            writer.set_level(gateway.now.config.log.level)

    gateway.bus.subscribe(on_event)
    app = App(gateway, load)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: app.supervisor.start("reload", app.reload_once))
    try:
        await app.start()
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
