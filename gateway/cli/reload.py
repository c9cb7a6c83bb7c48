"""`warmgate reload`: have the running gateway read its configuration again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import httpx
import orjson

from gateway import config as configuration
from gateway.errors import ConfigError

PATIENCE = 30.0  # seconds


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
    """Ask the gateway whose admin address the configuration names. Returns whether it took the file over, and words."""
    found = configuration.find(path, os.environ)
    if found is None:
        return False, "No configuration was found; name it with --config."
    try:
        config = configuration.load(found, os.environ)
    except ConfigError as error:
        return False, str(error)
    host, port = config.admin.address
    url = f"http://{f'[{host}]' if ':' in host else host or '127.0.0.1'}:{port}/-/reload"
    headers = {"Authorization": f"Bearer {config.admin.token}"} if config.admin.token else {}
    try:
        reply = httpx.post(url, headers=headers, timeout=PATIENCE, trust_env=False)
    except httpx.HTTPError as error:
        return False, f"No gateway answers at {url}: {error}"
    if reply.is_success:
        return True, "The configuration was reloaded."
    try:
        return False, str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return False, f"The gateway answered {reply.status_code}."
