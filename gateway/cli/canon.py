"""`warmgate canon`: what the canonical form makes of saved requests. A dry run: no server is asked, no file is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import click
import orjson
from rich.console import Console

from gateway.canonical.ledger import Ledger
from gateway.canonical.result import Result
from gateway.canonical.settings import Mode
from gateway.cli._admin import load_or_defaults
from gateway.cli._canon_report import Played, show
from gateway.clock import SystemClock
from gateway.config import Config
from gateway.errors import BadRequest, WarmgateError
from gateway.server import dry_run
from gateway.values import Client

CLIENT = Client("127.0.0.1", "warmgate canon")


class Unusable(WarmgateError):
    """A file that holds no request; the text says where and why."""


@click.command("canon")
@click.argument("files", nargs=-1, required=True, metavar="FILE|-...", type=click.Path(allow_dash=True))
@click.option("--path", metavar="/v1/...", help="Where the bodies are sent; guessed from their shape if left out.")
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--mode", type=click.Choice(get_args(Mode)), help="Instead of the configuration's, as X-Warmgate-Mode does.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document for each file, one on a line.")
def command(files: tuple[str, ...], path: str | None, file: Path | None, mode: Mode | None, as_json: bool) -> None:
    """Show what would change in the prompts of saved request bodies: the edits as a diff, and the note.

    Several files are played in turn, as one client's requests to one gateway that has just started.
    """
    try:
        config = load_or_defaults(file)
        asked = [(name, read(name, path)) for name in files]
    except WarmgateError as error:
        click.echo(orjson.dumps({"error": str(error)}) if as_json else f"error: {error}", err=not as_json)
        sys.exit(1)
    console = Console(highlight=False, markup=False, emoji=False)
    for number, ((name, request), result) in enumerate(zip(asked, play(config, [one for _, one in asked], mode), strict=True)):
        if as_json:
            click.echo(dry_run.document(request, result))
            continue
        if number:
            console.print()
        show(Played(label(name), request, path is None, result), console)


def play(config: Config, asked: Iterable[dry_run.Request], mode: Mode | None) -> Iterator[Result]:
    """The outcomes of requests played in turn against one ledger in memory."""
    ledger, clock = Ledger(), SystemClock()
    run = dry_run.DryRun(config.canonical, CLIENT, ledger, b"")
    for request in asked:
        now = clock.wall()
        result = run.play(request, now, mode)
        ledger.apply(result.remember, now)
        yield result


def label(name: str) -> str:
    """What a file is called in what is printed."""
    return "standard input" if name == "-" else name


def read(name: str, path: str | None) -> dry_run.Request:
    """The request in a file (`-`: standard input). Raises Unusable."""
    shown = label(name)
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Unusable(f"{shown} cannot be read: {error.strerror or error}.") from None
    body = parse(shown, raw)
    try:
        return dry_run.request(raw, body, path)
    except BadRequest as error:
        raise Unusable(f"{shown}: {error}") from None


def parse(name: str, raw: bytes) -> dict[str, Any]:
    """The body as an object. Raises Unusable, with line and column where it is no JSON."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        lenient = " (the gateway passes such a body on as it is)" if _is_lenient(raw) else ""
        raise Unusable(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}{lenient}.") from None
    if not isinstance(body, dict):
        kind = {list: "an array", str: "a string", type(None): "null", bool: "true or false"}.get(type(body), "a number")
        raise Unusable(f"{name}: a request body is a JSON object; this is {kind}.")
    return body


def _is_lenient(raw: bytes) -> bool:
    """Whether Python's own parser reads what orjson refuses: a byte order mark, NaN, lone surrogates."""
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True
