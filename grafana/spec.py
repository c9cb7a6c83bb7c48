"""What a dashboard is made of, as data: rows of panels, panels of queries. `grafana.draw` makes Grafana's JSON of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

WIDTH = 24  # of Grafana's grid

Kind = Literal["stat", "lines", "stacked", "heatmap", "states"]

RATE = "[$__rate_interval]"
"""The range of rates that are drawn over time: Grafana makes it wide enough for the scrape interval."""

RANGE = "[$__range]"
"""The range of single figures: all that the dashboard shows."""


@dataclass(frozen=True, slots=True)
class Query:
    """legend: how each line is called, with labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """text: what it shows and what to make of it; unit: one of Grafana's; dashed: regular expression for names of lines that
    are drawn apart; steps: colour -> the value from which it holds, the first from anywhere; words: value -> text and colour.
    """

    title: str
    text: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = "lines"
    width: int = 12
    height: int = 8
    dashed: str = ""
    steps: tuple[tuple[str, float], ...] = ()
    words: tuple[tuple[int, str, str], ...] = ()
    most: float | None = None  # the upper end of the axis


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice above the dashboard. query: as Grafana asks Prometheus for the values."""

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    text: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Spot:
    """A rectangle of the grid."""

    x: int
    y: int
    width: int
    height: int


def placed(rows: tuple[Row, ...]) -> Iterator[tuple[Row | Panel, Spot]]:
    """Each row and panel in the order of reading, with its place: from left to right, then below the highest of the line."""
    y = 0
    for row in rows:
        yield row, Spot(0, y, WIDTH, 1)
        x, y, highest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, highest = 0, y + highest, 0
            yield panel, Spot(x, y, panel.width, panel.height)
            x, highest = x + panel.width, max(highest, panel.height)
        y += highest
