"""What `warmgate demo` found, as a table for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.engine.play import Reply

METRICS = (
    "warmgate_time_to_first_token_seconds_count",
    "warmgate_time_to_first_token_seconds_sum",
    "warmgate_prompt_tokens_total",
    "warmgate_prompt_tokens_cached_total",
)
COUNT = METRICS[0]


@dataclass(frozen=True, slots=True)
class Turn:
    """A request by the name that it has in the table, and what came back."""

    name: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class Report:
    """model: its name at the server; speaks: its answers mean something; metrics: lines of the admin port's /metrics."""

    model: str
    weights: Path
    speaks: bool
    gateway_url: str
    admin_url: str
    turns: tuple[Turn, ...]
    metrics: tuple[str, ...]


def select(metrics: str) -> tuple[str, ...]:
    """The lines of a scrape that the demo shows, in its order."""
    return tuple(line for name in METRICS for line in metrics.splitlines() if line.startswith((name + "{", name + " ")))


def total(lines: Iterable[str], name: str) -> float:
    """The sum over all label values of one metric."""
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def as_document(report: Report) -> dict[str, Any]:
    """Times in seconds; `reused` from 0 to 1; null for what the server did not tell."""
    requests = [
        {
            "name": turn.name,
            "ttft_seconds": round(turn.reply.ttft, 4),
            "duration_seconds": round(turn.reply.duration, 4),
            "prompt_tokens": turn.reply.prompt,
            "cached_tokens": turn.reply.cached,
            "reused": None if turn.reply.reused is None else round(turn.reply.reused, 4),
            "answer": turn.reply.text,
        }
        for turn in report.turns
    ]
    return {
        "model": report.model,
        "weights": report.weights.name,
        "gateway": report.gateway_url,
        "admin": report.admin_url,
        "requests": requests,
        "metrics": list(report.metrics),
    }


def show(report: Report, console: Console) -> None:
    """Print the table, the beginnings of answers that mean something, and the metrics."""
    table = Table(title=f"{report.model} on llama.cpp's server, through the gateway", title_justify="left")
    table.add_column("request")
    for heading in ("first token after", "prompt tokens", "cached", "reused"):
        table.add_column(heading, justify="right")
    for turn in report.turns:
        reply = turn.reply
        reused = "not told" if reply.reused is None else f"{reply.reused:.1%}"
        table.add_row(turn.name, f"{reply.ttft:.3f} s", _number(reply.prompt), _number(reply.cached), reused)
    console.print(table)
    if report.speaks:
        for turn in report.turns:
            console.print(Text(f"{turn.name}: {_beginning(turn.reply.text)}", style="dim"))
    console.print(Text(f"\n{report.admin_url}/metrics", style="bold"))
    for line in report.metrics:
        console.print(Text(line), soft_wrap=True)


def _number(count: int | None) -> str:
    return "not told" if count is None else f"{count:,}"


def _beginning(text: str, limit: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0] + " …"
