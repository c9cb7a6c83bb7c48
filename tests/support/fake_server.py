"""What all simulated servers have in common: a life on a loopback port, a record of each request, errors as exceptions, and
replies that are cut to the limit that was asked for and tell what was reused. A server adds its paths, its caches, its words.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import orjson
from aiohttp import web

from gateway.clock import Clock, SystemClock
from tests.support.kvcache import tokenize
from tests.support.replies import SHAPES, Reply, Shape
from tests.support.replies.reply import NOMINAL_MS

if TYPE_CHECKING:
    from tests.support.ollama_asks import Ask


class Refused(Exception):
    """An error that the caller is told about, in the shape of the API that it uses."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Served:
    """One request for an answer. total, reused: prompt tokens; both 0 for an empty request. at: monotonic, injected clock."""

    path: str
    body: Mapping[str, Any]
    at: float
    total: int = 0
    reused: int = 0
    slot: int | None = None
    outcome: Literal["running", "done", "cancelled", "failed"] = "running"

    @property
    def evaluated(self) -> int:
        return self.total - self.reused


class AtWork(Protocol):
    """A prompt that is being worked on, whatever kind of cache it uses."""

    prompt: list[str]
    reused: int


class FakeServer:
    """answer: what the model says to a request; seconds_per_token: real seconds that each evaluated prompt token takes;
    gap: real seconds between streamed events. One writer of `served`: the requests, each of its own row."""

    shapes: ClassVar[Mapping[str, Shape]] = SHAPES

    def __init__(self, clock: Clock | None = None, seconds_per_token: float = 0.0, gap: float = 0.0):
        self.clock: Clock = clock or SystemClock()
        self.seconds_per_token = seconds_per_token
        self.gap = gap
        self.served: list[Served] = []
        self.answer: Callable[[Ask], Reply] = lambda ask: Reply()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # what a server says for itself

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        raise NotImplementedError

    def refusal(self, request: web.Request, error: Refused) -> web.Response:
        """An error in the shape of the API that was used."""
        raise NotImplementedError

    def unknown(self, request: web.Request) -> web.Response:
        """The answer to a path or method that it does not have."""
        raise NotImplementedError

    def forget(self) -> None:
        """The process has ended: what is lost."""
        raise NotImplementedError

    def guard(self, request: web.Request) -> None:
        """Raises Refused 401 without a key that this path needs."""

    # answering

    @asynccontextmanager
    async def record(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Served]:
        served = Served(path, body, self.clock.now())
        self.served.append(served)
        try:
            yield served
            served.outcome = "done" if served.outcome == "running" else served.outcome
        except (asyncio.CancelledError, ConnectionError):
            served.outcome = "cancelled"
            raise
        except Refused:
            served.outcome = "failed"
            raise

    def told(
        self, path: str, body: Mapping[str, Any], ask: Ask, work: AtWork, *, cached: int | None, thinking: bool = True
    ) -> Reply:
        """What the model says, cut to the limit, and what is reported about it. cached: None = not reported."""
        shape = self.shapes[path]
        return replace(
            limited(self.answer(ask), ask.limit, thinking=thinking),
            model=body["model"],
            prompt=len(work.prompt),
            cached=cached,
            usage=shape.tells_usage(body) or not shape.wants_stream(body),
            prefill_ms=(len(work.prompt) - work.reused) * (self.seconds_per_token * 1000 or NOMINAL_MS),
        )

    async def events(self, request: web.Request, reply: Reply) -> Iterable[bytes]:
        return self.shapes[request.path].stream(reply)

    def document(self, request: web.Request, reply: Reply) -> bytes:
        return self.shapes[request.path].document(reply)

    async def send(self, request: web.Request, body: Mapping[str, Any], reply: Reply) -> web.StreamResponse:
        """Nothing is sent before this, not even headers."""
        shape = self.shapes[request.path]
        if not shape.wants_stream(body):
            return web.json_response(body=self.document(request, reply))
        return await self.stream(request, await self.events(request, reply), shape.content_type)

    async def stream(self, request: web.Request, events: Iterable[bytes], content_type: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        await self.write(response, events)
        return response

    async def write(self, response: web.StreamResponse, events: Iterable[bytes]) -> None:
        """The events and the end of the body. Each event is asked for when the one before it has been sent."""
        for event in events:
            await self.write_one(response, event)
        await response.write_eof()

    async def write_one(self, response: web.StreamResponse, event: bytes) -> None:
        await response.write(event)
        if self.gap:
            await asyncio.sleep(self.gap)

    # life

    async def start(self) -> None:
        app = web.Application(middlewares=[self._tell_errors], client_max_size=64 * 2**20)
        app.add_routes(self.routes())
        self._app_runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._app_runner.setup()
        site = web.TCPSite(self._app_runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._app_runner.addresses[0][1]

    async def stop(self) -> None:
        await self._app_runner.cleanup()

    async def restart(self) -> None:
        """The process ends and comes back on its port."""
        await self.stop()
        self.forget()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @web.middleware
    async def _tell_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self.guard(request)
            return await handler(request)
        except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
            return self.unknown(request)
        except Refused as error:
            return self.refusal(request, error)


async def json_body(request: web.Request) -> dict[str, Any]:
    """Raises Refused 400."""
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        raise Refused(400, "invalid character in the request body") from None
    if not isinstance(body, dict):
        raise Refused(400, "the request body is not an object")
    return body


def limited(reply: Reply, limit: int, *, thinking: bool) -> Reply:
    """The reply cut to `limit` tokens, reasoning first; 0 and less is no limit (0 is not a way to only prefill)."""
    reasoning, text = tokenize(reply.reasoning) if thinking else [], tokenize(reply.text)
    said = len(reasoning) + len(text)
    if 0 < limit < said:
        reasoning, text = reasoning[:limit], text[: max(limit - len(reasoning), 0)]
        reply = replace(reply, tool_calls=(), finish="length")
        said = limit
    return replace(reply, reasoning="".join(reasoning), text="".join(text), completion=max(said, 1))
