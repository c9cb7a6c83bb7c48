"""An oMLX without a model: several models in and out of memory, paged caches of 256 tokens, some of it on disk, keep-alives.

    async with FakeOmlx("a", "b", ssd=True) as omlx:
        await fetch(f"{omlx.url}/v1/models/a/load", {})
        ...

Sources: oMLX's README and omlx/server.py. Time to live comes from the injected clock: nothing runs in the background, what has
expired is dropped when somebody looks. Not simulated: the admin pages, profiles, embeddings, images, the memory guard.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from gateway.clock import Clock
from tests.support.blockcache import BlockCache, Work
from tests.support.fake_server import FakeServer, Refused, Served, json_body
from tests.support.ollama_asks import Ask
from tests.support.openai_asks import PATHS, prompt_tokens, read
from tests.support.replies import anthropic
from tests.support.replies.reply import CREATED

BLOCK = 256
REPORTS_ON_MESSAGES = (0, 5, 4)
"""The version that first tells cached tokens in Anthropic's usage."""

ERRORS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
SSE_KEEPALIVE = b": keep-alive\n\n"
JSON_KEEPALIVE = b" "


@dataclass(slots=True)
class Loaded:
    """A model in memory. used: wall clock of its last request; users: requests that are running."""

    name: str
    used: float
    users: int = 0


class FakeOmlx(FakeServer):
    """models: names; max_loaded: models in memory, the longest unused goes; pinned: never goes; too_large: cannot be loaded;
    ttl: seconds without a request after which a model goes, None = never; ssd: caches survive unloading and restarts; key:
    asked for everywhere but on `/health`; keepalive: real seconds between signs of life during a prefill, None = none; settle:
    real seconds from the end of a prefill until others find what it has computed (its issue 1731: too late for the next one).

    loads, unloads: names in order; ready: False while pinned models are loaded at start-up.
    """

    def __init__(
        self,
        *models: str,
        version: str = "0.7.0",
        max_loaded: int = 2,
        pinned: Iterable[str] = (),
        too_large: Iterable[str] = (),
        ttl: float | None = None,
        ssd: bool = False,
        key: str = "",
        context: int = 32768,
        keepalive: float | None = None,
        settle: float = 0.0,
        clock: Clock | None = None,
        seconds_per_token: float = 0.0,
        gap: float = 0.0,
    ):
        super().__init__(clock, seconds_per_token, gap)
        self.models, self.pinned, self.too_large = models or ("tiny",), set(pinned), set(too_large)
        self.since = tuple(map(int, version.split(".")[:3]))
        self.max_loaded, self.ttl, self.ssd, self.key, self.context = max_loaded, ttl, ssd, key, context
        self.keepalive = keepalive
        self.ready = True
        self.loads: list[str] = []
        self.unloads: list[str] = []
        self._loaded: dict[str, Loaded] = {}
        self.caches = {name: BlockCache(BLOCK, settle=settle) for name in self.models}

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [
            web.get("/health", self.health),
            web.get("/v1/models", self.list_models),
            web.get("/v1/models/status", self.status),
            web.post("/v1/models/{name:.+}/load", self.load_model),
            web.post("/v1/models/{name:.+}/unload", self.unload_model),
            *(web.post(path, self.respond) for path in PATHS),
        ]

    # residency

    @property
    def loaded(self) -> dict[str, Loaded]:
        """What is in memory now, the longest unused first."""
        for model in list(self._loaded.values()):
            idle = self.clock.wall() - model.used
            if self.ttl is not None and not model.users and model.name not in self.pinned and idle >= self.ttl:
                self._drop(model.name)
        return dict(sorted(self._loaded.items(), key=lambda item: item[1].used))

    def _load(self, name: str) -> Loaded:
        """Raises Refused 404, 507 (too large, or no room beside what is pinned or at work)."""
        if name not in self.models:
            raise Refused(404, f"Model not found: {name}")
        loaded = self.loaded
        if name not in loaded:
            if name in self.too_large:
                raise Refused(507, f"Model too large: {name}")
            while len(loaded) >= self.max_loaded:
                idle = next((m.name for m in loaded.values() if not m.users and m.name not in self.pinned), None)
                if idle is None:
                    raise Refused(507, f"Insufficient memory for {name}")
                self._drop(idle)
                loaded = self.loaded
            self._loaded[name] = Loaded(name, self.clock.wall())
            self.loads.append(name)
        return self._loaded[name]

    def _drop(self, name: str) -> None:
        del self._loaded[name]
        self.unloads.append(name)
        if not self.ssd:
            self.caches[name].clear()

    # answering

    async def respond(self, request: web.Request) -> web.StreamResponse:
        body = await json_body(request)
        async with self.record(request.path, body) as served:
            model = self._load(str(body.get("model")))
            model.users += 1
            try:
                return await self._respond(request, body, served, self.caches[model.name])
            finally:
                model.users -= 1
                model.used = self.clock.wall()

    async def _respond(
        self, request: web.Request, body: Mapping[str, Any], served: Served, cache: BlockCache
    ) -> web.StreamResponse:
        ask = read(request.path, body)
        async with cache.lease(prompt_tokens(ask, self.context)) as work:
            served.total, served.reused = len(work.prompt), work.reused
            if self.keepalive is not None:
                return await self._with_signs_of_life(request, body, ask, work)
            await work.prefill(self.seconds_per_token)
            reply = self.told(request.path, body, ask, work, cached=self._reported(request.path, work))
            response = await self.send(request, body, reply)
            work.generated(reply.reasoning + reply.text)
            return response

    async def _with_signs_of_life(
        self, request: web.Request, body: Mapping[str, Any], ask: Ask, work: Work
    ) -> web.StreamResponse:
        """Headers at once; comments between events, or spaces before a document, until the prompt is evaluated."""
        shape = self.shapes[request.path]
        streaming = shape.wants_stream(body)
        response = web.StreamResponse(headers={"Content-Type": shape.content_type if streaming else "application/json"})
        await response.prepare(request)
        prefill = asyncio.ensure_future(work.prefill(self.seconds_per_token))
        try:
            while not (await asyncio.wait({prefill}, timeout=self.keepalive))[0]:
                await response.write(SSE_KEEPALIVE if streaming else JSON_KEEPALIVE)
        finally:
            prefill.cancel()
        reply = self.told(request.path, body, ask, work, cached=self._reported(request.path, work))
        await self.write(response, shape.stream(reply) if streaming else [shape.document(reply)])
        work.generated(reply.reasoning + reply.text)
        return response

    def _reported(self, path: str, work: Work) -> int | None:
        return None if path == "/v1/messages" and self.since < REPORTS_ON_MESSAGES else work.reused

    # beside the answers

    async def health(self, request: web.Request) -> web.Response:
        pool = {"model_count": len(self.models), "loaded_count": len(self.loaded), "current_model_memory": 0}
        body = {"status": "healthy" if self.ready else "loading", "default_model": self.models[0], "engine_pool": pool}
        return web.json_response(body | {"mcp": None}, status=200 if self.ready else 503)

    async def list_models(self, request: web.Request) -> web.Response:
        rows = [
            {"id": name, "object": "model", "created": CREATED, "owned_by": "omlx", "max_model_len": self.context}
            for name in self.models
        ]
        return web.json_response({"object": "list", "data": rows})

    async def status(self, request: web.Request) -> web.Response:
        loaded = self.loaded
        rows = [self._status(name, loaded.get(name)) for name in self.models]
        return web.json_response({"model_count": len(rows), "loaded_count": len(loaded), "models": rows})

    def _status(self, name: str, loaded: Loaded | None) -> dict[str, Any]:
        return {
            "id": name,
            "loaded": loaded is not None,
            "is_loading": False,
            "estimated_size": 1_000_000_000,
            "actual_size": 1_000_000_000 if loaded else 0,
            "pinned": name in self.pinned,
            "engine_type": "batched",
            "max_context_window": self.context,
            "last_access": loaded.used if loaded else None,
        }

    async def load_model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        done = "Already loaded:" if name in self.loaded else "Loaded"
        self._load(name)
        return web.json_response({"status": "ok", "model_id": name, "message": f"{done} {name}"})

    async def unload_model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.models:
            raise Refused(404, f"Model not found: {name}")
        if name not in self.loaded:
            raise Refused(400, f"Model not loaded: {name}")
        self._drop(name)
        return web.json_response({"status": "ok", "model_id": name})

    # the server's own words

    def guard(self, request: web.Request) -> None:
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        if self.key and request.path != "/health" and not hmac.compare_digest(sent, self.key):
            raise Refused(401, "API key required")

    def refusal(self, request: web.Request, error: Refused) -> web.Response:
        kind = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}.get(
            error.status, "server_error"
        )
        body = orjson.dumps({"error": {"message": str(error), "type": kind, "param": None, "code": None}})
        body = anthropic.error(str(error), kind) if request.path == "/v1/messages" else body
        return web.json_response(body=body, status=error.status)

    def unknown(self, request: web.Request) -> web.Response:
        return web.json_response({"detail": "Not Found"}, status=404)

    def forget(self) -> None:
        """Models are gone; what is on disk stays."""
        self._loaded.clear()
        if not self.ssd:
            for cache in self.caches.values():
                cache.clear()
