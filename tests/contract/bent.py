"""A server that is almost right: a relay in front of another, which bends the replies to one path.

async with Bent(fake.url, "/v1/models", replaced(b"max_model_len", b"max_len")) as bent:
    report = await examine(bent.url, only=["models-openai"])
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

Change = Callable[[int, bytes], tuple[int, bytes]]
"""Status and body -> what the client gets instead."""


class Bent:
    """path: whose replies are bent, '' = none. Replies are passed on whole, so that no time can be measured through it."""

    def __init__(self, url: str, path: str, change: Change):
        self._to, self._path, self._change = url, path, change
        self.url = ""

    async def _relay(self, request: web.Request) -> web.Response:
        headers = {name: request.headers[name] for name in ("Content-Type", "Authorization") if name in request.headers}
        asked = self._session.request(request.method, self._to + request.path_qs, data=await request.read(), headers=headers)
        async with asked as reply:
            status, body = reply.status, await reply.read()
            if request.path == self._path:
                status, body = self._change(status, body)
            return web.Response(status=status, body=body, headers={"Content-Type": reply.headers.get("Content-Type", "")})

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._relay)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()


def straight(status: int, body: bytes) -> tuple[int, bytes]:
    """Nothing is bent."""
    return status, body


def replaced(pattern: bytes, by: bytes) -> Change:
    """by: as for re.sub."""
    return lambda status, body: (status, re.sub(pattern, by, body))


def answered_with(status: int) -> Change:
    return lambda _, body: (status, body)


def restless() -> Change:
    """Each reply differs from the one before it."""
    count = iter(range(1, 100))
    return lambda status, body: (status, body.replace(b'"last_access": null', b'"last_access": %d' % next(count)))
