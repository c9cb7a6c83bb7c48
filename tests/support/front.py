"""A running App with one backend that answers chats for any model, and an admin port behind the token `sesame`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway import config as configuration
from gateway.server.app import App
from gateway.server.gateway import Gateway
from tests.support.clients import Response, fetch
from tests.support.process import free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply

CHAT = "/v1/chat/completions"
TOKEN = ("Authorization", "Bearer sesame")


def answer(prompt: int = 1000, cached: int | None = 900) -> dict[str, Any]:
    """A chat's reply with its counts; cached None: not reported."""
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": 3, "total_tokens": prompt + 3}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    message = {"role": "assistant", "content": "Yes."}
    return {"id": "a", "object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": usage}


@dataclass(frozen=True, slots=True)
class Front:
    """upstream: its backend `local`; file: its configuration, for the verbs."""

    app: App
    upstream: ScriptedUpstream
    url: str
    admin: str
    file: Path

    async def ask(self, path: str, value: Any = None, *headers: tuple[str, str]) -> Response:
        """Ask the admin port, with its token."""
        return await fetch(self.admin + path, value, TOKEN, *headers)

    async def chat(self, id: str, *, agent: str = "agent/1", model: str = "tiny", system: str = "You are Pelle.") -> Response:
        body = {"model": model, "messages": [{"role": "system", "content": system}, {"role": "user", "content": "Hello"}]}
        return await fetch(self.url + CHAT, body, ("User-Agent", agent), ("X-Request-Id", id))


@asynccontextmanager
async def front(directory: Path, **more: Any) -> AsyncIterator[Front]:
    """more: top-level keys of the configuration."""
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, *json_reply(answer()))
        listen, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
        document = {
            "listen": listen,
            "admin": {"listen": admin, "token": "sesame"},
            "state_dir": "",
            "backends": {"local": {"kind": "openai", "url": upstream.url}},
            "models": {"tiny": {"targets": ["local/tiny"], "aliases": ["*"]}},
            **more,
        }
        file = directory / "warmgate.yaml"
        file.write_text(json.dumps(document))  # which is YAML too
        config = configuration.load(file, {})

        async def load() -> configuration.Config:
            return configuration.load(file, {})

        app = App(Gateway(config), load)
        await app.start()
        try:
            yield Front(app, upstream, f"http://{listen}", f"http://{admin}", file)
        finally:
            await app.stop()
