"""The dashboards as Grafana reads them, and their queries as Grafana asks them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from gateway.metrics import Metrics
from gateway.metrics.series import Histogram

GRAFANA = Path(__file__).resolve().parents[2] / "grafana"
BOARDS: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text()) for file in sorted((GRAFANA / "dashboards").glob("*.json"))
}
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((GRAFANA / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]

EVERYTHING = {"job": ".*", "instance": ".*", "backend": ".*", "model": ".*", "__rate_interval": "1m", "__range": "6h"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a panel; row: the title that it stands under."""

    board: str
    row: str
    panel: Mapping[str, Any]
    expr: str
    legend: str

    @property
    def title(self) -> str:
        return str(self.panel["title"])

    def __str__(self) -> str:
        return f"{self.board}: {self.title}: {self.legend}"


def panels(board: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(title of the row, panel)"""
    row = ""
    for panel in BOARDS[board]["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
        else:
            yield row, panel


def queries(board: str) -> list[Asked]:
    return [
        Asked(board, row, panel, target["expr"], target["legendFormat"])
        for row, panel in panels(board)
        for target in panel["targets"]
    ]


def filled(expression: str, **values: str) -> str:
    """With Grafana's variables replaced."""
    known = EVERYTHING | values
    return re.sub(r"\$(\w+)", lambda match: known[match[1]], expression)


def names(expression: str) -> set[str]:
    """The metrics that an expression without variables asks for."""
    return {selector.name for selector in _selectors(promql_parser.parse(expression))}


def _selectors(node: Any) -> Iterator[Any]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node
        return
    for field in ("expr", "lhs", "rhs", "vector_selector", "param"):
        if (child := getattr(node, field, None)) is not None:
            yield from _selectors(child)
    for child in getattr(node, "args", None) or ():
        yield from _selectors(child)


def own_names() -> dict[str, str]:
    """Each series that the gateway exposes -> the metric that it belongs to."""
    metrics = Metrics()
    found = {}
    for defined in metrics.families.sections.values():
        for one in defined:
            if isinstance(one, Histogram):
                found |= dict.fromkeys((f"{one.name}_bucket", f"{one.name}_sum", f"{one.name}_count"), one.name)
            else:
                found[one.name] = one.name
    for family in metrics.families.registry.collect():  # the process's, besides
        found |= {sample.name: found.get(sample.name, sample.name) for sample in family.samples}
    return found
