"""Stands between the gateway and a real server: writes down what is asked, and answers some of it in its own way.

async with Tap(engine.url) as tap:
    tap.instead("/slots", missing)              # an aiohttp handler; `await tap.passed_on(request)` asks the real one
    ...
    assert tap.pinned == []
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ANSWERS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
"""What clients ask here. `/completion` is how the gateway itself runs a word or two."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One request. at: monotonic seconds; body: parsed, None without one."""

    method: str
    path: str
    query: str
    body: Any
    at: float

    @property
    def slot(self) -> Any:
        return self.body.get("id_slot") if isinstance(self.body, dict) else None


class Tap:
    """One writer of `heard`: the requests, in the order in which their bodies were complete."""

    def __init__(self, url: str):
        self._url = url
        self._instead: dict[str, Handler] = {}
        self.heard: list[Heard] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def instead(self, path: str, handler: Handler) -> None:
        """This answers requests to the path from now on; those to paths below it, too."""
        self._instead[path] = handler

    def again(self, path: str) -> None:
        """The real server answers them again."""
        del self._instead[path]

    # what was heard

    @property
    def asked(self) -> list[Heard]:
        """Those for an answer of the model."""
        return [one for one in self.heard if one.path in ANSWERS]

    @property
    def pinned(self) -> list[Heard]:
        return [one for one in self.asked if one.slot is not None]

    def slot_orders(self, action: str) -> list[Heard]:
        return [one for one in self.heard if one.path.startswith("/slots/") and f"action={action}" in one.query]

    # answering

    async def passed_on(self, request: web.Request) -> web.StreamResponse:
        """The real server's answer, as it comes. Who leaves is left there, too."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")}
        body = await request.read()
        async with self._session.request(
            request.method, self._url + request.path_qs, headers=headers, data=body or None, allow_redirects=False
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]})
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        parsed = orjson.loads(raw) if raw else None
        self.heard.append(Heard(request.method, request.path, request.query_string, parsed, time.monotonic()))
        places = (request.path, request.path.rpartition("/")[0])
        handler = next((self._instead[place] for place in places if place in self._instead), self.passed_on)
        return await handler(request)

    # life

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(force_close=True))
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._session.close()
