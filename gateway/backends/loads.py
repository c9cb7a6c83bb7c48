"""How each kind of server is told to load a model, to keep it and to unload it, without a prompt: no KV cache is touched.

Source of facts: ollama docs/api.md and server/routes.go (an empty request loads, `keep_alive: 0` unloads, and neither runs
anything), LM Studio's REST API v1, llama.cpp tools/server README (router mode; `/tokenize` wakes a sleeping server and keeps
it awake, measured on b11549), llama-swap's README, oMLX's server.py.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from gateway.backends.control import Answer, Control


@dataclass(frozen=True, slots=True)
class Wish:
    """How a model is to be loaded. keep_alive: seconds after its last request, inf for ever, None: as the server likes;
    options: those of the loaded model that traffic asks for, so that the next request does not load it anew."""

    model: str
    keep_alive: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    shift: bool | None = None


Tell = Callable[[Control, Wish], Awaitable[str | None]]
"""Does it. Returns what went wrong in a sentence, or None. Raises Unreachable."""


Asked = Literal["keep_alive", "ttl"]
"""Ollama's own API: at any request, and how the model is loaded besides. LM Studio: at the request that loads it."""


@dataclass(frozen=True, slots=True)
class Loads:
    """load: a model that is not there; renew: one that is, so that it stays; None where that needs nothing or cannot be done;
    unload: at once; lasts: seconds after its last request for which a model stays that a request has loaded, where that is
    fixed and not told; asked: how requests themselves say for how long their model stays."""

    load: Tell
    unload: Tell | None = None
    renew: Tell | None = None
    lasts: float | None = None
    asked: Asked | None = None


async def ollama_load(control: Control, wish: Wish) -> str | None:
    """Loads, or renews the time of what is loaded. A model for embeddings only refuses `/api/generate`."""
    body: dict[str, Any] = {"model": wish.model}
    if wish.keep_alive is not None:
        body["keep_alive"] = -1 if math.isinf(wish.keep_alive) else math.ceil(wish.keep_alive)
    if wish.options:
        body["options"] = dict(wish.options)
    if wish.shift is not None:
        body["shift"] = wish.shift
    answer = await control.post("/api/generate", body)
    if answer.status == 400 and "generate" in answer.text:
        answer = await control.post("/api/embed", {**body, "input": ""})
    return _problem(answer)


async def ollama_unload(control: Control, wish: Wish) -> str | None:
    return await ollama_load(control, Wish(wish.model, keep_alive=0.0))


async def lmstudio_load(control: Control, wish: Wish) -> str | None:
    """Loads it for good: what is loaded explicitly has no time to live and is not evicted. Not for one that is loaded: it would
    be loaded twice."""
    body: dict[str, Any] = {"model": wish.model}
    if "num_ctx" in wish.options:
        body["context_length"] = wish.options["num_ctx"]
    answer = await control.post("/api/v1/models/load", body)
    if answer.field("error") is not None and "endpoint" in answer.text.lower():
        return "this LM Studio is too old to be told to load a model (0.4.0 has the API); load it there with `lms load`"
    return _problem(answer)


async def lmstudio_unload(control: Control, wish: Wish) -> str | None:
    listed = (await control.get("/api/v1/models")).rows("models")
    rows = [row for row in listed if row.get("key") == wish.model]
    found = rows[0].get("loaded_instances") if rows else None
    names = [one["id"] for one in found if isinstance(one, dict) and "id" in one] if isinstance(found, list) else []
    problems = [_problem(await control.post("/api/v1/models/unload", {"instance_id": name})) for name in names or [wish.model]]
    return next((problem for problem in problems if problem), None)


async def llamacpp_load(control: Control, wish: Wish) -> str | None:
    """A router is told; a server with one model, which can only be asleep, is woken."""
    answer = await control.post("/models/load", {"model": wish.model})
    if answer.status in (404, 405):
        return await llamacpp_wake(control, wish)
    already = answer.status == 400 and "already" in answer.text.lower()
    return None if already else _problem(answer)


async def llamacpp_unload(control: Control, wish: Wish) -> str | None:
    """Only a router can; a server with one model goes to sleep by itself, or not at all."""
    return _problem(await control.post("/models/unload", {"model": wish.model}))


async def llamacpp_wake(control: Control, wish: Wish) -> str | None:
    """Starts the time until it sleeps again. No slot is looked at."""
    return _problem(await control.post("/tokenize", {"model": wish.model, "content": ""}))


async def llamaswap_load(control: Control, wish: Wish) -> str | None:
    """What is asked through `/upstream/` is started first."""
    return _problem(await control.get(f"/upstream/{quote(wish.model, safe='')}/health"))


async def llamaswap_unload(control: Control, wish: Wish) -> str | None:
    return _problem(await control.post(f"/api/models/unload/{quote(wish.model, safe='')}", {}))


async def omlx_load(control: Control, wish: Wish) -> str | None:
    return _problem(await control.post(f"/v1/models/{quote(wish.model, safe='')}/load", {}))


async def omlx_unload(control: Control, wish: Wish) -> str | None:
    return _problem(await control.post(f"/v1/models/{quote(wish.model, safe='')}/unload", {}))


OLLAMA_LOADS = Loads(ollama_load, ollama_unload, renew=ollama_load, asked="keep_alive")
LMSTUDIO_LOADS = Loads(lmstudio_load, lmstudio_unload, lasts=3600.0, asked="ttl")
LLAMACPP_LOADS = Loads(llamacpp_load, llamacpp_unload, renew=llamacpp_wake)
LLAMASWAP_LOADS = Loads(llamaswap_load, llamaswap_unload)
OMLX_LOADS = Loads(omlx_load, omlx_unload)


def _problem(answer: Answer) -> str | None:
    """LM Studio tells some errors with 200."""
    error = answer.field("error")
    if answer.ok and error is None:
        return None
    words = error if isinstance(error, str) else answer.field("error", "message")
    return f"it answers {answer.status}: {str(words or answer.text)[:200]}"
