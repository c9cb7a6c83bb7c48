"""`warmgate init`: a commented configuration from the servers that are found on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gateway import config as configuration
from gateway.cli import _found, _init_file, _paste
from gateway.config import Config
from gateway.control.discover import FIRST, Discovery

HERE = Path("warmgate.yaml")


@click.command("init")
@click.option("--path", type=click.Path(dir_okay=False, path_type=Path), default=HERE, show_default=True, help="File to write.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.option("--print", "only_print", is_flag=True, help="Print the file instead of writing it.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found and done as JSON.")
def command(path: Path, force: bool, only_print: bool, as_json: bool) -> None:
    """Write a commented configuration from the servers that are found on this machine. Exit code 1 if it cannot be written."""
    try:
        discovery = Discovery(_found.ports(os.environ))
    except ValueError as error:
        raise click.UsageError(f"{_found.PORTS_VARIABLE}: {error}") from None
    asyncio.run(discovery.look(FIRST))
    text = _init_file.text(discovery)
    config = configuration.loads(text, str(path), os.environ)  # what is written here must be what `check` accepts
    problem = None if only_print else _write(path, text, force, private=_init_file.holds_secret(config))
    if as_json:
        click.echo(json.dumps(_document(path, text, config, discovery, problem, only_print), indent=2))
    elif only_print:
        click.echo(text, nl=False)
    elif problem:
        click.echo(problem, err=True)
    else:
        click.echo("\n".join(_told(path, config, discovery)))
    sys.exit(1 if problem else 0)


def _write(path: Path, text: str, force: bool, *, private: bool) -> str | None:
    """Write the file; over another only with `force`, and then whole or not at all. Returns what went wrong, or None.

    private: only its owner may read it.
    """
    target = path.resolve()
    written = target.with_name(f".{target.name}.{os.getpid()}") if force else target
    mode = 0o600 if private else 0o666  # less the umask
    try:
        with open(written, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(text)
        written.replace(target)
    except FileExistsError:
        return f"{path} is there already and was left as it is; --force writes over it, --print only shows the text."
    except OSError as error:
        if force:
            written.unlink(missing_ok=True)
        return f"{path} cannot be written: {error.strerror or error}"
    return None


def _told(path: Path, config: Config, discovery: Discovery) -> Iterator[str]:
    run = "warmgate run" if path == HERE else f"warmgate run --config {path}"
    yield f"Wrote {path}."
    yield from (f"Found {_found.words(name, sight)}" for name, sight in discovery.servers.items())
    yield from _found.strangers(discovery)
    if not config.backends:
        yield "No model server was found on this machine: write your server's address under `backends:`."
    yield from ("", f"Next: look through {path}, then `{run}`. `warmgate check {path}` tells what is wrong with it.", "")
    yield from _paste.guide(_places(config), _found.offers(discovery.servers))


def _document(
    path: Path, text: str, config: Config, discovery: Discovery, problem: str | None, only_print: bool
) -> dict[str, object]:
    """text: only where it was not written."""
    return {
        "ok": problem is None,
        "file": None if only_print or problem else str(path),
        "problem": problem,
        "found": _found.as_data(discovery.servers),
        "clients": _paste.snippets(_places(config), _found.offers(discovery.servers)),
        **({"text": text} if only_print else {}),
    }


def _places(config: Config) -> _paste.Places:
    return _paste.Places.of([entry.address for entry in config.listen])
