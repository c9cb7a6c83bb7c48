"""Where a backend is full, the next request goes to one that takes it at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support import personas
from tests.support.clients import fetch
from tests.support.process import GatewayProcess
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply, wait

CHAT = "/v1/chat/completions"


async def test_nobody_waits_where_another_takes_it_at_once(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with ScriptedUpstream(personas.openai("m")) as narrow, ScriptedUpstream(personas.openai("m")) as wide:
        for server in (narrow, wide):
            server.on(CHAT, wait(go), *json_reply({"choices": []}))
        backends = {
            "narrow": {"url": narrow.url, "kind": "openai", "parallel": 1},
            "wide": {"url": wide.url, "kind": "openai"},
        }
        async with GatewayProcess(tmp_path, {"backends": backends}) as gateway:
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            asking = []
            for turn in range(4):  # narrow, wide, wide, wide
                asking.append(asyncio.create_task(fetch(gateway.url + CHAT, body)))
                async with asyncio.timeout(10):
                    while await busy(gateway) < turn + 1:
                        await asyncio.sleep(0.01)
            assert (len(narrow.asked(CHAT)), len(wide.asked(CHAT))) == (1, 3)
            go.set()
            assert [response.status for response in await asyncio.gather(*asking)] == [200] * 4


async def busy(gateway: GatewayProcess) -> int:
    """Requests that work or wait."""
    backends = (await fetch(f"{gateway.admin}/status")).json()["backends"]
    return sum(backend["in_flight"] + backend["waiting"] for backend in backends)
