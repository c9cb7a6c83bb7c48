"""Probes of what is reused and how that is told: two identical requests, the second of which should find the first's prefix.

Reported, reported as 0 and not reported are three different things.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Literal

from gateway.contract.base import Finding, Probe, differs, judged, kinds_serving, skipped
from gateway.contract.bodies import CHAT, COMPLETIONS, FORMS, LLAMACPP, LMSTUDIO_V0, MESSAGES, OLLAMA_CHAT, RESPONSES
from gateway.contract.server import Server

State = Literal["counted", "zero", "absent"]

WORDS = 150
WORDS_OF_OMLX = 500
"""oMLX caches whole blocks of 256 tokens, so that the prompt must have several. For models that cannot rewind a block has 2048:
there the second request reuses nothing, and that is in order."""

ANY: frozenset[State] = frozenset(("counted", "zero", "absent"))
PATHS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, OLLAMA_CHAT, LLAMACPP, LMSTUDIO_V0)


def expected(server: Server, path: str) -> frozenset[State]:
    """What the second of two identical requests may report.

    Sources: llama.cpp measured; Ollama's releases (counts since 0.33.1, and before that a hard-coded 0 in Responses); LM
    Studio's documentation and tracker (no such figure); vLLM's and oMLX's sources (a flag; a version that it does not tell).
    """
    if server.kind.name == "llamacpp":
        return frozenset(("counted",))
    if server.kind.name == "ollama":
        if server.before(0, 33, 0):
            return frozenset(("zero" if path == RESPONSES else "absent",))
        return ANY if server.before(0, 33, 1) else frozenset(("counted",))
    if server.kind.name == "lmstudio":
        return frozenset(("absent", "zero"))
    if server.kind.name == "omlx":
        return ANY if path == MESSAGES else frozenset(("counted", "zero"))
    return ANY


def state(cached: int | None) -> State:
    return "absent" if cached is None else "counted" if cached else "zero"


def twice(path: str) -> Callable[[Server], Awaitable[Finding]]:
    async def ask(server: Server) -> Finding:
        text = server.text(WORDS_OF_OMLX if server.kind.name == "omlx" else WORDS)
        first = await server.usage(path, text)
        second = await server.usage(path, text)
        found, may = state(second.cached), expected(server, path)
        told = f"cached {_shown(first.cached)}, then {_shown(second.cached)} of {second.prompt}"
        measured = {"first": first.cached, "second": second.cached, "prompt": second.prompt, "source": second.source}
        if first.prompt != second.prompt and not _counts_the_rest(server):
            return differs(
                f"prompt {first.prompt}, then {second.prompt}; expected the same, cached tokens included", **measured
            )
        if found == "absent" or (found in may and found == "zero"):
            return judged(found in may, told, " or ".join(sorted(may)), **measured)
        return judged("counted" in may and _most(second.cached, second.prompt), told, _hint(may), **measured)

    return ask


def _counts_the_rest(server: Server) -> bool:
    """Ollama 0.30.0 alone leaves cached tokens out of the prompt's count. Source: its git history."""
    return server.kind.name == "ollama" and (server.seen.version or "").startswith("0.30.0")


def _hint(may: frozenset[State]) -> str:
    if "counted" not in may:
        return " or ".join(sorted(may))
    return "most of it, unless others use the server now or the model has a sliding window"


def _shown(cached: int | None) -> str:
    return "not reported" if cached is None else str(cached)


def _most(cached: int | None, prompt: int | None) -> bool:
    return cached is not None and prompt is not None and cached * 2 >= prompt


# vLLM's own counters

HITS = re.compile(r"^vllm:(?:gpu_)?prefix_cache_hits(?:_total)?(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


async def vllm_hits(server: Server) -> Finding:
    """Whether the prefix cache works can be seen here also where replies do not tell."""
    text = server.text(WORDS)
    await server.usage(CHAT, text)
    before = await _hits(server)
    usage = await server.usage(CHAT, text)
    after = await _hits(server)
    if before is None or after is None:
        return skipped("/metrics has no vllm:prefix_cache_hits")
    grown = int(after - before)
    detail = f"{grown} more hits for a repeated prompt of {usage.prompt} tokens"
    return judged(grown >= (usage.prompt or 0) // 2, detail, "tokens, most of the prompt: is prefix caching on?", hits=grown)


async def _hits(server: Server) -> float | None:
    found = HITS.findall((await server.get("/metrics")).raw.decode("utf-8", "replace"))
    return sum(map(float, found)) if found else None


PROBES = (
    *(
        Probe(
            f"cached-{FORMS[path].name}",
            f"What {path} reports of reused tokens when a prompt is sent twice.",
            "measured on llama.cpp; the other servers' sources and release notes",
            twice(path),
            kinds_serving(path),
        )
        for path in PATHS
    ),
    Probe(
        "cached-vllm-metrics",
        "vllm:prefix_cache_hits counts tokens, and grows when a prompt is repeated.",
        "vLLM's docs/usage/metrics.md",
        vllm_hits,
        frozenset({"vllm"}),
    ),
)
