"""What plain servers answer to the questions by which they are recognised and watched. Pure.

A persona is a table from "METHOD /path" to a fixed answer, and that server's own 404 for everything else. Shapes: llama.cpp's
as seen on b11549; Ollama's from its docs/api.md and server/routes.go; a plain OpenAI-shaped server has its model list only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tests.support.replies.reply import CREATED

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Canned:
    status: int
    body: bytes
    content_type: str = JSON


@dataclass(frozen=True, slots=True)
class Persona:
    name: str
    answers: Mapping[str, Canned]
    not_found: Canned

    def answer(self, method: str, path: str) -> Canned:
        """The answer to a request that no script covers. HEAD is answered as GET; its body is the caller's to leave out."""
        return self.answers.get(f"{'GET' if method == 'HEAD' else method} {path}", self.not_found)

    def knows(self, method: str, path: str) -> bool:
        return f"{'GET' if method == 'HEAD' else method} {path}" in self.answers


def _json(value: Any, status: int = 200) -> Canned:
    return Canned(status, orjson.dumps(value))


def _openai_list(models: Sequence[str], owner: str, **more: Any) -> dict[str, Any]:
    rows = [{"id": name, "object": "model", "created": CREATED, "owned_by": owner, **more} for name in models]
    return {"object": "list", "data": rows}


def openai(*models: str) -> Persona:
    missing = _json({"error": {"message": "Not Found", "type": "invalid_request_error", "param": None, "code": None}}, 404)
    return Persona("openai", {"GET /v1/models": _json(_openai_list(models or ("tiny",), "someone"))}, missing)


def llamacpp(
    model: str = "tiny", *, slots: int = 2, n_ctx: int = 8192, media_marker: str = "<__media_first__>", sleeping: bool = False
) -> Persona:
    """n_ctx: tokens a slot; media_marker: new in every process of the real server, so another one means a restart."""
    meta = {"vocab_type": 2, "n_vocab": 986, "n_ctx": n_ctx, "n_ctx_train": 32768, "n_embd": 64, "n_params": 200256}
    models = _openai_list([model], "llamacpp", aliases=[model], tags=[], meta=meta)
    details = {"parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": ""}
    models["models"] = [{"name": model, "model": model, "type": "model", "capabilities": ["completion"], "details": details}]
    props = {
        "default_generation_settings": {"params": {"n_predict": -1, "temperature": 0.8}, "n_ctx": n_ctx},
        "total_slots": slots,
        "model_alias": model,
        "model_path": f"{model}.gguf",
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": media_marker,
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": False,
        "chat_template": "",
        "bos_token": "",
        "eos_token": "",
        "build_info": "b11549-0123abc",
        "is_sleeping": sleeping,
    }
    idle = [{"id": n, "n_ctx": n_ctx, "speculative": False, "is_processing": False} for n in range(slots)]
    answers = {
        "GET /health": _json({"status": "ok"}),
        "GET /v1/health": _json({"status": "ok"}),
        "GET /props": _json(props),
        "GET /v1/models": _json(models),
        "GET /models": _json(models),
        "GET /slots": _json(idle),
    }
    missing = _json({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, 404)
    return Persona("llamacpp", answers, missing)


def llamacpp_loading() -> Persona:
    """A llama-server that still reads its model: 503 everywhere."""
    loading = _json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
    return Persona("llamacpp", {}, loading)


def ollama(*models: str, version: str = "0.33.3", num_ctx: int = 4096, loaded: bool = False) -> Persona:
    """Models that are all loaded, or none. For an Ollama that loads, expires and caches see fake_ollama."""
    names = models or ("tiny:latest",)
    details = {"format": "gguf", "family": "llama", "families": ["llama"], "parameter_size": "1B", "quantization_level": "F16"}
    tags = [
        {
            "name": n,
            "model": n,
            "modified_at": "2026-01-01T00:00:00Z",
            "size": 1_000_000,
            "digest": "0" * 64,
            "details": details,
        }
        for n in names
    ]
    running = [{**row, "expires_at": "2318-01-01T00:00:00Z", "size_vram": 1_000_000, "context_length": num_ctx} for row in tags]
    show = {"details": details, "model_info": {"llama.context_length": 131072}, "capabilities": ["completion", "tools"]}
    answers = {
        "GET /": Canned(200, b"Ollama is running", TEXT),
        "GET /api/version": _json({"version": version}),
        "GET /api/tags": _json({"models": tags}),
        "GET /api/ps": _json({"models": running if loaded else []}),
        "POST /api/show": _json({"modelfile": "", "parameters": "", "template": "", **show}),
        "GET /v1/models": _json(_openai_list(names, "library")),
    }
    return Persona("ollama", answers, Canned(404, b"404 page not found", TEXT))
