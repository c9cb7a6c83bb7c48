"""An Ollama without a model: its APIs, its memory and its KV cache in tokens, so that tests can assert what was reused.

    async with FakeOllama(Model("tiny"), version="0.33.3", clock=clock) as ollama:
        ... requests to ollama.url ...
        assert ollama.served[-1].reused == ollama.served[-1].total - 1

Prompts are really rendered, cut and compared token by token; only what the model says is given (`answer`). Kept apart: what a
request asks (ollama_asks), the prompt made of it (ollama_prompt), which models are loaded (ollama_runners), what the slots
hold (kvcache), how it is told (replies). Not simulated: images, `format`, `context`, the account and cloud routes, and the
second prompt cache in host memory that newer versions have behind their slots.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

from aiohttp import web

from gateway.clock import Clock, SystemClock
from tests.support import ollama_catalog
from tests.support.kvcache import Lease, tokenize
from tests.support.ollama_asks import READERS, Ask
from tests.support.ollama_http import json_body, tell_errors
from tests.support.ollama_prompt import prompt_tokens, rendered
from tests.support.ollama_runners import Model, OllamaError, Runners, full_name
from tests.support.replies import SHAPES, Reply, anthropic, ollama
from tests.support.replies.reply import NOMINAL_MS

REPORTS_CACHED = (0, 33, 1)
SHIFT_RELOADS = (0, 30, 9)
ALWAYS_CACHES = (0, 30, 8)
COUNTS_UNCACHED_ONLY = (0, 30, 0)
"""Versions: the first that reports cached tokens; that reloads for `shift`; that reuses with `shift: false`; and the one whose
`prompt_eval_count` leaves cached tokens out. Source: Ollama's release notes and git history."""

RELOAD_MS = 2000.0


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


class FakeOllama:
    """The server. Constructor arguments after `clock` are Ollama's environment: see Runners.

    answer: what the model says to a request; seconds_per_token: real seconds that each evaluated prompt token takes;
    gap: real seconds between streamed events; vram: bytes, None = everything fits.
    """

    def __init__(
        self,
        *models: Model,
        version: str = "0.33.3",
        clock: Clock | None = None,
        seconds_per_token: float = 0.0,
        gap: float = 0.0,
        vram: int | None = None,
        **environment: Any,
    ):
        self.models = {full_name(model.name): model for model in models or (Model("tiny"),)}
        self.version = version
        self.clock: Clock = clock or SystemClock()
        self.seconds_per_token = seconds_per_token
        self.gap = gap
        self.vram = vram
        self.runners = Runners(self.clock, **environment)
        self.served: list[Served] = []
        self.answer: Callable[[Ask], Reply] = lambda ask: Reply()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def since(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", self.version)[:3]))

    def find(self, name: Any) -> Model:
        """Raises OllamaError: 400 without a name, 404 for a model that is not there."""
        if not isinstance(name, str) or not name:
            raise OllamaError(400, "model is required")
        if full_name(name) not in self.models:
            raise OllamaError(404, f"model '{name}' not found")
        return self.models[full_name(name)]

    def load_options(self, model: Model, options: Mapping[str, Any], shift: bool) -> dict[str, Any]:
        return self.runners.load_options(model, options, shift if self.since >= SHIFT_RELOADS else None)

    # answering

    async def respond(self, request: web.Request) -> web.StreamResponse:
        body = await json_body(request)
        served = Served(request.path, body, self.clock.now())
        self.served.append(served)
        try:
            response = await self._respond(request, body, served)
            served.outcome = "done"
        except (asyncio.CancelledError, ConnectionError):
            served.outcome = "cancelled"
            raise
        except OllamaError:
            served.outcome = "failed"
            raise
        return response

    async def _respond(self, request: web.Request, body: Mapping[str, Any], served: Served) -> web.StreamResponse:
        model, ask = self.find(body.get("model")), READERS[request.path](body)
        refuse(model, ask, lenient=request.path == "/v1/messages")
        shift = model.shift if ask.shift is None else ask.shift
        wanted = self.load_options(model, ask.options, shift)
        if ask.empty and ask.keep_alive == 0:
            self.runners.unload(model)
            return web.json_response(body=ollama.loaded(body["model"], request.path, "unload"))
        loads = len(self.runners.loads)
        async with self.runners.use(model, wanted, ask.keep_alive) as runner:
            if ask.empty:
                return web.json_response(body=ollama.loaded(body["model"], request.path, "load"))
            if body.get("_debug_render_only") is True:
                info = {"rendered_template": rendered(model, ask), "image_count": 0}
                return web.json_response({"model": body["model"], "created_at": ollama.CREATED_AT, "_debug_info": info})
            prompt = prompt_tokens(model, ask, runner.num_ctx, shift)
            async with runner.cache.lease(prompt, reuse=shift or self.since >= ALWAYS_CACHES) as lease:
                served.total, served.reused, served.slot = len(prompt), lease.reused, lease.slot.number
                await lease.prefill(self.seconds_per_token)
                reply = self._reply(request.path, body, model, ask, lease)
                if len(self.runners.loads) > loads:
                    reply = replace(reply, load_ms=RELOAD_MS)
                response = await self._send(request, body, reply)
                lease.generated(reply.reasoning + reply.text)
                return response

    def _reply(self, path: str, body: Mapping[str, Any], model: Model, ask: Ask, lease: Lease) -> Reply:
        """What the model says, cut to the limit, with what this version reports about the prompt."""
        total, reused = len(lease.prompt), lease.reused
        cached = reused if self.since >= REPORTS_CACHED else (0 if path == "/v1/responses" else None)
        said = limited(self.answer(ask), ask.limit, thinking=model.thinking and ask.think is not False)
        return replace(
            said,
            model=body["model"],
            prompt=total - reused if self.since == COUNTS_UNCACHED_ONLY else total,
            cached=cached,
            usage=SHAPES[path].tells_usage(body) or not SHAPES[path].wants_stream(body),
            prefill_ms=(total - reused) * (self.seconds_per_token * 1000 or NOMINAL_MS),
            reasoning_key="reasoning",
            whole_tool_calls=path.startswith("/v1"),
        )

    async def _send(self, request: web.Request, body: Mapping[str, Any], reply: Reply) -> web.StreamResponse:
        """Nothing is sent before the prompt is evaluated, not even headers."""
        shape = SHAPES[request.path]
        if not shape.wants_stream(body):
            return web.json_response(body=shape.document(reply))
        events = shape.stream(reply)
        if request.path == "/v1/messages":
            events = anthropic.stream(reply, estimate=len(await request.read()) // 4)
        return await self.stream(request, events, shape.content_type)

    async def stream(self, request: web.Request, events: list[bytes], content_type: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        for event in events:
            await response.write(event)
            if self.gap:
                await asyncio.sleep(self.gap)
        await response.write_eof()
        return response

    # life

    async def start(self) -> None:
        app = web.Application(middlewares=[tell_errors], client_max_size=64 * 2**20)
        for path in READERS:
            app.router.add_post(path, self.respond)
        ollama_catalog.add_routes(app, self)
        self._app_runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._app_runner.setup()
        site = web.TCPSite(self._app_runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._app_runner.addresses[0][1]

    async def stop(self) -> None:
        await self._app_runner.cleanup()

    async def restart(self) -> None:
        """The process ends and comes back on its port: every model and every cached prefix is gone."""
        await self.stop()
        self.runners.forget()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def refuse(model: Model, ask: Ask, *, lenient: bool) -> None:
    """What a model is asked for and cannot do. lenient: reasoning asked of a model that has none is overlooked."""
    if model.embedding:
        raise OllamaError(400, f'"{model.name}" does not support generate')
    if ask.tools and not model.tools:
        raise OllamaError(400, f"registry.ollama.ai/library/{model.name} does not support tools")
    if ask.think and not model.thinking and not lenient:
        raise OllamaError(400, f'"{model.name}" does not support thinking')


def limited(reply: Reply, limit: int, *, thinking: bool) -> Reply:
    """The reply cut to `limit` tokens, reasoning first; 0 and less is no limit (0 is not a way to only prefill)."""
    reasoning, text = tokenize(reply.reasoning) if thinking else [], tokenize(reply.text)
    said = len(reasoning) + len(text)
    if 0 < limit < said:
        reasoning, text = reasoning[:limit], text[: max(limit - len(reasoning), 0)]
        reply = replace(reply, tool_calls=(), finish="length")
        said = limit
    return replace(reply, reasoning="".join(reasoning), text="".join(text), completion=max(said, 1))
