"""Owner of background tasks: one that fails is logged and started again; none outlives its owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("warmgate.control")

PAUSE = (1.0, 60.0)  # seconds before the first and at most before later restarts


class Supervisor:
    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Keep `work` running under this name; does nothing if it is running already."""
        if name not in self._tasks or self._tasks[name].done():
            self._tasks[name] = asyncio.create_task(_forever(name, work), name=name)

    async def stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def aclose(self) -> None:
        for name in list(self._tasks):
            await self.stop(name)


async def _forever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    pause = PAUSE[0]
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await work()
            return
        except Exception:
            log.exception("%s failed; it is started again in %g s", name, pause)
        if asyncio.get_running_loop().time() - began > PAUSE[1]:
            pause = PAUSE[0]
        await asyncio.sleep(pause)
        pause = min(pause * 2, PAUSE[1])
