"""What a simulated Ollama says about its models: lists, details, downloads, and embeddings. Source: Ollama's docs/api.md."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from tests.support.fake_server import json_body
from tests.support.kvcache import tokenize
from tests.support.ollama_asks import keep_alive_seconds
from tests.support.ollama_runners import Model, OllamaError, Runner, full_name
from tests.support.replies import NDJSON
from tests.support.replies.reply import CREATED

if TYPE_CHECKING:
    from tests.support.fake_ollama import FakeOllama

DIMENSIONS = 8


def routes(fake: FakeOllama) -> list[web.RouteDef]:
    catalog = _Catalog(fake)
    return [
        web.get("/", catalog.greet),
        web.get("/api/version", catalog.version),
        web.get("/api/tags", catalog.tags),
        web.get("/api/ps", catalog.ps),
        web.get("/v1/models", catalog.openai_models),
        web.post("/api/show", catalog.show),
        web.post("/api/pull", catalog.pull),
        web.delete("/api/delete", catalog.delete),
        web.post("/api/embed", catalog.embed),
    ]


class _Catalog:
    def __init__(self, fake: FakeOllama):
        self._fake = fake

    async def greet(self, request: web.Request) -> web.Response:
        return web.Response(text="Ollama is running")

    async def version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": self._fake.version})

    async def tags(self, request: web.Request) -> web.Response:
        return web.json_response({"models": [_row(name, model) for name, model in self._fake.models.items()]})

    async def ps(self, request: web.Request) -> web.Response:
        return web.json_response({"models": [self._running(runner) for runner in self._fake.runners.loaded]})

    def _running(self, runner: Runner) -> dict[str, Any]:
        vram = runner.size if self._fake.vram is None else min(runner.size, self._fake.vram)
        figures = {"size": runner.size, "size_vram": vram, "context_length": runner.num_ctx}
        return {**_row(full_name(runner.model.name), runner.model), **figures, "expires_at": _rfc3339(runner.expires)}

    async def openai_models(self, request: web.Request) -> web.Response:
        rows = [{"id": name, "object": "model", "created": CREATED, "owned_by": "library"} for name in self._fake.models]
        return web.json_response({"object": "list", "data": rows})

    async def show(self, request: web.Request) -> web.Response:
        model = self._fake.find(_named(await json_body(request)))
        capabilities = ["embedding"] if model.embedding else ["completion"]
        capabilities += [name for name in ("tools", "thinking") if getattr(model, name) and not model.embedding]
        shown: dict[str, Any] = {
            "modelfile": f"FROM {model.name}",
            "parameters": f"num_ctx                        {model.num_ctx}" if model.num_ctx else "",
            "template": "{{ .System }}{{ .Prompt }}",
            "details": DETAILS,
            "model_info": {"general.architecture": "llama", "llama.context_length": model.train_ctx},
            "capabilities": capabilities,
            "modified_at": MODIFIED,
        }
        own = {"system": model.system} if model.system else {}
        return web.json_response(shown | own | ({"messages": [*model.messages]} if model.messages else {}))

    async def pull(self, request: web.Request) -> web.StreamResponse:
        """The model is there once the download is told to be complete."""
        body = await json_body(request)
        name = _named(body)
        layer = {"status": "pulling 0123456789ab", "digest": "sha256:0123456789ab", "total": 1000}
        progress: list[dict[str, Any]] = [{"status": "pulling manifest"}]
        progress += [layer | {"completed": done} for done in (0, 500, 1000)]
        progress += [{"status": "verifying sha256 digest"}, {"status": "writing manifest"}, {"status": "success"}]
        self._fake.models.setdefault(full_name(name), Model(name))
        if body.get("stream") is False:
            return web.json_response(progress[-1])
        return await self._fake.stream(request, [orjson.dumps(step) + b"\n" for step in progress], NDJSON)

    async def delete(self, request: web.Request) -> web.Response:
        name = _named(await json_body(request))
        self._fake.runners.unload(self._fake.find(name))
        del self._fake.models[full_name(name)]
        return web.Response()

    async def embed(self, request: web.Request) -> web.Response:
        """Vectors that depend on the text alone. No input loads the model, as an empty prompt does."""
        body = await json_body(request)
        model, given = self._fake.find(body.get("model")), body.get("input") or []
        texts = [given] if isinstance(given, str) else given
        wanted = self._fake.load_options(model, body.get("options") or {}, model.shift)
        async with self._fake.runners.use(model, wanted, keep_alive_seconds(body.get("keep_alive"))):
            count = sum(len(tokenize(text)) for text in texts)
            vectors = [[byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:DIMENSIONS]] for text in texts]
            figures = {"total_duration": 2_000_000, "load_duration": 1_000_000, "prompt_eval_count": count}
            return web.json_response({"model": body["model"], "embeddings": vectors, **figures})


DETAILS: Mapping[str, Any] = {
    "parent_model": "",
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "1B",
    "quantization_level": "F16",
}
MODIFIED = "2026-01-01T00:00:00Z"


def _row(name: str, model: Model) -> dict[str, Any]:
    digest = hashlib.sha256(model.digest.encode()).hexdigest()
    return {"name": name, "model": name, "modified_at": MODIFIED, "size": model.weights, "digest": digest, "details": DETAILS}


def _rfc3339(seconds: float) -> str:
    """Nanoseconds and all, as Go writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def _named(body: Mapping[str, Any]) -> str:
    """The model that a body names, under the field's new or old name. Raises OllamaError 400."""
    name = body.get("model") or body.get("name")
    if not isinstance(name, str):
        raise OllamaError(400, "model is required")
    return name
