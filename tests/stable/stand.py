"""The real gateway in front of a simulated Ollama and a scripted server. One stand serves all tests of a module.

async def test_something(stand: Stand) -> None:
    stand.says("Tray 4 holds 12 gears.")
    await stand.ask(path, body)
    assert "10:15" in stand.seen.users[-1]

Each test is a client of its own: it has a user agent that no other test has, so they share the server but no evidence.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.stable.seen import Seen
from tests.support import personas
from tests.support.clients import RawClient, Response, post
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_server import Served
from tests.support.ollama_runners import Model
from tests.support.process import GatewayProcess
from tests.support.replies import Reply, ToolCall
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import ordinary

PATIENCE = 10.0
"""Seconds that something which should happen at once may take on a busy machine."""

SAID = "Tray 4 holds 12 gears."
SCRIPTED, LINED = "scripted", "lined"
"""The models of the scripted servers: one that is plain OpenAI-shaped, and one that looks like an Ollama."""

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("local-a", num_ctx=32768),
        Model("local-b", num_ctx=32768),
        Model("tools-first", num_ctx=32768, tools_first=True),
        Model("thinking", num_ctx=32768, thinking=True),
    )
}

EVERY_PATH = ("/v1/chat/completions", "/chat/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/generate")


class Recording(FakeOllama):
    """A simulated Ollama that keeps the bytes of what it was asked, and that answers one more path."""

    def __init__(self, *models: Model):
        super().__init__(*models)
        self.bodies: list[Seen] = []

    async def respond(self, request: Any) -> Any:
        self.bodies.append(Seen(request.path, await request.read()))
        return await super().respond(request)


@dataclass(slots=True)
class Stand:
    """agent: the user agent of the test that is running."""

    gateway: GatewayProcess
    fake: Recording
    scripted: ScriptedUpstream
    lined: ScriptedUpstream
    agent: str = "nobody/1"
    _log_starts: int = field(default=0)

    def begin(self, name: str) -> None:
        """A new test: nothing is cached, nothing is recorded, everybody answers as usual."""
        self.agent = f"{name}/1"
        self.fake.bodies.clear()
        self.fake.served.clear()
        self.fake.forget()
        for server in (self.scripted, self.lined):
            server.requests.clear()
            for path in EVERY_PATH:
                server.on(path, ordinary(Reply(text=SAID)))
        self.says(SAID)
        self._log_starts = len(self.gateway.log)

    def says(self, text: str, reasoning: str = "", calls: Sequence[ToolCall] = ()) -> None:
        """What the simulated model answers from now on."""
        self.fake.answer = lambda _: Reply(text=text, reasoning=reasoning, tool_calls=tuple(calls))

    async def ask(
        self,
        path: str,
        body: Any,
        *headers: tuple[str, str],
        agent: str = "",
        raw: bytes | None = None,
        status: int = 200,
    ) -> Response:
        """One request through the gateway, read to its end. raw: these bytes in place of `body`; status: 0 is any."""
        response = await ask(self.gateway.url, path, body, *headers, agent=agent or self.agent, raw=raw)
        assert response.status == (status or response.status), response.body
        assert response.complete
        return response

    @property
    def seen(self) -> Seen:
        """The newest body that the simulated Ollama received."""
        return self.fake.bodies[-1]

    @property
    def served(self) -> Served:
        """What it reused and computed for it."""
        return self.fake.served[-1]

    @property
    def log(self) -> list[dict[str, Any]]:
        """What the gateway logged since the test began."""
        return [orjson.loads(line) for line in self.gateway.log[self._log_starts :].splitlines() if line.startswith("{")]

    def logged(self, words: str) -> list[dict[str, Any]]:
        return [line for line in self.log if words in line["message"]]


async def ask(url: str, path: str, body: Any, *headers: tuple[str, str], agent: str, raw: bytes | None = None) -> Response:
    """One request on a connection of its own."""
    request = post(path, body, ("User-Agent", agent), *headers)
    if raw is not None:
        head = post(path, {}, ("User-Agent", agent), *headers).partition(b"\r\n\r\n")[0]
        request = head.replace(b"Content-Length: 2\r\n", b"Content-Length: %d\r\n" % len(raw)) + b"\r\n\r\n" + raw
    async with asyncio.timeout(PATIENCE), RawClient(url) as client:
        await client.send(request)
        response = await client.response()
        await response.read()
    return response


@asynccontextmanager
async def standing(directory: Path, config: Mapping[str, Any] | None = None) -> AsyncIterator[Stand]:
    """The servers and the gateway. config: over the stand's own."""
    scripted, lined = ScriptedUpstream(personas.openai(SCRIPTED)), ScriptedUpstream(personas.ollama(LINED))
    async with Recording(*MODELS.values()) as fake, scripted, lined:
        backends = {
            "ollama": {"kind": "ollama", "url": fake.url, "parallel": 8},
            "scripted": {"kind": "openai", "url": scripted.url, "parallel": 8},
            "lined": {"kind": "ollama", "url": lined.url, "parallel": 8},
        }
        async with GatewayProcess(directory, {"backends": backends, **(config or {})}) as gateway:
            yield Stand(gateway, fake, scripted, lined)


async def eventually(check: Callable[[], Any], what: str) -> Any:
    """Waits until the check is true; an asynchronous one is awaited. Returns what it gave."""
    end = time.monotonic() + PATIENCE
    while True:
        found = check()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what}"
        await asyncio.sleep(0.02)
