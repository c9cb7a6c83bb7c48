"""Checks of vLLM. Source of facts: its docs on serving and metrics. A prompt that is repeated shows what it reports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gateway.contract.bodies import CHAT
from gateway.contract.caching import HITS
from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject

KIND = only("vllm")
WORDS = 100
CONFIG_OFF = re.compile(r"^vllm:cache_config_info\{[^}]*enable_prefix_caching=\"False\"", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Repeated:
    """Of a prompt that was sent twice. cached: what the second reply reported; hits: how far the server's counter went, in
    tokens, None where it has none."""

    prompt: int | None
    cached: int | None
    hits: float | None


async def repeated(subject: Subject) -> Repeated | None:
    """Asked once, and never of a sleeping server."""
    if "repeated" not in subject.memo:
        subject.memo["repeated"] = None if subject.seen.sleeping else await _repeat(subject)
    found: Repeated | None = subject.memo["repeated"]
    return found


async def _repeat(subject: Subject) -> Repeated:
    text = subject.server.text(WORDS)
    await subject.server.usage(CHAT, text)
    before = await _hits(subject)
    usage = await subject.server.usage(CHAT, text)
    after = await _hits(subject)
    return Repeated(usage.prompt, usage.cached, None if before is None or after is None else after - before)


async def _hits(subject: Subject) -> float | None:
    found = HITS.findall((await subject.server.get("/metrics")).raw.decode("utf-8", "replace"))
    return sum(map(float, found)) if found else None


async def caching_off(subject: Subject) -> Iterable[Seen]:
    if CONFIG_OFF.search((await subject.get("/metrics")).raw.decode("utf-8", "replace")):
        return [Seen("/metrics says enable_prefix_caching False.")]
    found = await repeated(subject)
    if found is None or found.cached or found.hits is None or found.hits > 0:
        return []
    return [Seen(f"A prompt of {found.prompt} tokens that was repeated at once gave no hit in vllm:prefix_cache_hits.")]


async def no_details(subject: Subject) -> Iterable[Seen]:
    found = await repeated(subject)
    if found is None or found.cached is not None or found.hits == 0:  # without hits there may be nothing to report
        return []
    return [Seen("A repeated prompt was answered without a count of cached tokens.")]


async def no_metrics(subject: Subject) -> Iterable[Seen]:
    missing = "vllm:" not in (await subject.get("/metrics")).raw.decode("utf-8", "replace")
    return [Seen("/metrics has no vllm: counters.")] if missing else []


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "vllm-caching-off",
        "serious",
        "Prefix caching is off.",
        "Every request reads its whole prompt.",
        "Start vLLM without `--no-enable-prefix-caching`.",
        caching_off,
        KIND,
    ),
    Check(
        "vllm-no-details",
        "advice",
        "Answers do not tell cached tokens.",
        "What was reused is then not known for each request; the gateway says `not reported`, never 0.",
        "Start vLLM with `--enable-prompt-tokens-details`.",
        no_details,
        KIND,
    ),
    Check(
        "vllm-no-metrics",
        "note",
        "The server's own counters are not there.",
        "Whether its prefix cache works cannot be seen from outside.",
        "Start vLLM without `--disable-log-stats`, and let `/metrics` through to the gateway.",
        no_metrics,
        KIND,
    ),
)
