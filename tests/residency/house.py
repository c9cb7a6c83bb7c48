"""A gateway in front of simulated servers, on a clock that goes only where a test pushes it: the keeper and the probes are
stepped by hand, requests go through the real data path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway import config as configuration
from gateway.backends.control import Control
from gateway.control.probe import control_of, look
from gateway.server.app import App
from gateway.server.gateway import Gateway
from gateway.state.residency import Todo
from tests.support.clients import Response, fetch
from tests.support.clock import ManualClock
from tests.support.fake_server import FakeServer
from tests.support.process import free_port

CHAT = "/v1/chat/completions"
MONDAY = 1_795_996_800.0
"""2026-11-30, a Monday, 00:00 UTC."""


@dataclass
class House:
    app: App
    clock: ManualClock
    url: str
    admin: str
    told: list[Any] = field(default_factory=list)
    controls: dict[str, Control] = field(default_factory=dict)

    @property
    def gateway(self) -> Gateway:
        return self.app.gateway

    async def look(self) -> None:
        """Probe every backend now."""
        for name, state in self.gateway.fleet.states.items():
            if name not in self.controls:
                self.controls[name] = control_of(state.config, self.gateway.now.addresses[name])
            self.gateway.fleet.saw(name, state.config, await look(state.config, self.controls[name], state.kind), 0.0)

    async def step(self, seconds: float = 0.0) -> list[Todo]:
        """Let time pass, then look, and do what is wanted. Returns what was done."""
        self.clock.advance(seconds)
        await self.look()
        done = await self.app.keeper.step()
        if done:
            await self.look()
        return done

    async def through(self, seconds: float, every: float = 300.0) -> list[Todo]:
        """The same again and again for so long."""
        done = []
        for _ in range(round(seconds / every)):
            done += await self.step(every)
        return done

    async def ask(self, path: str, body: Mapping[str, Any], *headers: tuple[str, str]) -> Response:
        response = await fetch(self.url + path, body, *headers)
        assert response.status == 200, response.body
        return response

    async def chat(self, model: str, text: str = "hi", path: str = CHAT, **more: Any) -> Response:
        return await self.ask(path, {"model": model, "messages": [{"role": "user", "content": text}], "stream": False, **more})

    def events(self, kind: type) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]


@asynccontextmanager
async def house(
    clock: ManualClock, servers: Mapping[str, tuple[str, FakeServer]], models: Mapping[str, Any]
) -> AsyncIterator[House]:
    """servers: name -> (kind, server)."""
    async with AsyncExitStack() as stack:
        backends = {}
        for name, (kind, server) in servers.items():
            await stack.enter_async_context(server)
            backends[name] = {"kind": kind, "url": server.url}
        listen, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
        document = {
            "listen": listen, "admin": {"listen": admin}, "state_dir": "", "backends": backends, "models": models,
        }  # fmt: skip
        config = configuration.loads(orjson.dumps(document).decode(), "test", {})

        async def load() -> configuration.Config:
            return config

        app = App(Gateway(config, clock), load)
        found = House(app, clock, f"http://{listen}", f"http://{admin}")
        app.gateway.bus.subscribe(found.told.append)
        await app.start()
        try:
            for task in ("residency", *(f"probe {name}" for name in servers)):
                await app.supervisor.stop(task)
            yield found
        finally:
            for control in found.controls.values():
                await control.close()
            await app.stop()
