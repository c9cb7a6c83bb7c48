"""Token counts: where each kind of server puts them, and which report wins. Pure.

Three states everywhere: reported, reported as 0, and not reported (None). Sources: the servers' documentation and source, read
field by field; llama.cpp's meaning of `timings`, and that its `tokens_cached` is no hit count, were measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.values import Usage

Json = Mapping[str, Any]

NOTHING = Usage()
"""No report at all."""


def as_dict(value: Any) -> Json:
    """The value if it is an object, else an empty one: servers send null, strings and lists where objects belong."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """A token count, or None if the value cannot be one. 12.0 is 12; true, negative numbers and text are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value >= 0 and (isinstance(value, int) or value.is_integer()) else None


def duration(value: Any, unit_ms: float = 1.0) -> float | None:
    """Milliseconds, from a number of units of `unit_ms` milliseconds each."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
        return None
    return float(value) * unit_ms


def openai(doc: Json) -> Usage:
    """OpenAI's `usage` (chat, completions and Responses spellings), LM Studio's `stats`, llama.cpp's `timings`."""
    usage, stats = as_dict(doc.get("usage")), as_dict(doc.get("stats"))
    details = as_dict(usage.get("prompt_tokens_details")) or as_dict(usage.get("input_tokens_details"))
    cached = count(details.get("cached_tokens"))
    told = Usage(
        prompt=first(usage.get("prompt_tokens"), usage.get("input_tokens"), stats.get("input_tokens")),
        cached=cached,
        completion=first(usage.get("completion_tokens"), usage.get("output_tokens"), stats.get("total_output_tokens")),
        source="none" if cached is None else "usage",
    )
    figures = as_dict(doc.get("timings"))
    return timings(figures, told) if figures else told


def timings(figures: Json, told: Usage) -> Usage:
    """`told` with llama.cpp's `timings` laid over it: they are exact where both exist.

    Builds before `cache_n` tell how many tokens were evaluated; the rest of the prompt was reused.
    """
    cached, evaluated = count(figures.get("cache_n")), count(figures.get("prompt_n"))
    prompt = told.prompt
    if cached is not None and evaluated is not None:
        prompt = cached + evaluated
    elif cached is None and evaluated is not None and prompt is not None:
        cached = max(0, prompt - evaluated)
    return Usage(
        prompt=prompt,
        cached=told.cached if cached is None else cached,
        completion=first(figures.get("predicted_n"), told.completion),
        prefill_ms=duration(figures.get("prompt_ms")),
        source=told.source if cached is None else "timings",
    )


def ollama(doc: Json) -> Usage:
    """The figures of Ollama's last object. Durations are nanoseconds. `prompt_eval_count` is the whole prompt since 0.30.1."""
    cached = count(doc.get("prompt_eval_cached_count"))
    return Usage(
        prompt=count(doc.get("prompt_eval_count")),
        cached=cached,
        completion=count(doc.get("eval_count")),
        prefill_ms=duration(doc.get("prompt_eval_duration"), 1e-6),
        load_ms=duration(doc.get("load_duration"), 1e-6),
        source="none" if cached is None else "usage",
    )


def anthropic(usage: Json) -> Usage:
    """Anthropic's `usage`, whose `input_tokens` are only the tokens that no cache was involved in.

    A sum of 0 is a server that does not know yet, because no prompt is empty.
    """
    fresh, read, written = (
        count(usage.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Usage(
        prompt=((fresh or 0) + (read or 0) + (written or 0)) or None,
        cached=read,
        completion=count(usage.get("output_tokens")),
        source="none" if read is None else "usage",
    )


def first(*values: Any) -> int | None:
    """The first value that is a token count."""
    for value in values:
        if (number := count(value)) is not None:
            return number
    return None


def merge(old: Usage, new: Usage) -> Usage:
    """Both reports in one: the newer one wins, but never over `timings`, and what it does not say is kept."""
    if old == NOTHING:
        return new
    low, high = (new, old) if old.source == "timings" != new.source else (old, new)
    return Usage(
        prompt=low.prompt if high.prompt is None else high.prompt,
        cached=low.cached if high.cached is None else high.cached,
        completion=low.completion if high.completion is None else high.completion,
        prefill_ms=low.prefill_ms if high.prefill_ms is None else high.prefill_ms,
        load_ms=low.load_ms if high.load_ms is None else high.load_ms,
        source=low.source if high.cached is None else high.source,
    )


def distrust_zero(usage: Usage) -> Usage:
    """A reported 0 turned into *not reported*, for servers that write 0 without looking.

    Ollama up to 0.33.0 does so in `/v1/responses`, vLLM and SGLang may. A dialect cannot know the server, so it reports what it
    reads, and whoever knows the backend's kind and version applies this. `timings` are always believed.
    """
    if usage.cached == 0 and usage.source == "usage":
        return replace(usage, cached=None, source="none")
    return usage
