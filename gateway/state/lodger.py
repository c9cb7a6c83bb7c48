"""One model on one backend: whether it is loaded, until when, how it was asked to be loaded, and who wants it gone.

Written by `gateway.state.residency` only. `used` and `renewed` are monotonic seconds, `expires` and `since` seconds since the
epoch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.backends.loads import Wish
from gateway.values import ModelInfo, Probe

State = Literal["unknown", "absent", "resident", "expiring", "sleeping"]

Gone = Literal["expired", "client", "release", "evicted", "unknown"]
"""Why a model is no longer loaded: its time was over; a client or a person unloaded it; `warmgate release` did; another model
took its place; nobody knows (the server was restarted)."""

EXPIRING = 60.0
"""Seconds before its end from which a model counts as expiring."""

CERTAINLY = 0.8
"""Share of its time to live before which a model that is gone was ejected by somebody."""

ASKED_FOR = 86_400.0
"""Seconds for which options that a client asked for are given to other clients too."""

LOADED = frozenset({"resident", "expiring"})


@dataclass(slots=True)
class Lodger:
    """suspended: somebody unloaded it, so nobody keeps it until it is used again; in_force: seconds of keep_alive that the
    server is known to use for it; options, shift: what native traffic asks of the loaded model; v1_at: when it was last used
    through a path that cannot ask; spills_at: the smallest context with which layers did not fit; sleeps_after: seconds of
    idleness after which the server has gone to sleep; lasts: after which it lets models go, where that is fixed; waits_for: a
    model in use that loading this one might push out."""

    backend: str
    model: str
    label: str = ""
    state: State = "unknown"
    since: float = 0.0
    expires: float | None = None
    context: int | None = None
    used: float = -math.inf
    renewed: float = -math.inf
    suspended: bool = False
    in_force: float | None = None
    ours: bool = False  # loaded because the policy wants it
    unloading: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    shift: bool | None = None
    asked_at: float = -math.inf
    v1_at: float = -math.inf
    spills_at: int | None = None
    sleeps_after: float | None = None
    lasts: float | None = None
    failures: int = 0
    retry_at: float = 0.0
    problem: str | None = None
    waits_for: str | None = None

    @property
    def name(self) -> str:
        return self.model.removesuffix(":latest")

    def answers_to(self, name: str) -> bool:
        """Whether this is the model of that name: the configured one, or the backend's own."""
        return name in (self.label, self.model, self.name)

    @property
    def loaded(self) -> bool:
        return self.state in LOADED

    # the options with which it is loaded

    def asks(self, options: Mapping[str, Any], shift: bool | None, now: float) -> None:
        """A native request says how the model is to be loaded: the largest context counts, and of all else the latest."""
        if now - self.asked_at > ASKED_FOR:
            self.options, self.shift = {}, None
        if options or shift is not None:
            self.asked_at = now
        largest = max(_context(options), _context(self.options))
        self.options |= options
        if largest:
            self.options["num_ctx"] = largest
        self.shift = shift if shift is not None else self.shift

    def load_options(self, at_least: int | None, now: float) -> dict[str, Any]:
        """The options that every native request is to carry, so that none of them loads the model anew. Empty where requests
        that cannot carry any share the model: it is loaded with the server's own defaults for them."""
        if now - self.v1_at < ASKED_FOR:
            return {}
        options = dict(self.options) if now - self.asked_at <= ASKED_FOR else {}
        wanted = max(_context(options), at_least or 0)
        if wanted and (self.spills_at is None or wanted < self.spills_at):
            options["num_ctx"] = wanted
        else:
            options.pop("num_ctx", None)
        return options

    def wish(self, keep_alive: float | None, at_least: int | None, now: float) -> Wish:
        return Wish(self.model, keep_alive, self.load_options(at_least, now), self.shift)

    # what a probe shows

    def took(
        self, info: ModelInfo, probe: Probe, *, restarted: bool, others: bool, now: float, wall: float
    ) -> tuple[bool, Gone | None]:
        """Take over what a probe shows. restarted: by another process than the last one; others: another model was loaded there
        meanwhile. Returns whether the model was loaded since the last look, and why it is gone, if it is."""
        before, self.state = self.state, _state(info, probe, wall)
        if self.state != before:
            self.since = wall
        anew = restarted and before != "unknown"
        if anew:
            self.in_force, self.ours = None, False
        gone: Gone | None = None
        if before in LOADED and not self.loaded:
            idle = now - max(self.used, self.renewed)
            gone = self._why_gone(restarted, others, idle, wall)
            if self.state == "sleeping" and math.isfinite(idle):
                self.sleeps_after = min(self.sleeps_after or math.inf, max(idle, 1.0))
            self.ours, self.in_force, self.unloading = False, None, False
        self.expires, self.context = info.expires if self.loaded else None, info.context
        if self.loaded:
            self._see_spill(info)
        return self.loaded and (before in ("absent", "sleeping") or anew), gone

    def _why_gone(self, restarted: bool, others: bool, idle: float, wall: float) -> Gone:
        """What nobody else explains was a person, who frees the memory for something else. That is respected."""
        if self.state == "sleeping":
            return "expired"
        if restarted:
            return "unknown"
        if self.unloading:
            return "release"
        if self.suspended:
            return "client"
        if self.expires is not None and wall >= self.expires - 2:
            return "expired"
        if others:
            return "evicted"
        if self.expires is not None or (self.lasts is not None and (self.ours or idle < CERTAINLY * self.lasts)):
            self.suspended = True
            return "client"
        return "expired"

    def _see_spill(self, info: ModelInfo) -> None:
        """Ollama: layers on the CPU with a context that was raised. It is not raised so far again."""
        row = info.rows.get("/api/ps", {})
        size, in_vram, context = row.get("size"), row.get("size_vram"), info.context
        if isinstance(size, int) and isinstance(in_vram, int) and context and 0 < in_vram < size:
            self.spills_at = min(self.spills_at or context, context)

    def row(self, wall: float) -> dict[str, Any]:
        """For `/status`. Seconds are left; null: never, or unknown."""
        left = None if self.expires is None or math.isinf(self.expires) else max(0.0, self.expires - wall)
        return {
            "backend": self.backend,
            "model": self.model,
            "keep": self.label or None,
            "state": self.state,
            "since": self.since or None,
            "expires": None if self.expires is None or math.isinf(self.expires) else self.expires,
            "pinned": self.expires == math.inf,
            "left": left,
            "suspended": self.suspended,
            "waits_for": self.waits_for,
            "problem": self.problem,
            "options": self.options,
        }


def _state(info: ModelInfo, probe: Probe, wall: float) -> State:
    if probe.sleeping:
        return "sleeping"
    if info.resident is None:
        return "unknown"
    if not info.resident:
        return "absent"
    return "expiring" if info.expires is not None and info.expires - wall < EXPIRING else "resident"


def _context(options: Mapping[str, Any]) -> int:
    found = options.get("num_ctx")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0
