"""`warmgate check`: is this configuration usable, and what does it say in short?"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gateway import config as configuration
from gateway.cli import _live
from gateway.config import Config, InvalidConfig
from gateway.control.pin_files import PinProblem, read_pin
from gateway.errors import ConfigError


@click.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--live", is_flag=True, help="Also look at each backend; exit code 1 if one is not up, or not what it should be.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(file: Path | None, live: bool, as_json: bool) -> None:
    """Check a configuration: FILE, or the one that `run` would take. Exit code 1 if there is anything wrong with it."""
    found = configuration.find(file, os.environ)
    name = str(found) if found else "defaults"
    try:
        config = configuration.load(found, os.environ) if found else configuration.loads("", name, os.environ)
        seen = asyncio.run(_live.look_at_all(config)) if live else {}
    except ConfigError as error:
        click.echo(json.dumps(problems(name, error), indent=2) if as_json else error, err=not as_json)
        sys.exit(1)
    well = all(_live.is_well(probe) for probe in seen.values())
    if as_json:
        told = {"live": _live.document(seen)} if live else {}
        click.echo(json.dumps({"ok": well, "file": str(found) if found else None, **facts(config), **told}, indent=2))
    else:
        click.echo(f"{name}: fine" if found else "No configuration was found; these are the defaults.")
        click.echo("\n".join((*lines(config), *_live.lines(seen))))
    sys.exit(0 if well else 1)


def facts(config: Config) -> dict[str, object]:
    """What the configuration says about addresses, backends and names. No secrets."""
    shown = configuration.effective(config)
    backends = {name: {"kind": entry["kind"], "url": entry["url"]} for name, entry in shown["backends"].items()}
    return {
        "listeners": [
            {"address": str(entry.address), "identity": entry.identity or config.identity} for entry in config.listen
        ],
        "admin": {"address": str(config.admin.listen), "token": bool(config.admin.token)},
        "backends": backends,
        "models": shown["models"],
        **({"pins": [{"name": name, "problem": problem} for name, problem in pins(config)]} if config.warmup.pins else {}),
    }


def pins(config: Config) -> Iterator[tuple[str, str | None]]:
    """The prefixes that are given, and why one cannot be read ahead: that stops it, not the gateway."""
    for settings in config.warmup.pins:
        try:
            read_pin(settings)
        except PinProblem as problem:
            yield settings.name, str(problem)
        else:
            yield settings.name, None


def lines(config: Config) -> Iterator[str]:
    """The same for people: one line for each address, backend and name."""
    for entry in config.listen:
        yield f"listen   {entry.address}, as {entry.identity or config.identity}, {_count(len(config.api_keys), 'API key')}"
    yield f"admin    {config.admin.listen}, {'with' if config.admin.token else 'without'} a token"
    for name, backend in config.backends.items():
        yield f"backend  {name}: {backend.kind} at {backend.base_url}"
    if not config.backends:
        yield "no backends"
    for name, model in config.models.items():
        aliases = f" (also {', '.join(model.aliases)})" if model.aliases else ""
        yield f"model    {name}{aliases} -> {', '.join(model.targets) or 'wherever it is found'}"
    for name, problem in pins(config):
        yield f"pin      {name}: it will not be read ahead: {problem}" if problem else f"pin      {name}"


def problems(name: str, error: ConfigError) -> dict[str, object]:
    """The report as data. Lines and columns count from 1; there are none where the file could not be read at all."""
    found = error.problems if isinstance(error, InvalidConfig) else ()
    places = [
        {
            "line": problem.mark.line + 1,
            "column": problem.mark.column + 1,
            "key": configuration.show_path(problem.path),
            "message": problem.message,
        }
        for problem in found
    ]
    return {"ok": False, "file": name, "report": str(error), "problems": places}


def _count(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
