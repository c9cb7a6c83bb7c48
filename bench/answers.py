"""What a small real model still knows when facts were moved: `python -m bench.answers`.

Forty questions about facts that the canonical form moves out of the system text (bench/answers_data.py) go to
SmolLM2-135M-Instruct on llama.cpp's server, greedily, each with the prompt as the client sent it and with its canonical form.
An answer is right if it contains the expected value. A few minutes on two cores.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table

from bench.answers_data import SCENES, Question, Scene
from gateway.canonical.ledger import Ledger
from gateway.clock import SystemClock
from gateway.config.canonical import Canonical
from gateway.engine import smollm2
from gateway.engine.extra import require
from gateway.engine.server import EngineServer
from gateway.engine.templates import chat_template
from gateway.errors import WarmgateError
from gateway.server import dry_run
from gateway.values import Client

MODEL = "smollm2"
PATH = "/v1/chat/completions"
CONTEXT = 2048  # tokens of the server's one slot
MAX_TOKENS = 40
REQUEST_LIMIT = 60.0  # seconds for one answer
RUN_LIMIT = 900.0  # seconds for all of them

Case = tuple[Scene, Question]
CASES: tuple[Case, ...] = tuple((scene, question) for scene in SCENES for question in scene.questions)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, and what came of it in both forms: the answers, and whether they are right."""

    scene: str
    kind: str
    question: str
    expected: str
    original: str
    canonical: str
    original_right: bool
    canonical_right: bool


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with all answers.")
@click.option("--check", is_flag=True, help="Exit with 1 if fewer answers are right from the canonical form.")
@click.option("--limit", type=click.IntRange(1, len(CASES)), default=len(CASES), show_default=True, help="Only the first N.")
@click.option("--weights", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Another GGUF file.")
def main(as_json: bool, check: bool, limit: int, weights: Path | None) -> None:
    """Ask questions about moved facts, with the original prompt and with its canonical form."""
    try:
        require("xllamacpp")
        outcomes = measure(weights or _smollm2(), CASES[:limit])
    except (WarmgateError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    if as_json:
        click.echo(json.dumps(as_document(outcomes), indent=2))
    else:
        show(outcomes, Console())
    if check and lost(outcomes):
        sys.exit(1)


def measure(weights: Path, cases: Sequence[Case]) -> list[Outcome]:
    """Ask all of it on a server of its own, which is stopped at the end. Raises WarmgateError, OSError."""
    # One core stays free for others: llama.cpp's threads wait for each other by spinning.
    threads = str(max(1, (os.cpu_count() or 1) - 1))
    flags = ("-c", str(CONTEXT), "-np", "1", "-t", threads, "--alias", MODEL, "--chat-template", chat_template())
    with (
        tempfile.TemporaryDirectory(prefix="warmgate-answers-") as scratch,
        EngineServer(weights, Path(scratch), *flags) as engine,
    ):
        deadline = time.monotonic() + RUN_LIMIT
        # One form after the other within a scene, so that the server reads each text once.
        return [outcome for scene in dict.fromkeys(map(_name, cases)) for outcome in _scene(engine, scene, cases, deadline)]


def _name(case: Case) -> str:
    return case[0].name


def _scene(engine: EngineServer, name: str, cases: Sequence[Case], deadline: float) -> Iterator[Outcome]:
    asked = [case for case in cases if _name(case) == name]
    originals = [_answer(engine, body(scene.system, question), deadline) for scene, question in asked]
    canonicals = [_answer(engine, canonical(scene, question), deadline) for scene, question in asked]
    for (_, question), original, rewritten in zip(asked, originals, canonicals, strict=True):
        yield Outcome(
            name,
            question.kind,
            question.text,
            question.accepted[0],
            original,
            rewritten,
            is_right(original, question),
            is_right(rewritten, question),
        )


def _answer(engine: EngineServer, asked: bytes, deadline: float) -> str:
    left = deadline - time.monotonic()
    if left <= 0:
        raise WarmgateError(f"not all questions were answered within {RUN_LIMIT:.0f} s")
    reply = engine.post(PATH, orjson.loads(asked), timeout=min(left, REQUEST_LIMIT))
    return str(reply["choices"][0]["message"]["content"])


def body(system: str, question: Question) -> bytes:
    """The request as a client sends it."""
    fields: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question.text}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "cache_prompt": True,
    }
    return orjson.dumps(fields)


def canonical(scene: Scene, question: Question) -> bytes:
    """The same request as the gateway forwards it, once it has seen the earlier session."""
    ledger, now = Ledger(), SystemClock().wall()
    run = dry_run.DryRun(Canonical(), Client("127.0.0.1", "bench"), ledger, b"")
    sent = b""
    for raw in (body(scene.earlier, question), body(scene.system, question)):
        result = run.play(dry_run.request(raw, orjson.loads(raw), PATH), now)
        ledger.apply(result.remember, now)
        sent = result.body
    return sent


def is_right(answer: str, question: Question) -> bool:
    """Whether one of the accepted spellings stands in the answer, as whole words and whatever the case."""
    plain = _plain(answer)
    return any(re.search(rf"(?<!\w){re.escape(_plain(value))}(?!\w)", plain) for value in question.accepted)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[`*\"'’]", "", text).casefold().split())


def lost(outcomes: Sequence[Outcome]) -> bool:
    """Whether fewer answers are right from the canonical form than from the original."""
    return sum(one.canonical_right for one in outcomes) < sum(one.original_right for one in outcomes)


def as_document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The totals, by kind of fact as well, and everything that was asked and answered."""
    kinds = dict.fromkeys(one.kind for one in outcomes)
    return {
        **_totals(outcomes),
        "kinds": {kind: _totals([one for one in outcomes if one.kind == kind]) for kind in kinds},
        "answers": [asdict(one) for one in outcomes],
    }


def _totals(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return {
        "questions": len(outcomes),
        "original_right": sum(one.original_right for one in outcomes),
        "canonical_right": sum(one.canonical_right for one in outcomes),
    }


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print the table and the totals."""
    table = Table("question", "expected", "original", "canonical")
    for one in outcomes:
        table.add_row(one.question, one.expected, _verdict(one.original_right), _verdict(one.canonical_right))
    console.print(table)
    totals = _totals(outcomes)
    console.print(
        f"Right of {totals['questions']}: {totals['original_right']} from the original, "
        f"{totals['canonical_right']} from the canonical form.",
        highlight=False,
    )


def _verdict(right: bool) -> str:
    return "[green]right[/green]" if right else "[red]wrong[/red]"


def _smollm2() -> Path:
    if (path := smollm2.find()) is None:
        raise WarmgateError(f"the weights of SmolLM2 are not installed: {smollm2.INSTALL}")
    return path


if __name__ == "__main__":
    main()
