"""Checks of Ollama. Source of facts: its docs, releases and server/. Nothing asked here loads or runs a model."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Any

from gateway.backends.ollama import NUM_CTX
from gateway.contract.suite import NOT_FOR_TALK
from gateway.doctor import templates
from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject
from gateway.values import ModelInfo

KIND = only("ollama")
MOST = 12  # models whose /api/show is read
SHORT = 600.0
"""Seconds left to a loaded model below which it is said to be unloaded soon; Ollama's default is five minutes."""


def version(first: tuple[int, ...], until: tuple[int, ...], told: str, subject: Subject) -> Iterable[Seen]:
    """first, until: the first version that has the fault, and the first that has not."""
    has = subject.server.before(*until) and not subject.server.before(*first)
    return [Seen(f"It is version {subject.seen.version}, {told}.")] if has else []


async def no_counts(subject: Subject) -> Iterable[Seen]:
    return version((0,), (0, 33, 1), "which reports no cached tokens", subject)


async def shift(subject: Subject) -> Iterable[Seen]:
    return version((0, 30, 0), (0, 30, 8), "in which `shift: false` turns the prefix cache off", subject)


async def short_counts(subject: Subject) -> Iterable[Seen]:
    return version((0, 30, 0), (0, 30, 1), "which leaves cached tokens out of the prompt's count", subject)


async def old_runners(subject: Subject) -> Iterable[Seen]:
    return version((0,), (0, 30, 0), "with runners of its own and without a cache in memory behind them", subject)


# models


async def shown(subject: Subject) -> AsyncIterator[tuple[ModelInfo, Mapping[str, Any]]]:
    """Models that are loaded, then others, each with what /api/show says of it."""
    models = [m for m in subject.seen.models if not any(part in m.name.lower() for part in NOT_FOR_TALK)]
    for model in sorted(models, key=lambda model: not model.resident)[:MOST]:
        heard = await subject.post("/api/show", {"model": model.name})
        if heard.status == 200:
            yield model, heard.doc


async def message(subject: Subject) -> Iterable[Seen]:
    return [
        Seen(f"The Modelfile of {model.name} has {len(doc['messages'])} MESSAGE entries.", {"model": model.name})
        async for model, doc in shown(subject)
        if isinstance(doc.get("messages"), list) and doc["messages"]
    ]


async def num_ctx(subject: Subject) -> Iterable[Seen]:
    """A loaded model whose context is not its Modelfile's: a request asked for another."""
    found = []
    async for model, doc in shown(subject):
        fixed = NUM_CTX.search(str(doc.get("parameters") or ""))
        if model.resident and fixed and model.context and int(fixed[1]) != model.context:
            told = f"{model.name} is loaded with {model.context:,} tokens, its Modelfile says {int(fixed[1]):,}."
            found.append(Seen(told, {"context": max(model.context, int(fixed[1]))}))
    return found


async def mixed(subject: Subject) -> Iterable[Seen]:
    """Models that were asked through both APIs: /v1 cannot carry num_ctx, native requests can."""
    ways: dict[str, set[str]] = defaultdict(set)
    for row in subject.asked:
        if row.model:
            ways[row.model].add("/api" if row.path.startswith("/api/") else "/v1")
    contexts = {model.name: model.context for model in subject.seen.models}
    return [
        Seen(f"{model} is asked through /api and through /v1.", {"context": contexts.get(model) or "65536"})
        for model, seen in ways.items()
        if len(seen) > 1
    ]


async def keep_alive(subject: Subject) -> Iterable[Seen]:
    now = time.time()
    left = {model.name: model.expires - now for model in subject.loaded if model.expires is not None}
    return [
        Seen(f"{name} is unloaded in {max(seconds, 0) / 60:.0f} minutes unless it is asked before.")
        for name, seconds in left.items()
        if seconds < SHORT
    ]


async def spilled(subject: Subject) -> Iterable[Seen]:
    found = []
    for row in (await subject.get("/api/ps")).doc.get("models") or ():
        size, on_gpu = row.get("size") or 0, row.get("size_vram")
        if size and isinstance(on_gpu, int) and 0 < on_gpu < size:
            found.append(Seen(f"{1 - on_gpu / size:.0%} of {row.get('name')} are outside of the GPU's memory."))
    return found


async def parallel(subject: Subject) -> Iterable[Seen]:
    unset = subject.config.parallel is None
    return [Seen("OLLAMA_NUM_PARALLEL cannot be asked, and `parallel` is not set.", {"backend": subject.name})] * unset


async def dates(timed: bool, subject: Subject) -> Iterable[Seen]:
    found = []
    async for model, doc in shown(subject):
        calls = templates.dates(str(doc.get("template") or ""))
        if calls and any(map(templates.of_the_day, calls)) is timed:
            found.append(Seen(f"The template of {model.name} writes a date: {', '.join(calls)}.", {"model": model.name}))
    return found


async def tools_behind(subject: Subject) -> Iterable[Seen]:
    return [
        Seen(f"The template of {model.name} writes .System before .Tools.")
        async for model, doc in shown(subject)
        if templates.tools_place_in_go(str(doc.get("template") or "")) == "behind"
    ]


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "ollama-no-counts",
        "advice",
        "The version reports no cached tokens.",
        "What was reused can then only be guessed from times.",
        "Update Ollama to 0.33.1 or later.",
        no_counts,
        KIND,
    ),
    Check(
        "ollama-shift",
        "serious",
        "The version turns the prefix cache off for requests with `shift: false`.",
        "Such a request reads its whole prompt each time, and nothing says so.",
        "Update Ollama to 0.30.8 or later, or take `shift` out of requests.",
        shift,
        KIND,
    ),
    Check(
        "ollama-short-counts",
        "advice",
        "The version leaves cached tokens out of the prompt's count.",
        "The share that was reused cannot be worked out from its counts.",
        "Update Ollama to 0.30.1 or later.",
        short_counts,
        KIND,
    ),
    Check(
        "ollama-old-runners",
        "advice",
        "The version has runners of its own, without llama.cpp's cache in memory.",
        "A prompt that lost its slot is read again in full, and options are compared more strictly, so models reload more.",
        "Update Ollama to 0.33.1 or later.",
        old_runners,
        KIND,
    ),
    Check(
        "ollama-num-ctx",
        "serious",
        "A model is loaded with another context than its Modelfile says: a client sends `num_ctx`.",
        "Each change between the two loads the model anew and drops its cache.",
        "Take `num_ctx` out of the client, or make both equal: `PARAMETER num_ctx {context}` in the Modelfile.",
        num_ctx,
        KIND,
    ),
    Check(
        "ollama-mixed-apis",
        "advice",
        "A model is asked through Ollama's own API and through /v1.",
        "/v1 cannot carry `num_ctx`; if the other clients send it, each change of API loads the model anew.",
        "Start Ollama with `OLLAMA_CONTEXT_LENGTH={context}` and take `num_ctx` out of clients.",
        mixed,
        KIND,
    ),
    Check(
        "ollama-message",
        "advice",
        "A Modelfile has MESSAGE entries.",
        "They stand before the client's system text in every prompt, so that it is not where prompts begin.",
        "Make the model anew from a Modelfile without MESSAGE: `ollama show --modelfile {model}`, edit, `ollama create`.",
        message,
        KIND,
    ),
    Check(
        "ollama-keep-alive",
        "advice",
        "A loaded model is unloaded soon.",
        "With the model its cache goes: the next request loads it and reads its whole prompt.",
        "Start Ollama with `OLLAMA_KEEP_ALIVE=-1`, and take `keep_alive` out of clients.",
        keep_alive,
        KIND,
    ),
    Check(
        "ollama-spilled",
        "advice",
        "A part of a loaded model is outside of the GPU's memory.",
        "Reading a prompt is many times slower then, so each token that is not reused costs more.",
        "Lower `OLLAMA_CONTEXT_LENGTH` or `num_ctx`, set `OLLAMA_KV_CACHE_TYPE=q8_0`, or take a smaller model.",
        spilled,
        KIND,
    ),
    Check(
        "ollama-parallel",
        "advice",
        "How many requests Ollama works on at once is not known.",
        "It works on one unless OLLAMA_NUM_PARALLEL says otherwise; what the gateway sends beyond that waits inside.",
        "Set `backends: {{ {backend}: {{ parallel: 1 }} }}`, or the value of OLLAMA_NUM_PARALLEL.",
        parallel,
        KIND,
    ),
    Check(
        "ollama-template-clock",
        "serious",
        "A template writes the time of day into the prompt.",
        "What stands behind it is read again whenever the time has changed, whatever the gateway does to the request.",
        "Make the model anew with a TEMPLATE in which the clock is a fixed text: `ollama show --modelfile {model}`.",
        partial(dates, True),
        KIND,
    ),
    Check(
        "ollama-template-date",
        "advice",
        "A template writes the date into the prompt.",
        "At midnight every prefix is read again, whatever the gateway does to the request.",
        "Make the model anew with a TEMPLATE in which the date is a fixed text: `ollama show --modelfile {model}`.",
        partial(dates, False),
        KIND,
    ),
    Check(
        "ollama-tools-behind",
        "advice",
        "A template puts tools behind the system text.",
        "Whatever changes in the system text has the server read all tools again.",
        "Keep `canonical: {{ mode: rewrite }}`, which takes what changes out of the system text.",
        tools_behind,
        KIND,
    ),
)
