"""Probes at the edges: no tokens wanted, more prompt than fits, a client that leaves, and what comes before the first token."""

from __future__ import annotations

import asyncio
import re
import time

from gateway.contract.base import Finding, Probe, differs, judged, ok, skipped
from gateway.contract.bodies import CHAT, OLLAMA_CHAT, QUESTION
from gateway.contract.heard import Heard
from gateway.contract.server import Server, answered

# max_tokens 0

ENOUGH = 3  # pieces of content after which an answer is taken for unlimited
ZERO = {"llamacpp": ("one",), "vllm": ("refused",)}
"""What `max_tokens: 0` comes to. Source: measured on llama.cpp; vLLM answers 400. On Ollama it depends on the path: 0 may be
left out on the way to its child, which then has no limit."""


async def zero_tokens(server: Server) -> Finding:
    """As a stream that is left after a few pieces, because 0 may mean no limit."""
    heard = await server.hear(CHAT, server.body(CHAT, QUESTION, 0, stream=True), until=lambda heard: said(heard) >= ENOUGH)
    found = "refused" if heard.status >= 400 else {0: "none", 1: "one"}.get(said(heard), "several")
    may = ZERO.get(server.kind.name, ("none", "one", "several", "refused"))
    return judged(found in may, f"{heard.status}, pieces of content: {found}", " or ".join(may), found=found)


def said(heard: Heard) -> int:
    """Pieces of content so far."""
    choices = [doc["choices"][0] for _, doc in heard.events() if isinstance(doc, dict) and doc.get("choices")]
    deltas = [choice.get("delta") or {} for choice in choices if isinstance(choice, dict)]
    return sum(bool(delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning")) for delta in deltas)


# a prompt that does not fit

CHEAP = 40_000
"""Tokens of context up to which a prompt above it is still a small body."""


async def too_long(server: Server) -> Finding:
    """Refused before anything is evaluated; nothing may be cut silently."""
    info = next((m for m in (await server.kind.probe(server.control)).models if m.name == server.model), None)
    context = info.context if info else None
    if not context:
        return skipped("the server does not tell the model's context")
    if context > CHEAP:
        return skipped(f"a context of {context} tokens is too large to be overrun cheaply", context=context)
    path, fields = (OLLAMA_CHAT, {"truncate": False}) if server.kind.name == "ollama" else (CHAT, {})
    heard = await server.post(path, server.body(path, server.text(context + 64), 1) | fields)
    fine = heard.status == 400
    if server.kind.name == "llamacpp":
        error = heard.doc.get("error") or {}
        fine = fine and error.get("type") == "exceed_context_size_error" and error.get("n_prompt_tokens", 0) >= context
    return judged(fine, f"{heard.status}: {heard.words}", "400 that says so", status=heard.status, context=context)


# leaving

LONG = 400  # tokens of the answer that is left
GRACE = 2.0
"""Seconds in which a server must have noticed that a client left, besides five times what a one-token answer takes. llama.cpp
looks once a second. `/slots` and `/metrics` are asked at most every two seconds: more often keeps llama.cpp from noticing."""

ONE_BY_ONE = frozenset({"ollama"})
"""Kinds that do not tell what is running, but work on one request at a time unless they are told otherwise."""

RUNNING = re.compile(r"^vllm:num_requests_running(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


async def leave(server: Server) -> Finding:
    """Leaves a stream at its first piece and asks something else at once."""
    before = await busy(server)
    asked = server.body(CHAT, QUESTION + " Then start again, for ever.", LONG, stream=True)
    left = answered(await server.hear(CHAT, asked, until=lambda heard: heard.seen.visible or heard.seen.first is not None))
    if left.seen.finished or left.seen.stopped:
        return skipped("the answer was over before it could be left")
    second = await server.answer(CHAT, server.text(8), 1)
    allowed = GRACE + 5 * server.baseline
    several = "" if server.kind.name in ONE_BY_ONE else " (it may work on several at once, so that this proves little)"
    detail = f"the next answer came {second.end:.2f} s after a stream was left{several if before is None else ''}"
    if second.end > allowed:
        return differs(f"{detail}; expected {allowed:.1f} s at most", seconds=second.end)
    if before is None:
        return ok(detail, seconds=second.end)
    freed = await _freed(server, before)
    if freed is None:
        return differs(f"{detail}, but the stream that was left is still being worked on", seconds=second.end)
    return ok(f"{detail}, and nothing was left running after {freed:.1f} s", seconds=second.end, freed=freed)


async def _freed(server: Server, before: int) -> float | None:
    """Seconds until no more requests run than before; None if that does not come."""
    began = time.monotonic()
    for pause in (0.0, GRACE, GRACE):
        await asyncio.sleep(pause)
        if (await busy(server) or 0) <= before:
            return time.monotonic() - began
    return None


async def busy(server: Server) -> int | None:
    """Requests at work, where the kind tells; None where it does not."""
    if server.kind.name == "llamacpp":
        heard = await server.get("/slots")
        slots = heard.body if heard.status == 200 else None
        return sum(slot.get("is_processing") is True for slot in slots) if isinstance(slots, list) else None
    if server.kind.name == "vllm":
        found = RUNNING.findall((await server.get("/metrics")).raw.decode("utf-8", "replace"))
        return int(sum(map(float, found))) if found else None
    return None


# before the first token

MEASURABLE = 100.0  # milliseconds of prefill


async def headers_first(server: Server) -> Finding:
    """How long a client waits for the headers, and how long for the first piece."""
    heard = answered(await server.hear(CHAT, server.body(CHAT, server.text(150), 1, stream=True)))
    first = heard.end if heard.first is None else heard.first
    measured = {"headers": round(heard.headers, 4), "first": round(first, 4)}
    detail = f"headers after {1000 * heard.headers:.0f} ms, first piece after {1000 * first:.0f} ms"
    prefill = heard.seen.usage.prefill_ms or 0.0
    if server.kind.name != "llamacpp" or prefill < MEASURABLE:
        return ok(detail, **measured)
    early = 1000 * (first - heard.headers) >= prefill / 2
    return judged(early, f"{detail}, prefill {prefill:.0f} ms", "the headers before the prefill", **measured)


PROBES = (
    Probe(
        "zero-tokens",
        "What `max_tokens: 0` comes to: nowhere is it a way to evaluate a prompt and say nothing.",
        "measured on llama.cpp; vLLM's and Ollama's sources",
        zero_tokens,
    ),
    Probe(
        "context-exceeded",
        "A prompt above the context is refused with 400, at once.",
        "llama.cpp's README and measured; vLLM's and Ollama's sources",
        too_long,
        frozenset({"llamacpp", "vllm", "ollama"}),
    ),
    Probe(
        "leave-stream",
        "A client that leaves a stream frees the server for the next request.",
        "measured on llama.cpp; the other servers' sources",
        leave,
    ),
    Probe(
        "headers-first",
        "When the headers come and when the first piece: on llama.cpp the headers come with the slot, before the prefill.",
        "measured on llama.cpp",
        headers_first,
    ),
)
