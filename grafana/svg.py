"""Panels as SVG: lines, areas, heatmaps, states and figures, with a scale and a legend. Pure.

A line is its name and its points (seconds since the epoch, number), in the order of time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Points = Sequence[tuple[float, float]]
Line = tuple[str, Points]

COLORS = (
    "#3274d9",
    "#e0782f",
    "#299c46",
    "#a352cc",
    "#c4162a",
    "#b8860b",
    "#1f78a4",
    "#8f3bb8",
    "#6d7a84",
    "#d44a8c",
    "#7a5230",
    "#5aa9a3",
    "#94a83d",
    "#3d3d8f",
)
INK, FAINT, PAPER = "#24292e", "#c9ced6", "#ffffff"
LEFT, TOP, FOOT = 58, 34, 20  # margins of a plot, in pixels
LETTER = 6.2  # width of a letter of the legend
SYMBOLS = ("", "k", "M", "G", "T")


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float


def shown(value: float, unit: str) -> str:
    """A number with its unit, by Grafana's name of that."""
    if not math.isfinite(value):
        return "-"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return _time(value)
    if unit == "bytes":
        return _scaled(value, 1024) + "B"
    return _scaled(value, 1000) + ("/s" if unit in ("reqps", "ops") else "")


def _time(value: float) -> str:
    if 0 < abs(value) < 0.001:
        return f"{value * 1e6:.3g} µs"
    if abs(value) < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 600 else f"{value / 60:.3g} min"


def _scaled(value: float, base: int) -> str:
    power = min(int(math.log(abs(value), base)) if abs(value) >= 1 else 0, len(SYMBOLS) - 1)
    return f"{value / base**power:.3g} {SYMBOLS[power]}".rstrip()


def text(x: float, y: float, words: str, *, size: int = 11, color: str = INK, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}">{escape(words)}</text>'


def frame(box: Box, title: str) -> str:
    rectangle = (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="4" fill="{PAPER}" stroke="{FAINT}"/>'
    )
    return rectangle + text(box.x + 10, box.y + 19, title, size=12)


def whole(width: float, height: float, parts: Iterable[str]) -> str:
    """The document."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'{head} font-family="sans-serif">\n' + "\n".join(parts) + "\n</svg>\n"


def figures(box: Box, lines: Sequence[Line], unit: str, words: dict[str, str]) -> str:
    """The last numbers, large."""
    last = [points[-1][1] for _, points in lines if points]
    told = " of ".join(words.get(f"{value:g}") or shown(value, unit) for value in last)
    return text(box.x + box.width / 2, box.y + box.height * 0.65, told or "no data", size=22, anchor="middle")


def plot(box: Box, lines: Sequence[Line], unit: str, *, stacked: bool, dashed: Sequence[str], span: tuple[float, float]) -> str:
    """Lines, or areas on top of each other."""
    area, legend = _area(box, [name for name, _ in lines])
    drawn = _heaped(lines) if stacked else [(name, points, None) for name, points in lines]
    most = max((value for _, points, _ in drawn for _, value in points), default=0.0) or 1.0
    parts = [_scale(area, most * 1.05, unit, span)]
    for number, (name, points, below) in reversed(list(enumerate(drawn))):
        color, path = COLORS[number % len(COLORS)], _path(area, points, most * 1.05, span)
        if below is not None:
            back = _path(area, list(reversed(below)), most * 1.05, span)
            parts.append(f'<path d="M{path}L{back}Z" fill="{color}" fill-opacity="0.35" stroke="none"/>')
        dash = ' stroke-dasharray="6 4"' if name in dashed else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="1.4"{dash}/>')
    return "".join(parts) + legend


def _heaped(lines: Sequence[Line]) -> list[tuple[str, Points, Points]]:
    """Each line on top of those before it, with what it stands on."""
    times = sorted({at for _, points in lines for at, _ in points})
    below = dict.fromkeys(times, 0.0)
    found: list[tuple[str, Points, Points]] = []
    for name, points in lines:
        own = dict(points)
        above = {at: below[at] + own.get(at, 0.0) for at in times}
        found.append((name, list(above.items()), list(below.items())))
        below = above
    return found


def heat(box: Box, lines: Sequence[Line], span: tuple[float, float]) -> str:
    """Cells by time and bucket. lines: by `le`, cumulative as Prometheus counts them; only buckets in use are drawn."""
    rows = sorted(((float(name.replace("+Inf", "inf")), dict(points)) for name, points in lines), key=lambda row: row[0])
    cells = [
        (bound, {at: max(0.0, value - (rows[number - 1][1].get(at, 0.0) if number else 0.0)) for at, value in row.items()})
        for number, (bound, row) in enumerate(rows)
    ]
    used = [number for number, (_, row) in enumerate(cells) if any(value > 0 for value in row.values())]
    cells = cells[used[0] : used[-1] + 1] if used else []
    area, _ = _area(box, [])
    most = max((value for _, row in cells for value in row.values()), default=0.0) or 1.0
    height = area.height / max(1, len(cells))
    parts = [_scale(area, 0.0, "s", span)]
    for number, (bound, row) in enumerate(cells):
        y = area.y + area.height - (number + 1) * height
        parts.append(
            text(area.x - 5, y + height / 2 + 4, "more" if math.isinf(bound) else shown(bound, "s"), size=9, anchor="end")
        )
        parts += [
            _cell(area, list(row), at, span, y, height - 1, "#d9480f", 0.08 + 0.92 * value / most)
            for at, value in row.items()
            if value > 0
        ]
    return "".join(parts)


def states(box: Box, lines: Sequence[Line], words: dict[str, str], colors: dict[str, str], span: tuple[float, float]) -> str:
    """A bar for each line, in the colours of its values."""
    area, _ = _area(box, [])
    area = Box(area.x + 60, area.y, area.width - 60, area.height)
    height = min(24.0, area.height / max(1, len(lines)))
    parts = [_scale(area, 0.0, "none", span)]
    for number, (name, points) in enumerate(lines):
        y = area.y + number * height
        parts.append(text(area.x - 6, y + height / 2 + 4, name[:22], size=10, anchor="end"))
        times = [at for at, _ in points]
        parts += [_cell(area, times, at, span, y + 2, height - 4, colors.get(f"{value:g}", FAINT)) for at, value in points]
        if points:
            parts.append(text(area.x + 6, y + height / 2 + 4, words.get(f"{points[-1][1]:g}", ""), size=10, color=PAPER))
    return "".join(parts)


def _area(box: Box, names: Sequence[str]) -> tuple[Box, str]:
    """Where to plot, and the legend below."""
    parts, x, y = [], box.x + 10.0, 0.0
    for number, name in enumerate(names):
        width = 22 + len(name) * LETTER
        if x + width > box.x + box.width and x > box.x + 10:
            x, y = box.x + 10.0, y + 14
        parts.append((x, y, number, name))
        x += width
    rows = y + 14 if names else 0
    bottom = box.y + box.height - rows - 4
    legend = "".join(
        f'<rect x="{x:.1f}" y="{bottom + y + 3:.1f}" width="10" height="3" fill="{COLORS[number % len(COLORS)]}"/>'
        + text(x + 14, bottom + y + 9, name, size=10)
        for x, y, number, name in parts
    )
    return Box(box.x + LEFT, box.y + TOP, box.width - LEFT - 14, bottom - FOOT - box.y - TOP), legend


def _scale(area: Box, most: float, unit: str, span: tuple[float, float]) -> str:
    """Lines at thirds of the range, with numbers where there is one; seconds since the beginning below."""
    parts = []
    for third in range(4):
        y = area.y + area.height * (1 - third / 3)
        if most:
            parts.append(f'<path d="M{area.x:.1f},{y:.1f}h{area.width:.1f}" stroke="{FAINT}" stroke-width="0.6"/>')
            parts.append(text(area.x - 5, y + 4, shown(most * third / 3, unit), size=9, anchor="end"))
        x, at = area.x + area.width * third / 3, (span[1] - span[0]) * third / 3
        parts.append(text(x, area.y + area.height + 13, f"{at:.0f} s", size=9, anchor="middle"))
    return "".join(parts)


def _across(area: Box, at: float, span: tuple[float, float]) -> float:
    return area.x + area.width * (at - span[0]) / (span[1] - span[0])


def _cell(
    area: Box, times: Sequence[float], at: float, span: tuple[float, float], y: float, height: float, color: str, ink: float = 1
) -> str:
    """For the time from `at` to the next of the times, which are equally far from each other, or to the end."""
    step = times[1] - times[0] if len(times) > 1 else span[1] - span[0]
    x = _across(area, at, span)
    width = max(0.0, _across(area, min(at + step, span[1]), span) - x)
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{color}" fill-opacity="{ink:.2f}"/>'


def _path(area: Box, points: Points, most: float, span: tuple[float, float]) -> str:
    return "L".join(
        f"{_across(area, at, span):.1f},{area.y + area.height * (1 - max(0.0, value) / most):.1f}"
        for at, value in points
        if math.isfinite(value)
    )
