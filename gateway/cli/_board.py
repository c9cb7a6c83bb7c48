"""What `warmgate top` shows, as numbers: finished requests summed up, and what breaks prefixes most. No I/O."""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

KEEP = 500  # finished requests that are summed up
WARM = 0.9  # share of its prompt from which on a request counts as warm
COLD = 0.1  # share below which it counts as cold
NEWEST_MESSAGE = 64  # tokens that any warm request still computes: what the user has just written
GATEWAYS_OWN = ("canonical", "placement", "snapshot", "warmup")

Row = Mapping[str, Any]


@dataclass(slots=True)
class Board:
    """status: as /status says; rows: finished requests by id and time, the oldest first. One writer: the verb's event loop."""

    status: dict[str, Any]
    rows: OrderedDict[tuple[str, float], Row] = field(default_factory=OrderedDict)

    def add(self, row: Row) -> None:
        key = (row["id"], row["time"])  # an id may be a client's and come again
        self.rows[key] = row
        self.rows.move_to_end(key)
        while len(self.rows) > KEEP:
            self.rows.popitem(last=False)

    def hear(self, name: str, value: dict[str, Any]) -> None:
        """Take over an event of /events; other names say nothing that is shown."""
        if name == "request":
            self.add(value)
            self.status["in_flight"] = self._others(value)
        elif name == "started":
            running = {**{key: value[key] for key in ("id", "number", "backend")}, "started": value["time"]}
            self.status["in_flight"] = [*self._others(value), running]
        elif name in ("backend", "gone"):
            kept = [one for one in self.status["backends"] if name == "backend" or one["name"] != value["name"]]
            self.status["backends"] = [value if one["name"] == value["name"] else one for one in kept]

    def _others(self, request: Row) -> list[Row]:
        """What runs beside this request. An id may be a client's and several requests' at once; the number is the flight's."""
        key = (request["id"], request["number"])
        return [one for one in self.status["in_flight"] if (one["id"], one["number"]) != key]

    def document(self) -> dict[str, Any]:
        """All that the screen shows, for --json."""
        rows = list(self.rows.values())
        return {
            "version": self.status["version"],
            "requests": len(rows),
            "since": rows[0]["time"] if rows else None,
            **summary(rows),
            "running": self.status["in_flight"],
            "backends": self.status["backends"],
            "breakers": breakers(rows),
        }


def summary(rows: Iterable[Row]) -> dict[str, Any]:
    """Reuse over the requests whose server told it, medians of the time to the first token (seconds), seconds saved and lost.

    Requests that are partly warm are in neither median. None where nothing is known. `saved_seconds` is the gateway's own
    share: what the server would have reused anyway is not counted.
    """
    rows = list(rows)
    told = [row for row in rows if row["cached"] is not None and row["prompt"]]
    prompt, cached = (sum(row[key] for row in told) for key in ("prompt", "cached"))
    timed = [row for row in told if row["ttft"] is not None]
    warm, cold = ([row["ttft"] for row in timed if warmth(row) == wanted] for wanted in ("warm", "cold"))
    return {
        "reused": {"requests": len(told), "prompt": prompt, "cached": cached, "share": cached / prompt if prompt else None},
        "ttft": {"warm": statistics.median(warm) if warm else None, "cold": statistics.median(cold) if cold else None},
        "saved_seconds": sum(row["saved"].get(by) or 0.0 for row in rows for by in GATEWAYS_OWN),
        "lost_seconds": sum(row["lost_seconds"] or 0.0 for row in rows),
    }


def warmth(row: Row) -> str:
    """`warm`, `cold` or `partial`, as the status page counts. The row's prompt is more than 0 and its reuse is known."""
    prompt, cached = row["prompt"], row["cached"]
    if cached > 0 and (cached >= WARM * prompt or prompt - cached <= NEWEST_MESSAGE):
        return "warm"
    return "cold" if cached < COLD * prompt else "partial"


def breakers(rows: Iterable[Row], most: int = 8) -> list[dict[str, Any]]:
    """What lost most, by reason, section and client: the most seconds first, tokens where no seconds are known.

    What was never seen before was not broken by anything.
    """
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        if row["reason"] in (None, "first_seen") or not (row["lost_tokens"] or row["lost_seconds"]):
            continue
        key = (row["reason"], row["section"] or "", row["client"]["agent"])
        one = found.setdefault(key, {
            "reason": row["reason"], "section": row["section"], "agent": row["client"]["agent"],
            "requests": 0, "lost_tokens": 0, "lost_seconds": 0.0, "last": row["id"],
        })  # fmt: skip
        one["requests"] += 1
        one["lost_tokens"] += row["lost_tokens"] or 0
        one["lost_seconds"] += row["lost_seconds"] or 0.0
        one["last"] = row["id"]
    return sorted(found.values(), key=lambda one: (-one["lost_seconds"], -one["lost_tokens"]))[:most]
