"""Which models a simulated LM Studio has in memory, and for how long. Source: its docs on TTL and auto-evict, its bug tracker.

A request for a model that is not loaded loads it (just in time), with a time to live; of those, one stays at a time. What was
loaded explicitly has no time to live unless one is given, and is not evicted. Time comes from the injected clock; nothing runs
in the background: what has expired is dropped when somebody looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.clock import Clock
from tests.support.fake_server import Refused
from tests.support.kvcache import KVCache

JIT_TTL = 3600.0
"""Seconds that a model lives after its last request, if the request that loaded it did not say."""

UNLOADED = "Model unloaded."


@dataclass(frozen=True, slots=True)
class LmModel:
    """A model on disk. context: tokens it is loaded with unless a request says otherwise; train_ctx: the most it can have."""

    key: str
    context: int = 4096
    train_ctx: int = 131_072
    thinking: bool = False
    embedding: bool = False


@dataclass(slots=True)
class Instance:
    """A loaded model. ttl: seconds, None = for ever; jit: loaded by a request; used: wall clock of its last request;
    gone: it was unloaded, maybe under a request."""

    id: str
    model: LmModel
    context: int
    ttl: float | None
    jit: bool
    cache: KVCache
    used: float
    users: int = 0
    gone: bool = False


class Instances:
    """jit, auto_evict: the two settings, both on by default; parallel: predictions at once of an instance; load_seconds: real
    seconds that a load takes. loads and unloads: (instance, why) in order. One writer: the event loop's requests."""

    def __init__(
        self,
        models: Iterable[LmModel],
        clock: Clock,
        *,
        jit: bool = True,
        auto_evict: bool = True,
        parallel: int = 4,
        load_seconds: float = 0.0,
    ):
        self.models = {model.key: model for model in models}
        self.clock, self.jit, self.auto_evict = clock, jit, auto_evict
        self.parallel, self.load_seconds = parallel, load_seconds
        self.loads: list[tuple[str, str]] = []
        self.unloads: list[tuple[str, str]] = []
        self._instances: dict[str, Instance] = {}
        self._loading = asyncio.Lock()

    @property
    def loaded(self) -> list[Instance]:
        """What is in memory now, in the order of loading."""
        for instance in list(self._instances.values()):
            idle = self.clock.wall() - instance.used
            if instance.ttl is not None and not instance.users and idle >= instance.ttl:
                self._drop(instance, "expired")
        return list(self._instances.values())

    def find(self, name: Any) -> Instance | None:
        """The instance that answers to a name: its own, or its model's key; None where the model would have to be loaded.

        Raises Refused 404 for a name that is neither, or that may not be loaded by a request.
        """
        found = next((i for i in self.loaded if i.id == name), None) or next(
            (i for i in self.loaded if i.model.key == name), None
        )
        if found is None and (name not in self.models or not self.jit):
            raise Refused(404, f'Model "{name}" not found or not loaded.')
        return found

    async def load(self, key: Any, context: int | None = None, ttl: float | None = None) -> Instance:
        """Another instance, also where there is one already. Raises Refused 404."""
        if key not in self.models:
            raise Refused(404, f'Model "{key}" not found.')
        async with self._loading:
            return await self._load(self.models[key], context, ttl, jit=False)

    def unload(self, instance_id: Any) -> None:
        """At once, also under a request. Raises Refused 404."""
        found = next((instance for instance in self.loaded if instance.id == instance_id), None)
        if found is None:
            raise Refused(404, f'No model with instance id "{instance_id}" is loaded.')
        self._drop(found, "asked")

    @asynccontextmanager
    async def use(self, name: Any, *, ttl: Any = None, context: int | None = None) -> AsyncIterator[tuple[Instance, bool]]:
        """The instance for one request, and whether it was loaded for it. ttl, context: only count if it is."""
        instance = self.find(name)
        loads = instance is None
        if instance is None:
            async with self._loading:  # another request may have loaded it meanwhile
                instance = self.find(name)
                if instance is None:
                    lives = float(ttl) if isinstance(ttl, int | float) else JIT_TTL
                    instance = await self._load(self.models[name], context, lives, jit=True)
        instance.users += 1
        try:
            yield instance, loads
        finally:
            instance.users -= 1
            instance.used = self.clock.wall()

    def forget(self) -> None:
        self._instances.clear()

    async def _load(self, model: LmModel, context: int | None, ttl: float | None, *, jit: bool) -> Instance:
        if jit and self.auto_evict:  # even under a request
            for other in [instance for instance in self.loaded if instance.jit]:
                self._drop(other, "evicted")
        await asyncio.sleep(self.load_seconds)
        names = (model.key if n == 1 else f"{model.key}:{n}" for n in range(1, len(self._instances) + 2))
        name = next(name for name in names if name not in self._instances)
        tokens = min(context or model.context, model.train_ctx)
        instance = Instance(name, model, tokens, ttl, jit, KVCache(self.parallel), self.clock.wall())
        self._instances[name] = instance
        self.loads.append((name, "jit" if jit else "asked"))
        return instance

    def _drop(self, instance: Instance, why: str) -> None:
        del self._instances[instance.id]
        instance.gone = True
        self.unloads.append((instance.id, why))
