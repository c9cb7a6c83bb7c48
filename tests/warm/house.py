"""A real llama.cpp server behind the real gateway, and an agent whose head is learned and read ahead."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from gateway.engine.server import EngineServer
from tests.explain.stand import RULES, TOOLS
from tests.support.clients import Response, fetch
from tests.support.process import GatewayProcess

CHAT = "/v1/chat/completions"
RATE = "300/s"


def head(name: str, paragraphs: int = 6) -> str:
    """A system text of about 450 tokens a paragraph on the tiny model."""
    return "\n\n".join(
        (f"You are {name}, a careful helper for a small lab.", *(f"{name}, part {n}.\n{RULES}" for n in range(paragraphs)))
    )


def body(name: str, text: str, paragraphs: int = 6) -> dict[str, Any]:
    messages = [{"role": "system", "content": head(name, paragraphs)}, {"role": "user", "content": text}]
    return {"model": "tiny", "messages": messages, "tools": TOOLS[:2], "max_tokens": 4, "temperature": 0}


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of one prompt, by the server's own count."""

    prompt: int
    cached: int

    @property
    def share(self) -> float:
        return self.cached / self.prompt


async def ask(url: str, name: str, text: str, paragraphs: int = 6) -> Counted:
    response: Response = await fetch(url + CHAT, body(name, text, paragraphs), within=120)
    assert response.status == 200, response.body
    timings = response.json()["timings"]
    return Counted(timings["cache_n"] + timings["prompt_n"], timings["cache_n"])


async def pins(gateway: GatewayProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await fetch(f"{gateway.admin}/warm")).json()["pins"]
    return found


async def warm(gateway: GatewayProcess, *outcomes: str, within: float = 45.0, since: float = 0.0) -> dict[str, Any]:
    """Wait until the one pin is warm, by a warm-up that came out so if any outcome is given, and ended after `since`."""

    async def is_warm() -> dict[str, Any] | None:
        found = await pins(gateway)
        if not found or not found[0]["warm"] or found[0]["running"]:
            return None
        last = found[0]["last"]
        return found[0] if not outcomes or (last and last["outcome"] in outcomes and last["at"] > since) else None

    end = time.monotonic() + within
    while (found := await is_warm()) is None:
        assert time.monotonic() < end, await pins(gateway)
        await asyncio.sleep(0.1)
    return found


async def read_ahead(gateway: GatewayProcess, within: float = 45.0) -> dict[str, Any]:
    """Wait until there was a warm-up of the one pin. Returns what came of it."""
    async with asyncio.timeout(within):
        while True:
            found = await pins(gateway)
            if found and found[0]["last"] and not found[0]["running"]:
                return dict(found[0]["last"])
            await asyncio.sleep(0.1)


async def learn(gateway: GatewayProcess, name: str = "Pelle", paragraphs: int = 6) -> Counted:
    """Three requests that begin alike. Returns the count of the last."""
    for text in ("List tray 1.", "List tray 2 and 3.", "And the others?"):
        counted = await ask(gateway.url, name, text, paragraphs)
    return counted


def config(server: EngineServer, **more: Any) -> dict[str, Any]:
    return {"backends": {"llama": {"kind": "llamacpp", "url": server.url, "prefill_rate": RATE}}, **more}


async def restart(server: EngineServer) -> None:
    await asyncio.to_thread(server.restart)
