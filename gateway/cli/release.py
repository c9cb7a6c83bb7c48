"""`warmgate release MODEL`: unload a model now, and keep nothing of it warm, so that its memory is free for something else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import click

from gateway import units
from gateway.cli import _admin, _show
from gateway.errors import WarmgateError


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            units.parse_duration(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


@click.command("release")
@click.argument("model")
@click.option("--for", "span", metavar="TIME", callback=_duration, help="For so long, such as 2h; else until it is used again.")
@_show.config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(model: str, span: str | None, path: Path | None, as_json: bool) -> None:
    """Unload MODEL now, and keep nothing of it warm until it is used again, or for the time of --for."""
    query = f"?for={quote(span)}" if span else ""
    try:
        done = _admin.ask(_admin.load_or_defaults(path), f"/release/{quote(model, safe='')}{query}")
    except WarmgateError as error:
        _show.fail(error, as_json)
    if as_json:
        click.echo(_show.dump(done))
        return
    until = f"for {span}" if span else "until it is used again"
    unloaded = ", ".join(done["unloaded"]) or "nothing was loaded"
    click.echo(f"{done['model']} is not kept {until}; unloaded: {unloaded}.")
