"""`warmgate reload`: have the running gateway read its configuration again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import orjson

from gateway import config as configuration
from gateway.cli import _admin
from gateway.config import Config
from gateway.errors import WarmgateError


@click.command("reload")
@click.option("--config", "path", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file of the gateway.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(path: Path | None, as_json: bool) -> None:
    """Have the running gateway read its configuration again; all or nothing."""
    ok, words = reload(path)
    if as_json:
        click.echo(orjson.dumps({"ok": ok, "message": words}))
    else:
        click.echo(words, err=not ok)
    sys.exit(0 if ok else 1)


def reload(path: Path | None) -> tuple[bool, str]:
    """Ask the gateway whose admin address the configuration names. Returns whether it took the file over, and words.

    A gateway that runs without a file is found where the defaults say, and looks for servers again.
    """
    try:
        if configuration.find(path, os.environ) is None:
            return _reload_at_defaults(_admin.load_or_defaults(None))
        _admin.ask(_admin.load_named(path), "/-/reload")
    except WarmgateError as error:
        return False, str(error)
    return True, "The configuration was reloaded."


def _reload_at_defaults(defaults: Config) -> tuple[bool, str]:
    try:
        _admin.ask(defaults, "/-/reload")
    except _admin.NoGateway as error:
        return False, f"No configuration was found; name it with --config. {error}"
    return True, (
        f"No configuration was found here, so the gateway at {_admin.base_url(defaults)} was asked: "
        "it read its own file again, or looked for servers again if it runs without one."
    )
