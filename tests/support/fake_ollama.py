"""An Ollama without a model: its APIs, its memory and its KV cache in tokens, so that tests can assert what was reused.

    async with FakeOllama(Model("tiny"), version="0.33.3", clock=clock) as ollama:
        ... requests to ollama.url ...
        assert ollama.served[-1].reused == ollama.served[-1].total - 1

Prompts are really rendered, cut and compared token by token; only what the model says is given (`answer`). Kept apart: what a
request asks (ollama_asks), the prompt made of it (ollama_prompt), which models are loaded (ollama_runners), what the slots
hold (kvcache), how it is told (replies). With `engine_url` a real llama.cpp server answers, counts and caches (ollama_engine).
Not simulated: images, `format`, `context`, the account and cloud routes, and the second prompt cache in host memory that newer
versions have behind their slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.clock import Clock
from tests.support import ollama_catalog, ollama_engine
from tests.support.fake_server import FakeServer, Refused, Served, json_body
from tests.support.kvcache import Lease
from tests.support.ollama_asks import READERS, Ask
from tests.support.ollama_engine import Answer
from tests.support.ollama_prompt import prompt_tokens, rendered
from tests.support.ollama_runners import Model, OllamaError, Runners, full_name
from tests.support.replies import Reply, anthropic, ollama, openai

REPORTS_CACHED = (0, 33, 1)
SHIFT_RELOADS = (0, 30, 9)
ALWAYS_CACHES = (0, 30, 8)
COUNTS_UNCACHED_ONLY = (0, 30, 0)
RUNS_LLAMA_SERVER = (0, 30, 0)
"""Versions: the first that reports cached tokens; that reloads for `shift`; that reuses with `shift: false`; the one whose
`prompt_eval_count` leaves cached tokens out; the first with a llama.cpp server as its child. Source: Ollama's release notes
and git history."""

RELOAD_MS = 2000.0


class FakeOllama(FakeServer):
    """The server. vram: bytes, None = everything fits; engine_url: of a real llama.cpp server that answers in its stead, from
    0.30 on; environment: Ollama's, see Runners."""

    def __init__(
        self,
        *models: Model,
        version: str = "0.33.3",
        clock: Clock | None = None,
        seconds_per_token: float = 0.0,
        gap: float = 0.0,
        vram: int | None = None,
        engine_url: str = "",
        **environment: Any,
    ):
        super().__init__(clock, seconds_per_token, gap)
        self.models = {full_name(model.name): model for model in models or (Model("tiny"),)}
        self.version = version
        self.vram = vram
        self.engine_url = engine_url
        if engine_url and self.since < RUNS_LLAMA_SERVER:
            raise ValueError("Ollama runs its models in a llama.cpp server since 0.30.0 only")
        self.runners = Runners(self.clock, **environment)

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
        async with self.record(request.path, body) as served:
            return await self._respond(request, body, served)

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
            if self.engine_url:
                return await self._from_engine(request, body, model, ask, served)
            prompt = prompt_tokens(model, ask, runner.num_ctx, shift)
            async with runner.cache.lease(prompt, reuse=shift or self.since >= ALWAYS_CACHES) as lease:
                served.total, served.reused, served.slot = len(prompt), lease.reused, lease.slot.number
                await lease.prefill(self.seconds_per_token)
                reply = self._reply(request.path, body, model, ask, lease)
                if len(self.runners.loads) > loads:
                    reply = replace(reply, load_ms=RELOAD_MS)
                response = await self.send(request, body, reply)
                lease.generated(reply.reasoning + reply.text)
                return response

    def _reply(self, path: str, body: Mapping[str, Any], model: Model, ask: Ask, lease: Lease) -> Reply:
        """What the model says, with what this version reports about the prompt."""
        thinking = model.thinking and ask.think is not False
        told = self.told(path, body, ask, lease, cached=self._reported(path, lease.reused), thinking=thinking)
        counted = self._counted(told.prompt, lease.reused)
        return replace(told, prompt=counted, **_ways(path))

    def _reported(self, path: str, reused: int) -> int | None:
        return reused if self.since >= REPORTS_CACHED else (0 if path == "/v1/responses" else None)

    def _counted(self, prompt: int, reused: int) -> int:
        return prompt - reused if self.since == COUNTS_UNCACHED_ONLY else prompt

    async def events(self, request: web.Request, reply: Reply) -> Iterable[bytes]:
        return self._events(request.path, reply, len(await request.read()))

    def _events(self, path: str, reply: Reply, size: int) -> list[bytes]:
        """size: bytes of the request, from which Ollama guesses the tokens that it tells Anthropic's clients first."""
        return anthropic.stream(reply, estimate=size // 4) if path == "/v1/messages" else self.shapes[path].stream(reply)

    # answering by a real server

    async def _from_engine(
        self, request: web.Request, body: Mapping[str, Any], model: Model, ask: Ask, served: Served
    ) -> web.StreamResponse:
        """Each word is passed on when it is there; the headers come with the first."""
        shape, size = self.shapes[request.path], len(await request.read())
        streaming = shape.wants_stream(body)

        def reply(answer: Answer) -> Reply:
            served.total, served.reused = answer.prompt, answer.cached
            return ollama_engine.reply_of(
                answer,
                model=body["model"],
                prompt=self._counted(answer.prompt, answer.cached),
                cached=self._reported(request.path, answer.cached),
                usage=shape.tells_usage(body) or not streaming,
                **_ways(request.path),
            )

        async with aclosing(ollama_engine.answers(self.engine_url, model, ask)) as coming:
            if not streaming:
                return web.json_response(body=shape.document(reply([answer async for answer in coming][-1])))
            response = web.StreamResponse(headers={"Content-Type": shape.content_type})
            async for event in ollama_engine.events(coming, lambda answer: self._events(request.path, reply(answer), size)):
                if not response.prepared:
                    await response.prepare(request)
                await self.write_one(response, event)
        await response.write_eof()
        return response

    # the server's own words

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [*(web.post(path, self.respond) for path in READERS), *ollama_catalog.routes(self)]

    def refusal(self, request: web.Request, error: Refused) -> web.Response:
        return web.json_response(body=error_body(request.path, error.status, str(error)), status=error.status)

    def unknown(self, request: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found")

    def forget(self) -> None:
        """Every model and every cached prefix is gone."""
        self.runners.forget()


def _ways(path: str) -> dict[str, Any]:
    """How it writes a reply. Source: Ollama's openai/openai.go: the first chunk has role and content, a call comes whole."""
    return {"role_alone": False, "reasoning_key": "reasoning", "whole_tool_calls": path.startswith("/v1")}


def refuse(model: Model, ask: Ask, *, lenient: bool) -> None:
    """What a model is asked for and cannot do. lenient: reasoning asked of a model that has none is overlooked."""
    if model.embedding:
        raise OllamaError(400, f'"{model.name}" does not support generate')
    if ask.tools and not model.tools:
        raise OllamaError(400, f"registry.ollama.ai/library/{model.name} does not support tools")
    if ask.think and not model.thinking and not lenient:
        raise OllamaError(400, f'"{model.name}" does not support thinking')


def error_body(path: str, status: int, message: str) -> bytes:
    """Source: Ollama's server/routes.go, openai/openai.go, anthropic/."""
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    if path == "/v1/messages":
        return anthropic.error(message, "overloaded_error" if status == 503 else kind)
    return openai.error(message, kind) if path.startswith("/v1/") else ollama.error(message)
