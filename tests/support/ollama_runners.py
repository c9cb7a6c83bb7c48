"""Which models a simulated Ollama has in memory, and for how long. Source: Ollama's server/sched.go, api/types.go, docs/faq.

Time comes from the injected clock. Nothing runs in the background: what has expired is dropped when somebody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.clock import Clock
from tests.support.fake_server import Refused
from tests.support.kvcache import KVCache

FOREVER = (2**63 - 1) / 1e9
"""Seconds that a negative keep_alive becomes: the longest duration of Go, about 292 years."""

LOAD_OPTIONS: Mapping[str, Any] = {
    "num_batch": 512,
    "num_gpu": -1,
    "main_gpu": 0,
    "use_mmap": None,
    "num_thread": 0,
    "draft_num_predict": 0,
}
"""The options that belong to a loaded model, with their defaults; `num_ctx` is one too, and its default depends."""


class OllamaError(Refused):
    """What Ollama refuses, in its own words."""


def full_name(name: str) -> str:
    """`tiny` and `tiny:latest` are one model."""
    return name if ":" in name else f"{name}:latest"


@dataclass(frozen=True, slots=True)
class Model:
    """A model on disk. num_ctx, system, messages: what its Modelfile fixes; blob: models with the same one share a runner.

    weights: bytes; kv_bytes: bytes a token of context takes; train_ctx: tokens it was trained on; tools_first: its template
    puts tools in front of the system text; shift: False for models that cannot move their context.
    """

    name: str
    num_ctx: int | None = None
    system: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    thinking: bool = False
    tools: bool = True
    tools_first: bool = False
    embedding: bool = False
    shift: bool = True
    train_ctx: int = 131_072
    weights: int = 1_000_000_000
    kv_bytes: int = 100_000
    blob: str = ""

    @property
    def digest(self) -> str:
        return self.blob or self.name


@dataclass(slots=True)
class Runner:
    """A loaded model. keep_alive: seconds after its last request; expires: wall clock, refreshed when a request ends."""

    model: Model
    options: Mapping[str, Any]
    cache: KVCache
    keep_alive: float
    expires: float
    users: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def num_ctx(self) -> int:
        num_ctx: int = self.options["num_ctx"]
        return num_ctx

    @property
    def size(self) -> int:
        return self.model.weights + self.model.kv_bytes * self.num_ctx * len(self.cache.slots)

    def fits(self, wanted: Mapping[str, Any]) -> bool:
        """Whether a request with these load options can use it as it is. A negative num_gpu or an unset use_mmap fits all."""
        loose = {name for name, value in wanted.items() if value is None or (name == "num_gpu" and value < 0)}
        return all(self.options[name] == value for name, value in wanted.items() if name not in loose)


class Runners:
    """The loaded models. One writer: the event loop's requests, through `use`, `unload` and `expire`.

    keep_alive: default, seconds (OLLAMA_KEEP_ALIVE); parallel: slots of a runner (OLLAMA_NUM_PARALLEL); max_loaded: models in
    memory (OLLAMA_MAX_LOADED_MODELS); max_queue: requests that may wait for a load (OLLAMA_MAX_QUEUE); context_length:
    OLLAMA_CONTEXT_LENGTH, None = 4096; load_seconds: real seconds that a load takes. loads and unloads: (model, why) in order.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        keep_alive: float = 300.0,
        parallel: int = 1,
        max_loaded: int = 3,
        max_queue: int = 512,
        context_length: int | None = None,
        load_seconds: float = 0.0,
    ):
        self.clock = clock
        self.keep_alive = keep_alive
        self.parallel = parallel
        self.max_loaded = max_loaded
        self.max_queue = max_queue
        self.context_length = context_length
        self.load_seconds = load_seconds
        self.loads: list[tuple[str, str]] = []
        self.unloads: list[tuple[str, str]] = []
        self._runners: dict[str, Runner] = {}
        self._loading = asyncio.Lock()
        self._waiting = 0

    @property
    def loaded(self) -> list[Runner]:
        """What is in memory now, the longest to live first."""
        self.expire()
        return sorted(self._runners.values(), key=lambda runner: -runner.expires)

    def load_options(self, model: Model, options: Mapping[str, Any], shift: bool | None) -> dict[str, Any]:
        """What a request asks of the runner. shift: None = no load option (before 0.30.9): never compared."""
        num_ctx = options.get("num_ctx") or model.num_ctx or self.context_length or 4096
        told = {name: options.get(name, default) for name, default in LOAD_OPTIONS.items()}
        return {**told, "shift": shift, "num_ctx": min(num_ctx, model.train_ctx)}

    @asynccontextmanager
    async def use(self, model: Model, wanted: Mapping[str, Any], keep_alive: float | None) -> AsyncIterator[Runner]:
        """The runner for one request, loaded or reloaded if need be. keep_alive: seconds; None keeps what the runner has.

        Raises OllamaError 503 when too many requests wait for a load.
        """
        runner = await self._claim(model, wanted)
        if keep_alive is not None:
            runner.keep_alive = keep_alive
        try:
            yield runner
        finally:
            runner.users -= 1
            if runner.users == 0:
                runner.idle.set()
                runner.expires = self.clock.wall() + runner.keep_alive
                self.expire()

    def unload(self, model: Model) -> None:
        """The unload command: at once, or when the requests that are running have ended."""
        if runner := self._runners.get(model.digest):
            runner.keep_alive = 0.0
            runner.expires = self.clock.wall()
            self.expire()

    def forget(self) -> None:
        """The process has ended: nothing is loaded any more."""
        self._runners.clear()

    def expire(self) -> None:
        for runner in [*self._runners.values()]:
            if not runner.users and runner.expires <= self.clock.wall():
                self._drop(runner, "expired" if runner.keep_alive else "asked")

    async def _claim(self, model: Model, wanted: Mapping[str, Any]) -> Runner:
        runner = self._fitting(model, wanted)
        if runner is None:
            if self._waiting >= self.max_queue:
                raise OllamaError(503, "server busy, please try again.  maximum pending requests exceeded")
            self._waiting += 1
            try:
                async with self._loading:  # one load at a time
                    runner = self._fitting(model, wanted) or await self._load(model, wanted)
            finally:
                self._waiting -= 1
        runner.users += 1
        runner.idle.clear()
        return runner

    def _fitting(self, model: Model, wanted: Mapping[str, Any]) -> Runner | None:
        self.expire()
        runner = self._runners.get(model.digest)
        return runner if runner and runner.fits(wanted) else None

    async def _load(self, model: Model, wanted: Mapping[str, Any]) -> Runner:
        """A reload or a load of one model too many waits for the runner that has to go."""
        why = "load"
        if old := self._runners.get(model.digest):
            why = "reload"
            await self._leave(old, why)
        while len(self._runners) >= self.max_loaded:
            await self._leave(min(self._runners.values(), key=lambda r: (r.users > 0, r.keep_alive)), "evicted")
        await asyncio.sleep(self.load_seconds)
        expires = self.clock.wall() + self.keep_alive
        runner = Runner(model, wanted, KVCache(self.parallel), self.keep_alive, expires)
        self._runners[model.digest] = runner
        self.loads.append((model.name, why))
        return runner

    async def _leave(self, runner: Runner, why: str) -> None:
        while runner.users:
            await runner.idle.wait()
        self._drop(runner, why)

    def _drop(self, runner: Runner, why: str) -> None:
        if self._runners.get(runner.model.digest) is runner:
            del self._runners[runner.model.digest]
            self.unloads.append((runner.model.name, why))
