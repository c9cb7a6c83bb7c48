"""`warmgate forget`: drop everything that was learned of prompts, in memory and on disk."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import orjson

from gateway.cli import _admin
from gateway.config import Config
from gateway.errors import WarmgateError
from gateway.state.store import FILE, Store

QUESTION = "Drop all that was learned of prompts? Running conversations are then read anew once."


@click.command("forget")
@click.option("--config", "path", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file of the gateway.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; needs --yes.")
def command(path: Path | None, yes: bool, as_json: bool) -> None:
    """Drop everything that was learned of prompts: by the running gateway, else in the file that it left."""
    if as_json and not yes:
        raise click.UsageError("--json asks no questions, so it needs --yes.")
    if not yes:
        click.confirm(QUESTION, abort=True)
    try:
        rows, where = forget(_admin.load_or_defaults(path))
    except WarmgateError as error:
        click.echo(orjson.dumps({"ok": False, "message": str(error)}) if as_json else str(error), err=not as_json)
        sys.exit(1)
    words = f"{rows} row{'' if rows == 1 else 's'} dropped {where}."
    click.echo(orjson.dumps({"ok": True, "rows": rows, "message": words}) if as_json else words)


def forget(config: Config) -> tuple[int, str]:
    """How many rows were dropped, and where. Raises WarmgateError if they were not, or not for good."""
    try:
        return int(_admin.ask(config, "/-/forget")["rows"]), "by the running gateway"
    except _admin.NoGateway:
        if config.state_dir is None:
            return 0, "(no gateway runs, and `state_dir` is empty, so nothing was kept)"
        return erase(config.state_dir), f"from {config.state_dir / FILE}"


def erase(directory: Path) -> int:
    """Empty the file in a directory that no gateway uses. Returns how many rows it held; 0 if there is none."""
    if not any(directory.glob(f"{Path(FILE).stem}.*")):
        return 0
    store = Store(directory, float("inf"))
    try:
        rows = sum(1 for _ in store.rows())
        store.forget()
        done = store.flush(_admin.PATIENCE)
    finally:
        store.close()
    if not done or store.problem:
        raise WarmgateError(store.problem or f"{directory / FILE} was not emptied in time; try again.")
    return rows
