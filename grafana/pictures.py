"""Pictures of a dashboard's rows, drawn from its panels' own queries: `python -m grafana.pictures URL SECONDS DIRECTORY`.

URL: of a Prometheus; SECONDS: how far back. What is drawn is the overview, one file for each row. Grafana draws it finer.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from grafana import svg
from grafana.svg import Box, Line

OVERVIEW = Path(__file__).resolve().parent / "dashboards" / "overview.json"
COLUMN, LINE = 40, 28  # pixels of a cell of the grid
GAP = 6
COLORS = {"green": "#299c46", "dark-red": "#ad2f2f", "orange": "#e0782f", "dark-blue": "#3a5f9e"}

Ask = Callable[[str], list[dict[str, Any]]]
"""A query's series over the time that is drawn, as Prometheus answers `query_range`."""


def rows(board: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """(title, panels)"""
    found: list[tuple[str, list[dict[str, Any]]]] = []
    for panel in board["panels"]:
        if panel["type"] == "row":
            found.append((panel["title"], []))
        else:
            found[-1][1].append(panel)
    yield from found


def draw(panels: list[dict[str, Any]], ask: Ask, span: tuple[float, float]) -> str:
    """One row as SVG."""
    top = min(panel["gridPos"]["y"] for panel in panels)
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    parts = [_panel(panel, ask, span, top) for panel in panels]
    return svg.whole(24 * COLUMN, (bottom - top) * LINE, parts)


def _panel(panel: Mapping[str, Any], ask: Ask, span: tuple[float, float], top: int) -> str:
    spot, defaults = panel["gridPos"], panel["fieldConfig"]["defaults"]
    box = Box(spot["x"] * COLUMN, (spot["y"] - top) * LINE, spot["w"] * COLUMN - GAP, spot["h"] * LINE - GAP)
    lines = [line for target in panel["targets"] for line in _lines(target, ask)]
    unit, options = defaults["unit"], (defaults.get("mappings") or [{"options": {}}])[0]["options"]
    words = {value: result["text"] for value, result in options.items()}
    colors = {value: COLORS.get(result["color"], "") for value, result in options.items()}
    head = svg.frame(box, panel["title"])
    if panel["type"] == "stat":
        return head + svg.figures(box, lines, unit, words)
    if not lines:
        middle = svg.text(box.x + box.width / 2, box.y + box.height / 2, "no data", color="#8a929c", anchor="middle")
        return head + middle
    if panel["type"] == "heatmap":
        return head + svg.heat(box, lines, span)
    if panel["type"] == "state-timeline":
        return head + svg.states(box, lines, words, colors, span)
    stacked = defaults["custom"].get("stacking", {}).get("mode") == "normal"
    return head + svg.plot(box, lines, unit, stacked=stacked, dashed=_dashed(panel, lines), span=span)


def _dashed(panel: Mapping[str, Any], lines: list[Line]) -> list[str]:
    patterns = [override["matcher"]["options"].strip("/") for override in panel["fieldConfig"]["overrides"]]
    return [name for name, _ in lines if any(re.search(pattern, name) for pattern in patterns)]


def _lines(target: Mapping[str, Any], ask: Ask) -> Iterator[Line]:
    for series in ask(target["expr"]):
        name = _named(target["legendFormat"], series["metric"])
        points = [(float(at), float(value)) for at, value in series["values"]]
        if points := [point for point in points if math.isfinite(point[1])]:
            yield name, points


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), legend)


def prometheus(url: str, span: tuple[float, float], rate: str, **variables: str) -> Ask:
    """Asks a Prometheus. rate: the range of rates; variables: what is chosen above the dashboard, all if nothing is said."""
    step = max(1.0, (span[1] - span[0]) / 200)
    known = {"__rate_interval": rate, "__range": f"{math.ceil(span[1] - span[0])}s"} | variables

    def ask(expression: str) -> list[dict[str, Any]]:
        query = re.sub(r"\$(\w+)", lambda match: known.get(match[1], ".*"), expression)
        parameters = urlencode({"query": query, "start": span[0], "end": span[1], "step": step})
        with urlopen(f"{url}/api/v1/query_range?{parameters}", timeout=30) as reply:
            return list(json.load(reply)["data"]["result"])

    return ask


def file_name(title: str) -> str:
    """Of a row's picture."""
    return re.sub(r"\W+", "-", title.lower()).strip("-") + ".svg"


def write(directory: Path, ask: Ask, span: tuple[float, float]) -> list[Path]:
    """All rows of the overview. Returns the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for title, panels in rows(json.loads(OVERVIEW.read_text())):
        files.append(directory / file_name(title))
        files[-1].write_text(draw(panels, ask, span))
    return files


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    url, seconds, directory = arguments
    span = (time.time() - float(seconds), time.time())
    for file in write(Path(directory), prometheus(url, span, "1m"), span):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
