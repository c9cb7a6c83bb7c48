"""Probes of what a server says about itself, and that asking for it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.backends import KINDS
from gateway.backends.openai import CONTEXT_KEYS
from gateway.contract.base import ALL, Finding, Probe, counted, judged, listed, ok, skipped
from gateway.contract.heard import Heard
from gateway.contract.server import Server


async def kind(server: Server) -> Finding:
    """What `auto` takes it for."""
    seen = await KINDS["auto"].probe(server.control)
    told = f"{seen.kind} {seen.version or ''}".strip()
    detail = f"{told}, {counted(len(seen.models), 'model')}, {counted(seen.slots, 'slot')}"
    return judged(seen.kind == server.kind.name, detail, server.kind.name, kind=seen.kind, version=seen.version)


# quiet: looking must not load, wake or keep awake

Rows = Mapping[str, Any]


def _running_ollama(heard: Heard) -> Rows:
    return {row["model"]: row.get("expires_at") for row in heard.doc.get("models", ())}


def _running_lmstudio(heard: Heard) -> Rows:
    return {row["key"]: [i.get("id") for i in row.get("loaded_instances", ())] for row in heard.doc.get("models", ())}


def _running_lmstudio_v0(heard: Heard) -> Rows:
    return {row["id"]: row.get("state") for row in heard.doc.get("data", ())}


def _running_omlx(heard: Heard) -> Rows:
    return {row["id"]: (row.get("loaded"), row.get("last_access")) for row in heard.doc.get("models", ())}


def _sleeping(heard: Heard) -> Rows:
    return {"is_sleeping": heard.doc.get("is_sleeping")}


RESIDENTS: Mapping[str, Mapping[str, Callable[[Heard], Rows]]] = {
    "ollama": {"/api/ps": _running_ollama},
    "lmstudio": {"/api/v1/models": _running_lmstudio, "/api/v0/models": _running_lmstudio_v0},
    "omlx": {"/v1/models/status": _running_omlx},
    "llamacpp": {"/props": _sleeping},
    "vllm": {"/is_sleeping": _sleeping},
}
"""Kind -> the paths that tell what is in memory (and until when), the best first, and how each is read."""


async def quiet(server: Server) -> Finding:
    """What is in memory before and after the gateway's own look at the server."""
    for path, read in RESIDENTS[server.kind.name].items():
        first = await server.get(path)
        if first.status == 200 and first.doc and "error" not in first.doc:
            await server.kind.probe(server.control)
            before, after = read(first), read(await server.get(path))
            return judged(after == before, f"{path}: {listed(after)}", f"what was there before: {listed(before)}")
    return skipped(f"it does not tell what is in memory: {path} answers {first.status}")


# lists

CONTEXT: Mapping[str, frozenset[str]] = {
    "vllm": frozenset({"max_model_len"}),
    "omlx": frozenset({"max_model_len", "max_context_window"}),
    "llamacpp": frozenset({"n_ctx", "n_ctx_train", "meta"}),
}
"""Kinds whose /v1/models rows name the context, and the fields that do."""


async def models(server: Server) -> Finding:
    heard = await server.get("/v1/models")
    data = heard.doc.get("data")
    rows = [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
    own = next((row for row in rows if row.get("id") == server.model), None)
    if own is None:
        return judged(False, f"{heard.status}, {len(rows)} rows without the model: {heard.words}", "it in `data`")
    keys = sorted(context_keys(own))
    detail = f"{len(rows)} rows, context in {', '.join(keys) or 'no field'}"
    wanted = CONTEXT.get(server.kind.name)
    return judged(not wanted or bool(wanted & set(keys)), detail, f"one of {sorted(wanted or ())}", keys=keys)


def context_keys(row: Mapping[str, Any]) -> set[str]:
    """The fields of a row, or of its `meta`, that tell a context length."""
    meta = row.get("meta")
    known = (*CONTEXT_KEYS, "n_ctx_train", "max_context_window")
    return {key for place in (row, meta if isinstance(meta, dict) else {}) for key in known if isinstance(place.get(key), int)}


OWN_LISTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ollama": {"/api/tags": ("model", "name", "digest", "details")},
    "lmstudio": {
        "/api/v1/models": ("key", "type", "loaded_instances", "max_context_length"),
        "/api/v0/models": ("id", "state"),
    },
    "omlx": {"/v1/models/status": ("id", "loaded", "pinned", "max_context_window")},
}
"""Kind -> paths of its own lists -> the fields of each row that are relied on."""


async def own_lists(server: Server) -> Finding:
    found, missing = [], []
    for path, fields in OWN_LISTS[server.kind.name].items():
        heard = await server.get(path)
        rows = heard.doc.get("models", heard.doc.get("data"))
        if heard.status != 200 or not isinstance(rows, list):
            missing.append(path)
            continue
        found.append(f"{path}: {len(rows)} rows")
        missing += [f"{field} in {path}" for field in fields if any(field not in row for row in rows)]
    if server.kind.name == "lmstudio" and found:
        missing = [gap for gap in missing if gap != "/api/v1/models"]  # since 0.4.0
    return judged(not missing, ", ".join(found) or "no list", ", ".join(missing))


async def ollama_show(server: Server) -> Finding:
    """Where the context of a model stands: what its Modelfile fixes, and what it was trained on."""
    heard = await server.post("/api/show", {"model": server.model})
    trained = [key for key in heard.doc.get("model_info") or {} if key.endswith(".context_length")]
    detail = f"{heard.status}, trained context in {', '.join(trained) or 'no field'}, {heard.doc.get('capabilities')}"
    fine = heard.status == 200 and bool(trained) and isinstance(heard.doc.get("capabilities"), list)
    return judged(fine, detail, "200, a *.context_length in model_info, capabilities", keys=trained)


async def llamacpp_props(server: Server) -> Finding:
    doc = (await server.get("/props")).doc
    n_ctx = (doc.get("default_generation_settings") or {}).get("n_ctx")
    told: dict[str, Any] = {"total_slots": doc.get("total_slots"), "n_ctx": n_ctx, "build": doc.get("build_info")}
    told |= {"sleeping": doc.get("is_sleeping"), "mark": isinstance(doc.get("media_marker"), str)}
    if not server.seen.single_model:
        return ok(f"a router: {listed(told)}")
    fine = all(isinstance(told[key], int) and told[key] > 0 for key in ("total_slots", "n_ctx"))
    return judged(fine, listed(told), "total_slots and default_generation_settings.n_ctx", **told)


PROBES = (
    Probe(
        "kind",
        "The server is taken for what it is by what only its kind answers.",
        "the servers' sources",
        kind,
    ),
    Probe(
        "quiet-look",
        "The gateway's look at a server loads, wakes and prolongs nothing.",
        "measured on llama.cpp; Ollama's, LM Studio's, vLLM's and oMLX's documentation",
        quiet,
        frozenset(RESIDENTS),
    ),
    Probe(
        "models-openai",
        "/v1/models lists the model, and the field that tells its context.",
        "the servers' documentation",
        models,
        ALL,
    ),
    Probe(
        "models-own",
        "The server's own lists have the fields that routing relies on.",
        "Ollama's docs/api.md, LM Studio's developer docs, oMLX's README",
        own_lists,
        frozenset({"ollama", "lmstudio", "omlx"}),
    ),
    Probe(
        "models-show",
        "/api/show tells a model's context and capabilities.",
        "Ollama's docs/api.md",
        ollama_show,
        frozenset({"ollama"}),
    ),
    Probe(
        "props",
        "/props tells slots, the context of a slot, the build and whether the server sleeps.",
        "llama.cpp's README",
        llamacpp_props,
        frozenset({"llamacpp"}),
    ),
)
