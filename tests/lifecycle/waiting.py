"""What the tests of this folder share: requests to send, and waiting for something to become true instead of sleeping."""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.clients import post
from tests.support.process import GatewayProcess

CHAT = "/v1/chat/completions"


def ask(*, stream: bool = True, model: str = "tiny") -> bytes:
    """A chat request as raw bytes."""
    return post(CHAT, body(stream=stream, model=model))


def body(*, stream: bool = True, model: str = "tiny") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}


async def until(happened: Callable[[], Awaitable[bool]], within: float = 5.0, pause: float = 0.02) -> bool:
    """Whether it became true in so many seconds."""
    end = time.monotonic() + within
    while not await happened():
        if time.monotonic() > end:
            return False
        await sleep(pause)
    return True


async def quiet(gateway: GatewayProcess, within: float = 5.0) -> bool:
    """Whether no request is in flight any more, as the metrics tell it."""

    async def idle() -> bool:
        return (await gateway.metrics()).value("warmgate_inflight") == 0

    return await until(idle, within)


async def count(gateway: GatewayProcess, **labels: str) -> float:
    """Finished requests with these labels."""
    return (await gateway.metrics()).value("warmgate_requests_total", **labels)
