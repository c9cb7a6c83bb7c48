"""`warmgate config`: the effective configuration, every default filled in, secrets masked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from gateway import config as configuration
from gateway.cli.check import problems
from gateway.errors import ConfigError


@click.command("config")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: Path | None, as_json: bool) -> None:
    """Print the effective configuration: FILE's, or that of the one that `run` would take."""
    found = configuration.find(file, os.environ)
    name = str(found) if found else "defaults"
    try:
        config = configuration.load(found, os.environ) if found else configuration.loads("", name, os.environ)
    except ConfigError as error:
        click.echo(json.dumps(problems(name, error), indent=2) if as_json else error, err=not as_json)
        sys.exit(1)
    shown = configuration.effective(config)
    click.echo(json.dumps(shown, indent=2) if as_json else configuration.to_yaml(shown), nl=as_json)
