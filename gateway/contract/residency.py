"""Probes of loading and unloading. They change what is in memory, so they run on request only, and put back what they found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from gateway.backends.ollama import OLLAMA
from gateway.contract.base import LOADING, Finding, Probe, differs, judged, ok, skipped
from gateway.contract.bodies import OLLAMA_GENERATE
from gateway.contract.server import Server
from gateway.values import ModelInfo

TIMINGS = ("total_duration", "load_duration", "prompt_eval_count", "eval_count")
UNLOADING = 5.0  # seconds in which an unloaded model must be gone from the list

# Ollama


async def ollama(server: Server) -> Finding:
    """Empty prompts: load for ten minutes, for ever, keep that through a request that says nothing, unload."""
    found = await _ollama_info(server)
    steps: list[str] = []
    try:
        steps += await _ollama_steps(server)
    finally:
        await _ollama_restore(server, found)
    return judged(not steps, "loaded, pinned, kept and unloaded by empty prompts", "; ".join(steps))


async def _ollama_steps(server: Server) -> list[str]:
    """What was not as it should be."""
    wrong = []
    loaded = await _empty(server, "10m")
    if loaded.get("done_reason") != "load" or any(key in loaded for key in TIMINGS):
        wrong.append(f"done_reason load without timings, got {sorted(loaded)}")
    left = (await _ollama_info(server)).expires or 0.0
    if not 0 < left - time.time() <= 660:
        wrong.append(f"10m to live in /api/ps, got {left - time.time():.0f} s")
    await _empty(server, -1)
    await server.usage(OLLAMA_GENERATE, server.text(8))
    if (await _ollama_info(server)).expires != float("inf"):
        wrong.append("keep_alive -1 to outlast a request without keep_alive")
    if (refused := await server.post(OLLAMA_GENERATE, {"model": server.model, "keep_alive": "300"})).status != 400:
        wrong.append(f'400 for keep_alive "300" without a unit, got {refused.status}')
    unloaded = await _empty(server, 0)
    if unloaded.get("done_reason") != "unload":
        wrong.append(f"done_reason unload, got {unloaded.get('done_reason')}")
    if not await _until_gone(lambda: _ollama_info(server)):
        wrong.append("the model gone from /api/ps after keep_alive 0")
    return wrong


async def _empty(server: Server, keep_alive: Any) -> dict[str, Any]:
    return (await server.post(OLLAMA_GENERATE, {"model": server.model, "keep_alive": keep_alive})).doc


async def _ollama_info(server: Server) -> ModelInfo:
    probe = await OLLAMA.probe(server.control)
    return next((m for m in probe.models if m.name == server.model), ModelInfo(server.model))


async def _ollama_restore(server: Server, found: ModelInfo) -> None:
    left = (found.expires or 0.0) - time.time()
    if found.resident and left > 0:
        await _empty(server, -1 if left == float("inf") else round(left, 1))


async def _until_gone(look: Callable[[], Awaitable[ModelInfo]]) -> bool:
    deadline = time.monotonic() + UNLOADING
    while (await look()).resident:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.5)
    return True


# LM Studio


async def lmstudio(server: Server) -> Finding:
    """Load another instance by the REST API v1, see it listed with its context, unload that one."""
    key = server.model.partition(":")[0] if server.model not in await _keys(server) else server.model
    loaded = await server.post("/api/v1/models/load", {"model": key, "context_length": 2048})
    name = loaded.doc.get("instance_id")
    if not isinstance(name, str):
        if loaded.status == 404 or "unexpected endpoint" in loaded.words.lower():
            return skipped(f"it has no REST API v1 (before 0.4.0): {loaded.status}")
        return differs(f"load answers {loaded.status}: {loaded.words}; expected instance_id")
    listed = (await _instances(server)).get(name)
    unloaded = await server.post("/api/v1/models/unload", {"instance_id": name})
    gone = name not in await _instances(server)
    fine = listed == 2048 and unloaded.doc.get("instance_id") == name and gone
    detail = f"context of the new instance {listed}, unload answers {unloaded.status}, {'gone' if gone else 'still listed'}"
    return judged(fine, detail, "2048, its instance_id, gone", context=listed, gone=gone)


async def _keys(server: Server) -> set[Any]:
    return {row.get("key") for row in (await server.get("/api/v1/models")).doc.get("models", ())}


async def _instances(server: Server) -> Mapping[str, Any]:
    """Names of loaded instances -> their context in tokens."""
    rows = (await server.get("/api/v1/models")).doc.get("models", ())
    return {i["id"]: (i.get("config") or {}).get("context_length") for row in rows for i in row.get("loaded_instances", ())}


# oMLX


async def omlx(server: Server) -> Finding:
    """Load, unload, unload again (400), and leave the model as it was."""
    path = f"/v1/models/{quote(server.model, safe='')}"
    states = [await _omlx_loaded(server)]
    loaded = await server.post(f"{path}/load", {})
    if loaded.status != 200:
        return differs(f"load answers {loaded.status}: {loaded.words}; expected 200", status=loaded.status)
    states.append(await _omlx_loaded(server))
    unloaded = await server.post(f"{path}/unload", {})
    states.append(await _omlx_loaded(server))
    again = await server.post(f"{path}/unload", {})
    if states[0]:
        await server.post(f"{path}/load", {})
    fine = states[1:] == [True, False] and (unloaded.status, again.status) == (200, 400)
    detail = f"loaded {states[1]}, then {states[2]}; unload answers {unloaded.status}, and once more {again.status}"
    return judged(fine, detail, "True, then False; 200, 400")


async def _omlx_loaded(server: Server) -> bool | None:
    rows = (await server.get("/v1/models/status")).doc.get("models", ())
    return next((row.get("loaded") for row in rows if row.get("id") == server.model), None)


# vLLM


async def vllm_sleep(server: Server) -> Finding:
    """Development mode only: asleep, told so, awake again."""
    if (await server.get("/is_sleeping")).status != 200:
        return skipped("not in development mode with sleep mode")
    await server.send("POST", "/sleep?level=1", b"")
    asleep = (await server.get("/is_sleeping")).doc.get("is_sleeping")
    await server.send("POST", "/wake_up", b"")
    awake = (await server.get("/is_sleeping")).doc.get("is_sleeping")
    if (asleep, awake) != (True, False):
        return differs(f"is_sleeping {asleep}, then {awake}; expected True, then False")
    return ok("asleep, and awake again")


PROBES = (
    Probe(
        "residency-ollama",
        "Empty prompts load, pin and unload a model; a request without keep_alive keeps what was set.",
        "Ollama's docs/api.md, api/types.go, server/sched.go",
        ollama,
        frozenset({"ollama"}),
        mutating=True,
        seconds=LOADING,
    ),
    Probe(
        "residency-lmstudio",
        "The REST API v1 loads an instance with a context and unloads it.",
        "LM Studio's developer docs",
        lmstudio,
        frozenset({"lmstudio"}),
        mutating=True,
        seconds=LOADING,
    ),
    Probe(
        "residency-omlx",
        "/v1/models/{id}/load and unload do what /v1/models/status then tells.",
        "oMLX's README and server.py",
        omlx,
        frozenset({"omlx"}),
        mutating=True,
        seconds=LOADING,
    ),
    Probe(
        "residency-vllm",
        "/sleep and /wake_up do what /is_sleeping then tells.",
        "vLLM's docs on sleep mode",
        vllm_sleep,
        frozenset({"vllm"}),
        mutating=True,
        seconds=LOADING,
    ),
)
