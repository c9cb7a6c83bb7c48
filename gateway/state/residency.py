"""Which models are loaded on which backend, which ought to be, and what is to be done about it now.

One writer: the event loop, through `on_event`, the data path (`edit`) and the keeper (`did`). Nothing here does I/O: `wanted`
says what to do and `gateway.control.residency` does it. Nothing is done outside a model's hours, to a backend that works on a
request, or against somebody who unloaded the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from gateway.backends import KINDS
from gateway.backends.loads import Loads, Wish
from gateway.clock import Clock
from gateway.config import Keep, Model
from gateway.dialects import ollama_load
from gateway.events import BackendGone, BackendProbed, Bus, KeepAliveOverridden, ModelLoaded, ModelUnloaded, RequestClosed
from gateway.routing.fleet import BackendView, FleetView
from gateway.state.lodger import Lodger
from gateway.values import Probe, Record
from gateway.wire.splice import set_fields

KEEP_ALIVE = 1800.0
"""Seconds for which a model that is kept is asked to stay after its last request, where the configuration does not say."""

IN_USE = 300.0
"""Seconds after its last request for which a model counts as in use: nothing is loaded that might push it out."""

RETRY = (30.0, 900.0)
"""First and longest pause after a load that failed, in seconds."""

SOON = 60.0
"""Seconds before its end at which a model that is kept is renewed, at the latest."""

MOST = 512
"""Models of which something is known; the number that a backend lists has no bound."""

Act = Literal["load", "renew", "unload"]


@dataclass(frozen=True, slots=True)
class Todo:
    act: Act
    backend: str
    wish: Wish
    label: str


class Residency:
    """Subscriber of the bus, to what it `hears`."""

    hears = (RequestClosed, BackendProbed, BackendGone)

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._models: Mapping[str, Model] = {}
        self._lodgers: dict[tuple[str, str], Lodger] = {}
        self._released: dict[str, float] = {}  # until when, wall clock; inf: until it is used
        self._together: set[frozenset[str]] = set()  # models of one backend that were seen loaded at once
        self._probes: dict[str, Probe] = {}
        self._down: set[str] = set()  # backends that were not there when they were last looked at

    def configure(self, models: Mapping[str, Model]) -> None:
        self._models = models

    # the policy

    def keep(self, label: str) -> Keep | None:
        """The policy of a configured model that is in force now: within its hours, and not released."""
        model = self._models.get(label)
        if model is None or model.keep is None or self._is_released(label):
            return None
        return model.keep if model.keep.cron.contains(self._clock.wall()) else None

    def kept(self) -> frozenset[tuple[str, str]]:
        """What ought to be loaded now: backend, and its own name of the model."""
        wanted = {label for label in self._models if (keep := self.keep(label)) is not None and keep.resident}
        return frozenset(
            (one.backend, one.model) for one in self._lodgers.values() if one.label in wanted and not one.suspended
        )

    def allows(self, label: str) -> bool:
        """Whether anything of a model may be kept warm now: it has no hours, or they are now, and it was not released."""
        model = self._models.get(label)
        if self._is_released(label):
            return False
        return model is None or model.keep is None or model.keep.cron.contains(self._clock.wall())

    def floor(self, label: str) -> float | None:
        """Seconds for which the model stays at least after each request, by the policy that is in force now."""
        keep = self.keep(label)
        if keep is None:
            return None
        return keep.keep_alive if keep.keep_alive is not None else KEEP_ALIVE if keep.resident else None

    def _is_released(self, label: str) -> bool:
        if self._released.get(label, math.inf) <= self._clock.wall():
            del self._released[label]
        return label in self._released

    # the data path

    def edit(self, raw: bytes, path: str, body: Mapping[str, Any] | None, label: str, backend: str, model: str) -> bytes:
        """A native Ollama request as it is to be sent: kept at least as long as the policy wants, with the options that the
        loaded model has. All other bytes are the client's own; so is everything where they cannot be edited."""
        if body is None or path not in ollama_load.PATHS:
            return raw
        lodger, now = self._lodger(backend, model), self._clock.now()
        if ollama_load.unloads(path, body):
            lodger.suspended = True
            return raw
        if not ollama_load.is_empty(path, body):
            self._wanted_again(lodger, label)
        shift = body.get("shift")
        asked = ollama_load.load_options(body)
        lodger.asks(asked, shift if isinstance(shift, bool) else None, now)
        try:
            raw = self._with_options(raw, body, asked, lodger, label, now)
            return self._with_keep_alive(raw, body, lodger, label)
        except ValueError:
            return raw

    def _with_options(
        self, raw: bytes, body: Mapping[str, Any], asked: Mapping[str, Any], lodger: Lodger, label: str, now: float
    ) -> bytes:
        keep = self.keep(label)
        wanted = lodger.load_options(keep.num_ctx if keep else None, now)
        fields = {name: value for name, value in wanted.items() if asked.get(name) is None or name == "num_ctx"}
        raw = ollama_load.with_options(raw, {name: value for name, value in fields.items() if asked.get(name) != value})
        if lodger.shift is not None and wanted and body.get("shift") is None:
            raw = ollama_load.with_shift(raw, lodger.shift)
        return raw

    def _with_keep_alive(self, raw: bytes, body: Mapping[str, Any], lodger: Lodger, label: str) -> bytes:
        floor, asked = self.floor(label), ollama_load.keep_alive(body.get("keep_alive"))
        if body.get("keep_alive") is None:
            if floor is None or lodger.expires == math.inf:  # it was pinned by somebody else: it stays so if nothing is said
                return raw
        elif asked is None or floor is None or asked >= floor:
            lodger.in_force = asked if asked is not None else lodger.in_force
            return raw
        else:
            self._bus.publish(KeepAliveOverridden(lodger.backend, lodger.model))
        lodger.in_force = floor
        return ollama_load.with_keep_alive(raw, floor)

    def with_ttl(self, raw: bytes, body: Mapping[str, Any], label: str, backend: str) -> bytes:
        """A request to LM Studio as it is to be sent: what it loads must outlive the hours, because nothing can renew it."""
        keep, floor, asked = self.keep(label), self.floor(label), body.get("ttl")
        if keep is None or floor is None:
            return raw
        wanted = max(floor, keep.cron.left(self._clock.wall())) if keep.resident else floor
        if isinstance(asked, int | float) and asked >= wanted:
            return raw
        if asked is not None:
            self._bus.publish(KeepAliveOverridden(backend, label))
        try:
            return set_fields(raw, {"ttl": str(math.ceil(wanted)).encode()})
        except ValueError:
            return raw

    # what to do

    def wanted(self, fleet: FleetView, busy: Mapping[str, int]) -> list[Todo]:
        """What is to be done now. busy: requests that each backend works on."""
        found = []
        for label, model in self._models.items():
            if model.keep is not None:
                for view, name in _homes(label, model, fleet):
                    if not busy.get(view.name) and (todo := self._for_model(label, model.keep, view, name)):
                        found.append(todo)
        return found

    def _for_model(self, label: str, keep: Keep, view: BackendView, name: str) -> Todo | None:
        lodger, loads, now = self._lodger(view.name, name), KINDS[view.kind].loads, self._clock.now()
        lodger.label, lodger.waits_for = label, None
        if loads is None or lodger.suspended or now < lodger.retry_at:
            return None
        if self.keep(label) is None:
            return self._after_hours(lodger, loads, keep, label, now)
        wish = lodger.wish(self.floor(label), keep.num_ctx, now)
        if lodger.state in ("absent", "sleeping"):
            lodger.waits_for = self._in_the_way(lodger, now) if keep.resident else None
            return Todo("load", view.name, wish, label) if keep.resident and not lodger.waits_for else None
        if lodger.loaded and loads.renew and self._fades(lodger, wish, keep, now):
            return Todo("renew", view.name, wish, label)
        return None

    def _after_hours(self, lodger: Lodger, loads: Loads, keep: Keep, label: str, now: float) -> Todo | None:
        """What was loaded for the policy's sake and has no end of its own is unloaded once it is idle."""
        endless = lodger.loaded and lodger.ours and lodger.expires is None and loads.unload is not None and loads.renew is None
        idle = now - max(lodger.used, lodger.renewed)
        return (
            Todo("unload", lodger.backend, Wish(lodger.model), label)
            if endless and idle >= (keep.keep_alive or IN_USE)
            else None
        )

    def _fades(self, lodger: Lodger, wish: Wish, keep: Keep, now: float) -> bool:
        """Whether a loaded model must be told to stay. Never one that stays longer than we would ask for."""
        if lodger.sleeps_after is not None and keep.resident:
            return now - max(lodger.used, lodger.renewed) >= lodger.sleeps_after / 3
        if lodger.expires is None or wish.keep_alive is None or math.isinf(lodger.expires):
            return False
        if lodger.in_force is None or lodger.in_force < wish.keep_alive - 1:
            return True
        return keep.resident and lodger.expires - self._clock.wall() < max(SOON, wish.keep_alive / 3)

    def _in_the_way(self, lodger: Lodger, now: float) -> str | None:
        """A model in use on the same backend that this one might push out: the two were never seen together."""
        for other in self._lodgers.values():
            in_use = other.loaded and now - other.used < IN_USE
            if (
                other.backend == lodger.backend
                and other is not lodger
                and in_use
                and _pair(lodger, other) not in self._together
            ):
                return other.model
        return None

    def did(self, todo: Todo, problem: str | None) -> None:
        """A load, renewal or unload has ended. problem: a sentence if it failed."""
        lodger, now = self._lodger(todo.backend, todo.wish.model), self._clock.now()
        if problem is not None:
            lodger.failures += 1
            lodger.retry_at = now + min(RETRY[0] * 2.0 ** min(lodger.failures - 1, 10), RETRY[1])
            lodger.problem = problem
            return
        lodger.failures, lodger.retry_at, lodger.problem = 0, 0.0, None
        if todo.act == "unload":
            lodger.unloading = True
            return
        lodger.renewed, lodger.ours = now, lodger.ours or todo.act == "load"
        lodger.in_force = todo.wish.keep_alive
        if todo.wish.keep_alive is not None and lodger.expires is not None:
            lodger.expires = self._clock.wall() + todo.wish.keep_alive  # as a probe will tell

    def release(self, label: str, seconds: float | None) -> list[Todo]:
        """Keep nothing of this model for so many seconds, or until it is used. Returns what unloads it now."""
        self._released[label] = math.inf if seconds is None else self._clock.wall() + seconds
        found = [one for one in self._lodgers.values() if one.answers_to(label)]
        return [Todo("unload", one.backend, Wish(one.model), label) for one in found if one.loaded]

    def knows(self, model: str) -> bool:
        return model in self._models or any(one.answers_to(model) for one in self._lodgers.values())

    def names(self) -> list[str]:
        """The configured models, then those that backends have listed."""
        return list(dict.fromkeys([*self._models, *(one.model for one in self._lodgers.values())]))

    # what happens

    def on_event(self, event: Any) -> None:
        """Subscriber of the bus."""
        if isinstance(event, RequestClosed):
            self._closed(event.record)
        elif isinstance(event, BackendProbed):
            if event.probe.up:
                self._probed(event.name, event.probe)
            elif not event.probe.loading:
                self._down.add(event.name)
        elif isinstance(event, BackendGone):
            self._probes.pop(event.name, None)
            self._down.discard(event.name)
            for key in [key for key in self._lodgers if key[0] == event.name]:
                del self._lodgers[key]

    def _closed(self, record: Record) -> None:
        answered = record.first is not None or bool(record.usage.completion)
        if record.backend is None or record.kind not in ("main", "side") or not answered:
            return
        now = self._clock.now()
        for lodger in self._lodgers.values():
            if lodger.backend == record.backend and lodger.answers_to(record.label):
                self._wanted_again(lodger, record.label)
                lodger.used = now
                if record.path.startswith("/v1/"):
                    lodger.v1_at = now
                if lodger.in_force is not None and lodger.expires is not None and not math.isinf(lodger.expires):
                    lodger.expires = self._clock.wall() + lodger.in_force

    def _wanted_again(self, lodger: Lodger, label: str) -> None:
        """Somebody uses the model, so that it is kept again, unless it was released for a time."""
        lodger.suspended = False
        if math.isinf(self._released.get(label, 0.0)):
            del self._released[label]

    def _probed(self, backend: str, probe: Probe) -> None:
        before, self._probes[backend] = self._probes.get(backend), probe
        restarted = before is not None and (before.mark != probe.mark or (before.mark is None and backend in self._down))
        self._down.discard(backend)
        was = {one.model for one in self._lodgers.values() if one.backend == backend and one.loaded}
        is_new = {info.name for info in probe.models if info.resident} - was
        now, wall = self._clock.now(), self._clock.wall()
        for info in probe.models[:MOST]:
            lodger = self._lodger(backend, info.name)
            loads, others = KINDS[probe.kind].loads, bool(is_new - {info.name})
            lodger.lasts = loads.lasts if loads else None
            came, gone = lodger.took(info, probe, restarted=restarted, others=others, now=now, wall=wall)
            if gone:
                self._bus.publish(ModelUnloaded(backend, lodger.label or info.name, gone))
            if came:
                self._bus.publish(ModelLoaded(backend, lodger.label or info.name, "keep" if lodger.ours else "user"))
        loaded = [one for one in self._lodgers.values() if one.backend == backend and one.loaded]
        if len(self._together) < MOST:
            self._together.update(_pair(one, other) for one, other in combinations(loaded, 2))

    def _lodger(self, backend: str, model: str) -> Lodger:
        """`model` and `model:latest` are one."""
        key = backend, model.removesuffix(":latest")
        if key not in self._lodgers:
            while len(self._lodgers) >= 2 * MOST:
                del self._lodgers[next(iter(self._lodgers))]
            self._lodgers[key] = Lodger(backend, model)
        return self._lodgers[key]

    def rows(self) -> list[dict[str, Any]]:
        """For `/status`: each model that is loaded, ought to be, or gives trouble."""
        wall = self._clock.wall()
        return [
            one.row(wall) | {"released": self._released.get(one.label, 0.0) > wall}
            for one in self._lodgers.values()
            if one.loaded or one.label or one.problem
        ]


def _pair(one: Lodger, other: Lodger) -> frozenset[str]:
    return frozenset((f"{one.backend}/{one.name}", f"{other.backend}/{other.name}"))


def _homes(label: str, model: Model, fleet: FleetView) -> Iterator[tuple[BackendView, str]]:
    """Where a model is kept: on the first of its targets that is up and has it, or the first backend that lists its name."""
    for view, name in _candidates(label, model, fleet):
        own = next(iter(view.models)) if view.single_model and len(view.models) == 1 else view.own_name(name)
        if view.up and not view.circuit_open and own is not None:
            yield view, own
            return


def _candidates(label: str, model: Model, fleet: FleetView) -> Iterator[tuple[BackendView, str]]:
    for target in model.targets:
        backend, name = target.split("/", 1)
        if (view := fleet.get(backend)) is not None:
            yield view, name
    if not model.targets:
        for view in fleet.backends:
            yield view, label
