"""Checks of llama-swap, of whose servers nothing can be asked without starting them, and of plain OpenAI-shaped servers."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject

SWAP, PLAIN = only("llamaswap"), only("openai")
SHORT = 1800
"""Seconds of a `ttl` that is called short."""


async def behind(subject: Subject) -> Iterable[Seen]:
    return [Seen(f"What runs behind its {len(subject.seen.models)} models cannot be asked without starting it.")]


async def swapping(subject: Subject) -> Iterable[Seen]:
    asked = {row.model for row in subject.asked if row.model}
    if len(asked) < 2 or len(subject.loaded) >= len(asked):
        return []
    return [Seen(f"Clients ask for {len(asked)} models, of which {len(subject.loaded)} are running.")]


async def short_ttl(subject: Subject) -> Iterable[Seen]:
    rows = (await subject.get("/running")).doc.get("running") or ()
    return [
        Seen(f"{row.get('model')} is stopped after {row['ttl']} s without requests.", {"model": row.get("model")})
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("ttl"), int) and 0 < row["ttl"] < SHORT
    ]


async def unknown(subject: Subject) -> Iterable[Seen]:
    return [Seen("It answers as an OpenAI-shaped server, and nothing more is known of it.")]


async def parallel(subject: Subject) -> Iterable[Seen]:
    unset = subject.config.parallel is None
    return [Seen("How many requests it works on at once cannot be asked.", {"backend": subject.name})] if unset else []


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "llamaswap-behind",
        "note",
        "The servers behind llama-swap cannot be looked at.",
        "Their slots and caches decide what is reused.",
        "Put `-np`, `-c`, `--slot-save-path` and `--metrics` into the models' `cmd`, as the rows for llama.cpp say.",
        behind,
        SWAP,
    ),
    Check(
        "llamaswap-swapping",
        "serious",
        "Clients ask for more models than run at a time.",
        "Each change of model stops a server, and with it goes its cache.",
        "Put models that are used in turn into a `groups` entry with `swap: false`, or let clients use one model.",
        swapping,
        SWAP,
    ),
    Check(
        "llamaswap-short-ttl",
        "advice",
        "A model is stopped after a short time without requests.",
        "With its server its cache goes: the next request loads it and reads its whole prompt.",
        "Set `ttl: 0` (never) for {model} in llama-swap's configuration.",
        short_ttl,
        SWAP,
    ),
    Check(
        "openai-unknown",
        "note",
        "The server's kind is not known.",
        "Whether it reuses prompts, and where it says so, can only be measured.",
        "Set its `kind` if it is one that Warmgate knows; `warmgate doctor --probe MODEL` measures the rest.",
        unknown,
        PLAIN,
    ),
    Check(
        "openai-parallel",
        "advice",
        "How many requests the server works on at once is not known.",
        "The gateway then sends it all it gets, which may wait inside without order, or push each other out.",
        "Set `backends: {{ {backend}: {{ parallel: 1 }} }}`, or as many as it works on at once.",
        parallel,
        PLAIN,
    ),
)
