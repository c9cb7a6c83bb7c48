"""The outcome of a dry run for people: each edit as a diff, the notes, and what observed rules found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from gateway.canonical.result import Edit, Result
from gateway.cli._diff import diff, styled
from gateway.logs import printable
from gateway.server import dry_run

ESTIMATE = f"an estimate: characters / {dry_run.CHARACTERS_PER_TOKEN}"


@dataclass(frozen=True, slots=True)
class Played:
    """name: of the file; guessed: whether its path was."""

    name: str
    asked: dry_run.Request
    guessed: bool
    result: Result


def show(played: Played, console: Console) -> None:
    for line in lines(played):
        console.print(line, soft_wrap=True)


def lines(played: Played) -> Iterator[Text]:
    asked, result = played.asked, played.result
    guessed = " (guessed; --path says otherwise)" if played.guessed else ""
    yield Text(f"{printable(played.name, 200)} for {asked.path}{guessed}", style="bold")
    for edit in dry_run.moves(result):
        yield _heading(edit)
        yield from _change(edit, asked)
    yield from _notes(played)
    for finding in result.findings:
        tokens = dry_run.tokens(finding)
        saves = f", would save about {tokens:,} tokens ({ESTIMATE})" if tokens is not None else ""
        yield _heading(finding.edit, f"only observed{saves}")
        yield from _change(finding.edit, asked)
    yield _summary(result, changed=result.body is not asked.raw)


def _heading(edit: Edit, more: str = "") -> Text:
    where = "" if edit.section == "tools" else f"  {edit.section} at character {edit.offset}"
    return Text.assemble("\n", (edit.rule, "bold cyan"), where, f"  {more}" if more else "")


def _change(edit: Edit, asked: dry_run.Request) -> Iterator[Text]:
    """The lines in which the edit stands, before and after."""
    if edit.section == "tools":
        before, after = _pretty(edit.before), _pretty(edit.after)
    else:
        head, tail = _around(edit, asked)
        before, after = head + edit.before + tail, head + edit.after + tail
    yield from map(styled, diff(before, after))


def _around(edit: Edit, asked: dry_run.Request) -> tuple[str, str]:
    """What stands before and behind it on its lines; nothing where an earlier edit has moved it."""
    end = edit.offset + len(edit.before)
    for at, text in enumerate(asked.prompt.system):
        if edit.section == f"system[{at}]" and text.text[edit.offset : end] == edit.before:
            return text.text[: edit.offset].rpartition("\n")[2], text.text[end:].partition("\n")[0]
    return "", ""


def _pretty(tools: str) -> str:
    return json.dumps(json.loads(tools), indent=1, ensure_ascii=False)


def _notes(played: Played) -> Iterator[Text]:
    newest = played.asked.prompt.newest_user
    for at, note in sorted(played.result.notes.items()):
        which = "the newest of the user's" if at == newest else "as it was sent before"
        yield Text.assemble("\n", ("note", "bold cyan"), f"  at the start of message[{at}], {which}")
        for line in note.text.rstrip("\n").split("\n"):
            yield Text(f"+ {printable(line, len(line) + 1)}", style="green")


def _summary(result: Result, *, changed: bool) -> Text:
    if result.reason:
        return Text(f"\nUnchanged: {result.reason}.", style="yellow")
    if not changed:
        return Text("\nUnchanged." if result.findings else "\nNothing to change.")
    counts = ", ".join(f"{rule} {count}" for rule, count in result.counts.items())
    return Text(f"\nChanged: {counts}.")
