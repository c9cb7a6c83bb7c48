"""A vLLM without a model: one name, a block cache of 16 tokens, its metrics, its tokenizer, its sleep mode.

    async with FakeVllm(details=True) as vllm:
        ... requests to vllm.url ...
        assert vllm.served[-1].reused % 16 == 0

Sources: vLLM's docs (prefix caching, sleep mode, metrics) and vllm/entrypoints. Not simulated: images, adapters, priorities,
preemption. A request to a sleeping server is refused with 503, as its documentation of the sleep mode says.
"""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from aiohttp import web

from gateway.clock import Clock
from tests.support.blockcache import BlockCache
from tests.support.fake_server import FakeServer, Refused, json_body
from tests.support.kvcache import tokenize
from tests.support.openai_asks import PATHS, limit_of, prompt_tokens, read
from tests.support.replies.reply import CREATED

BLOCK = 16
ERRORS = {400: "BadRequestError", 401: "Unauthorized", 404: "NotFoundError", 503: "ServiceUnavailableError"}

METRICS: Mapping[str, str] = {
    "vllm:prefix_cache_queries_total": "counter",
    "vllm:prefix_cache_hits_total": "counter",
    "vllm:prompt_tokens_total": "counter",
    "vllm:generation_tokens_total": "counter",
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
}
"""Names in `/metrics` and their types. Queries and hits of the prefix cache are tokens, not requests."""


class FakeVllm(FakeServer):
    """model: the only name that is served; max_model_len: tokens; blocks: of the cache; details: started with
    `--enable-prompt-tokens-details`; dev: in development mode with sleep mode; key: asked for on /v1 only; caching: prefix
    caching is on. generated: tokens said so far."""

    def __init__(
        self,
        model: str = "tiny",
        *,
        version: str = "0.12.0",
        max_model_len: int = 8192,
        blocks: int = 4096,
        details: bool = False,
        dev: bool = False,
        key: str = "",
        caching: bool = True,
        clock: Clock | None = None,
        seconds_per_token: float = 0.0,
        gap: float = 0.0,
    ):
        super().__init__(clock, seconds_per_token, gap)
        self.model, self.version, self.max_model_len = model, version, max_model_len
        self.details, self.dev, self.key, self.caching = details, dev, key, caching
        self.cache = BlockCache(BLOCK, blocks)
        self.sleeping = False
        self.generated = 0

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        always = [
            web.get("/health", self.health),
            web.get("/version", self.tell_version),
            web.get("/v1/models", self.models),
            web.get("/metrics", self.metrics),
            web.post("/tokenize", self.tokenize),
            *(web.post(path, self.respond) for path in PATHS),
        ]
        development = [
            web.post("/sleep", self.sleep),
            web.post("/wake_up", self.wake_up),
            web.get("/is_sleeping", self.is_sleeping),
            web.post("/reset_prefix_cache", self.reset_prefix_cache),
        ]
        return always + development if self.dev else always

    # answering

    async def respond(self, request: web.Request) -> web.StreamResponse:
        body = await json_body(request)
        async with self.record(request.path, body) as served:
            self._refuse(body)
            ask = read(request.path, body)
            prompt = prompt_tokens(ask, self.max_model_len)
            async with self.cache.lease(prompt, salt=body.get("cache_salt") or "", reuse=self.caching) as work:
                served.total, served.reused = len(prompt), work.reused
                await work.prefill(self.seconds_per_token)
                cached = (work.reused or None) if self.details else None
                reply = self.told(request.path, body, ask, work, cached=cached)
                response = await self.send(request, body, reply)
                work.generated(reply.reasoning + reply.text)
                self.generated += reply.completion
                return response

    def _refuse(self, body: Mapping[str, Any]) -> None:
        if self.sleeping:
            raise Refused(503, "The model is sleeping. Wake it up first.")
        if body.get("model") != self.model:
            raise Refused(404, f"The model `{body.get('model')}` does not exist.")
        if (limit := limit_of(body)) is not None and limit < 1:
            raise Refused(400, f"max_tokens must be at least 1, got {limit}.")

    # beside the answers

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def tell_version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": self.version})

    async def models(self, request: web.Request) -> web.Response:
        row = {"id": self.model, "object": "model", "created": CREATED, "owned_by": "vllm", "root": self.model, "parent": None}
        return web.json_response({"object": "list", "data": [row | {"max_model_len": self.max_model_len, "permission": []}]})

    async def metrics(self, request: web.Request) -> web.Response:
        total, reused = sum(row.total for row in self.served), sum(row.reused for row in self.served)
        running = sum(row.outcome == "running" for row in self.served)
        usage = len(self.cache) / self.cache.blocks
        values = (total if self.caching else 0, reused, total, self.generated, running, 0, usage)
        labels = f'{{engine="0",model_name="{self.model}"}}'
        rows = zip(METRICS.items(), values, strict=True)
        return web.Response(text="".join(f"# TYPE {name} {kind}\n{name}{labels} {value}\n" for (name, kind), value in rows))

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        if "messages" in body:
            tokens = prompt_tokens(read("/v1/chat/completions", body), self.max_model_len)
        else:
            tokens = tokenize(str(body.get("prompt") or ""))
        ids = [zlib.crc32(token.encode("utf-8", "surrogatepass")) for token in tokens]
        return web.json_response({"count": len(ids), "max_model_len": self.max_model_len, "tokens": ids, "token_strs": None})

    async def sleep(self, request: web.Request) -> web.Response:
        """All KV is lost, at any level."""
        self.sleeping = True
        self.cache.clear()
        return web.Response()

    async def wake_up(self, request: web.Request) -> web.Response:
        self.sleeping = False
        return web.Response()

    async def is_sleeping(self, request: web.Request) -> web.Response:
        return web.json_response({"is_sleeping": self.sleeping})

    async def reset_prefix_cache(self, request: web.Request) -> web.Response:
        self.cache.clear()
        return web.Response()

    # the server's own words

    def guard(self, request: web.Request) -> None:
        sent = request.headers.get("Authorization", "")
        if self.key and request.path.startswith("/v1") and not hmac.compare_digest(sent, f"Bearer {self.key}"):
            raise Refused(401, "Unauthorized")

    def refusal(self, request: web.Request, error: Refused) -> web.Response:
        told = {"message": str(error), "type": ERRORS[error.status], "param": None, "code": error.status}
        return web.json_response(body=orjson.dumps({"error": told}), status=error.status)

    def unknown(self, request: web.Request) -> web.Response:
        return web.json_response({"detail": "Not Found"}, status=404)

    def forget(self) -> None:
        self.cache.clear()
        self.sleeping = False
