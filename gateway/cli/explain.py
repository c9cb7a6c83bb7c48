"""`warmgate explain`: why a request computed what it could have reused, or why two saved bodies would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gateway.cli import _admin, _offline, _report, _show
from gateway.cli._diff import diff, styled
from gateway.config import Config
from gateway.errors import WarmgateError

NEWEST = 100  # finished requests among which --last looks for one with a prompt


@dataclass(frozen=True, slots=True)
class Explained:
    """report: the same for the developers of the client."""

    explanation: Mapping[str, Any]
    report: str


@click.command("explain")
@click.argument("what", nargs=-1, metavar="[ID | A.json B.json]")
@click.option("--last", is_flag=True, help="The newest finished request.")
@click.option(
    "--path", "sent_to", metavar="/v1/...", help="Where the two bodies are sent; guessed from their shape if left out."
)
@click.option(
    "--report", is_flag=True, help="Print a bug report for the client's developers, with no text of the prompt in it."
)
@_show.config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(what: tuple[str, ...], last: bool, sent_to: str | None, report: bool, path: Path | None, as_json: bool) -> None:
    """Explain what a request reused, where it left the one before, what that cost, why, and what to do.

    ID is that of a reply's X-Request-Id, or of `warmgate tail`. Two saved bodies, the earlier one first, need no gateway.
    """
    if len(what) > 2 or (last + len(what)) == 0 or (last and what):
        raise click.UsageError("Name one request by its id or with --last, or two files with request bodies.")
    if len(what) == 1 and Path(what[0]).is_file():
        raise click.UsageError(f"{_show.plain(what[0])} is a file; name the other body as well.")
    try:
        config = _admin.load_or_defaults(path)
        found = offline(config, what[0], what[1], sent_to) if len(what) == 2 else asked(config, what[0] if what else None)
    except WarmgateError as error:
        _show.fail(error, as_json)
    if as_json:
        click.echo(_show.dump({"report": found.report} if report else found.explanation))
    elif report:
        click.echo(found.report)
    else:
        console = _show.console()
        for part in show(found.explanation):
            console.print(part, soft_wrap=True)


def asked(config: Config, id: str | None) -> Explained:
    """The running gateway's explanation of a request; None: of the newest one that had a prompt. Raises WarmgateError."""
    if id is None:
        rows = _admin.get(config, "/requests", limit=NEWEST)["requests"]
        if not rows:
            raise _admin.NotDone("No request has finished yet.")
        id = str(next((row["id"] for row in rows if row["route"]), rows[0]["id"]))
    where = f"/requests/{quote(id, safe='')}"
    explanation = _admin.get(config, f"{where}/explain")
    return Explained(explanation, _report.of_request(_admin.get(config, where), explanation))


def offline(config: Config, first: str, second: str, path: str | None) -> Explained:
    """Two saved bodies compared. Raises WarmgateError."""
    pair = _offline.load(first, second, path)
    explanation = _offline.explain(pair, config)
    return Explained(explanation, _report.of_pair(pair, explanation))


def show(explanation: Mapping[str, Any]) -> Iterator[RenderableType]:
    """For people: the sentence, the sections, the difference, the cost, the fix."""
    about = "about " if explanation.get("estimate") else ""
    reason = explanation["reason"]
    verdict = (_show.plain(reason), "yellow") if reason else ("nothing lost", "green")
    yield Text.assemble((_show.plain(explanation["id"]), "bold cyan"), "  ", verdict)
    yield Text(_show.plain(explanation["sentence"], 500))
    if explanation["compared_with"]:
        yield Text(f"compared with {_show.plain(explanation['compared_with'])}", style="dim")
    yield Text("")
    yield section_table(explanation["sections"])
    yield from _difference(explanation["difference"])
    lost, detector = explanation["lost"], explanation["detector"]
    yield Text("")
    if names := explanation.get("parameters"):
        yield Text(f"parameters that differ: {', '.join(_show.plain(name) for name in names)}")
    if lost["tokens"]:
        seconds = f", {_show.seconds(lost['seconds'])}" if lost["seconds"] is not None else ""
        yield Text(f"computed again: {about}{_show.count(lost['tokens'])} tokens{seconds}")
    if detector:
        yield Text(f"what changes there is known to the rule: {_show.plain(detector)}")
    yield Text.assemble(("what to do: ", "bold"), _show.plain(explanation["fix"]["text"], 500))
    if explanation["fix"]["config"]:
        yield Text(f"    {_show.plain(explanation['fix']['config'], 500)}", style="green")


def section_table(listed: list[Mapping[str, Any]]) -> Table:
    """The sections of a prompt, in its order, with what was reused of each."""
    table = _show.table("section", ("tokens", "right"), ("reused", "right"), "")
    for one in listed:
        reused = one["reused"]
        bar = _show.bar(reused, one["tokens"]) if reused is not None else Text("not reported", style="dim")
        table.add_row(_show.name(one["name"]), _show.count(one["tokens"]), _show.count(reused), bar)
    return table


def _difference(difference: Mapping[str, Any] | None) -> Iterator[Text]:
    if difference is None:
        return
    where = f"at character {difference['offset']:,}"
    if not difference["exact"]:
        where += f" or up to {difference['within']:,} further on"
    yield Text("")
    yield Text(f"first difference: {_show.plain(difference['section'])}, {where}")
    if (before := difference.get("before")) is not None and (after := difference.get("after")) is not None:
        yield from map(styled, diff(before, after))
