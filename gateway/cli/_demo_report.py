"""What `warmgate demo` found, as a table for people and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """model: its name at the server; speaks: its answers mean something; direct, gateway: the same requests in the same order,
    sent to the server and through the gateway; metrics: lines of the admin port's /metrics.
    """

    model: str
    weights: Path
    speaks: bool
    gateway_url: str
    admin_url: str
    direct: tuple[Turn, ...]
    gateway: tuple[Turn, ...]
    metrics: tuple[str, ...]


def select(metrics: str) -> tuple[str, ...]:
    """The lines of a scrape that the demo shows, in its order."""
    return tuple(line for name in METRICS for line in metrics.splitlines() if line.startswith((name + "{", name + " ")))


def total(lines: Iterable[str], name: str) -> float:
    """The sum over all label values of one metric."""
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def as_document(report: Report) -> dict[str, Any]:
    """Times in seconds; `reused` from 0 to 1; null for what the server did not tell."""
    return {
        "model": report.model,
        "weights": report.weights.name,
        "gateway": report.gateway_url,
        "admin": report.admin_url,
        "requests": [
            {"name": direct.name, "direct": _figures(direct.reply), "gateway": _figures(gateway.reply)}
            for direct, gateway in zip(report.direct, report.gateway, strict=True)
        ],
        "totals": {"direct": _sums(report.direct), "gateway": _sums(report.gateway)},
        "metrics": list(report.metrics),
    }


def _figures(reply: Reply) -> dict[str, Any]:
    return {
        "ttft_seconds": round(reply.ttft, 4),
        "duration_seconds": round(reply.duration, 4),
        "prompt_tokens": reply.prompt,
        "cached_tokens": reply.cached,
        "reused": None if reply.reused is None else round(reply.reused, 4),
        "answer": reply.text,
    }


def _sums(turns: Iterable[Turn]) -> dict[str, Any]:
    replies = [turn.reply for turn in turns]
    return {"ttft_seconds": round(sum(reply.ttft for reply in replies), 4), "prefilled_tokens": prefilled(replies)}


def prefilled(replies: Iterable[Reply]) -> int | None:
    """Prompt tokens that the server had to read because they were not cached; None if it did not tell of one of the replies."""
    tokens = 0
    for reply in replies:
        if reply.prompt is None or reply.cached is None:
            return None
        tokens += reply.prompt - reply.cached
    return tokens


def show(report: Report, console: Console) -> None:
    """Print the table, the totals, the beginnings of answers that mean something, and the metrics."""
    console.print(_table(report))
    console.print(Text(_summary(_sums(report.direct), _sums(report.gateway)), style="bold"), soft_wrap=True)
    if report.speaks:
        console.print()
        for direct, gateway in zip(report.direct, report.gateway, strict=True):
            for way, turn in (("directly", direct), ("through the gateway", gateway)):
                console.print(Text(f"{turn.name}, {way}: {_beginning(turn.reply.text)}", style="dim"))
    console.print(Text(f"\n{report.admin_url}/metrics", style="bold"))
    for line in report.metrics:
        console.print(Text(line), soft_wrap=True)


def _table(report: Report) -> Table:
    """Two rows for each request: sent directly, and through the gateway."""
    title = f"{report.model} on llama.cpp's server: a clock in the system text, tools in any order"
    table = Table("request", "sent", title=title, title_justify="left")
    for heading in ("first token", "prompt tokens", "cached", "reused"):
        table.add_column(heading, justify="right")
    for direct, gateway in zip(report.direct, report.gateway, strict=True):
        table.add_row(direct.name, "directly", *_cells(direct.reply))
        table.add_row("", "gateway", *_cells(gateway.reply), end_section=True)
    return table


def _cells(reply: Reply) -> tuple[str, ...]:
    reused = "not told" if reply.reused is None else f"{reply.reused:.1%}"
    return f"{reply.ttft:.3f} s", _number(reply.prompt), _number(reply.cached), reused


def _summary(direct: Mapping[str, Any], gateway: Mapping[str, Any]) -> str:
    waiting = f"{direct['ttft_seconds']:.1f} s of waiting directly, {gateway['ttft_seconds']:.1f} s through the gateway"
    if direct["prefilled_tokens"] is None or gateway["prefilled_tokens"] is None:
        return f"The server does not tell how much of the prompts it had to read; {waiting}."
    tokens = f"{direct['prefilled_tokens']:,} tokens directly, {gateway['prefilled_tokens']:,} through the gateway"
    return f"Of the prompts the server had to read {tokens}; {waiting}."


def _number(count: int | None) -> str:
    return "not told" if count is None else f"{count:,}"


def _beginning(text: str, limit: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0] + " …"
