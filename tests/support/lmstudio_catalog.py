"""What a simulated LM Studio says about its models, loads and unloads on demand, and embeds. Source: its developer docs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from aiohttp import web

from tests.support.fake_server import Refused, json_body
from tests.support.lmstudio_instances import Instance, LmModel
from tests.support.ollama_catalog import DIMENSIONS

if TYPE_CHECKING:
    from tests.support.fake_lmstudio import FakeLmStudio

NEWER = (0, 4, 0)
"""The first version with the REST API v1."""


def routes(fake: FakeLmStudio) -> list[web.RouteDef]:
    catalog = _Catalog(fake)
    found = [
        web.get("/v1/models", catalog.openai_models),
        web.get("/api/v0/models", catalog.models_v0),
        web.get("/api/v0/models/{name:.+}", catalog.model_v0),
        web.post("/v1/embeddings", catalog.embed),
        web.post("/api/v0/embeddings", catalog.embed),
    ]
    if fake.since >= NEWER:
        found += [
            web.get("/api/v1/models", catalog.models_v1),
            web.post("/api/v1/models/load", catalog.load),
            web.post("/api/v1/models/unload", catalog.unload),
        ]
    return found


class _Catalog:
    def __init__(self, fake: FakeLmStudio):
        self._instances = fake.instances

    def _named(self) -> list[tuple[str, LmModel, Instance | None]]:
        """Every name that requests may use: of models, which are loaded on demand, and of further instances."""
        loaded = {instance.id: instance for instance in self._instances.loaded}
        models = [(key, model, loaded.get(key)) for key, model in self._instances.models.items()]
        return models + [(name, i.model, i) for name, i in loaded.items() if name not in self._instances.models]

    async def openai_models(self, request: web.Request) -> web.Response:
        """Without loading on demand only what is loaded."""
        names = [name for name, _, instance in self._named() if instance or self._instances.jit]
        rows = [{"id": name, "object": "model", "owned_by": "organization_owner"} for name in names]
        return web.json_response({"object": "list", "data": rows})

    async def models_v0(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [_row_v0(*named) for named in self._named()]})

    async def model_v0(self, request: web.Request) -> web.Response:
        wanted = unquote(request.match_info["name"])
        row = next((_row_v0(*named) for named in self._named() if named[0] == wanted), None)
        if row is None:
            raise Refused(404, f'Model "{wanted}" not found.')
        return web.json_response(row)

    async def models_v1(self, request: web.Request) -> web.Response:
        loaded = self._instances.loaded
        rows = [_row_v1(model, [i for i in loaded if i.model is model]) for model in self._instances.models.values()]
        return web.json_response({"models": rows})

    async def load(self, request: web.Request) -> web.Response:
        """`ttl` is not documented, but clients send it."""
        body = await json_body(request)
        context, ttl = body.get("context_length"), body.get("ttl")
        for name, value in (("context_length", context), ("ttl", ttl)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise Refused(400, f'"{name}" must be a positive number')
        instance = await self._instances.load(body.get("model"), context, ttl)
        told: dict[str, Any] = {
            "type": "embedding" if instance.model.embedding else "llm",
            "instance_id": instance.id,
            "load_time_seconds": self._instances.load_seconds,
            "status": "loaded",
        }
        return web.json_response(told | ({"load_config": _config(instance)} if body.get("echo_load_config") is True else {}))

    async def unload(self, request: web.Request) -> web.Response:
        body = await json_body(request)
        self._instances.unload(body.get("instance_id"))
        return web.json_response({"instance_id": body["instance_id"]})

    async def embed(self, request: web.Request) -> web.Response:
        """Vectors that depend on the text alone."""
        body = await json_body(request)
        given = body.get("input") or []
        async with self._instances.use(body.get("model"), ttl=body.get("ttl")):
            rows = [
                {"object": "embedding", "index": n, "embedding": [byte / 255 for byte in _digest(text)[:DIMENSIONS]]}
                for n, text in enumerate([given] if isinstance(given, str) else given)
            ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}  # it does not count them
        return web.json_response({"object": "list", "data": rows, "model": body["model"], "usage": usage})


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _row_v0(name: str, model: LmModel, instance: Instance | None) -> dict[str, Any]:
    row = {
        "id": name,
        "object": "model",
        "type": "embeddings" if model.embedding else "llm",
        "publisher": "someone",
        "arch": "llama",
        "compatibility_type": "gguf",
        "quantization": "Q4_K_M",
        "state": "loaded" if instance else "not-loaded",
        "max_context_length": model.train_ctx,
    }
    return row | ({"loaded_context_length": instance.context} if instance else {})


def _row_v1(model: LmModel, instances: list[Instance]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type": "embedding" if model.embedding else "llm",
        "publisher": "someone",
        "key": model.key,
        "display_name": model.key.title(),
        "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
        "size_bytes": 1_000_000_000,
        "params_string": "1B",
        "loaded_instances": [{"id": instance.id, "config": _config(instance)} for instance in instances],
        "max_context_length": model.train_ctx,
        "format": "gguf",
    }
    if not model.embedding:
        row |= {"architecture": "llama", "capabilities": {"vision": False, "trained_for_tool_use": True}, "description": None}
    return row


def _config(instance: Instance) -> dict[str, Any]:
    config: dict[str, Any] = {"context_length": instance.context}
    if not instance.model.embedding:
        config |= {"eval_batch_size": 512, "parallel": len(instance.cache.slots), "flash_attention": True}
        config |= {"offload_kv_cache_to_gpu": True}
    return config
