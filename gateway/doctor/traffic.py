"""Checks of what clients did, as the running gateway remembers it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from gateway.doctor.base import Check, Seen
from gateway.doctor.running import Asked
from gateway.doctor.subject import Setup

BREAKING = frozenset({"system_changed", "tools_changed", "history_changed"})
"""Reasons for a miss that lie in the prompt."""

PUSHED = frozenset({"evicted", "slot_moved"})

FEW = 3
"""Times that something must have happened to be worth a word."""

SHARE = 0.25
"""Share of an agent's requests from which on its prompts are said to break."""

SILENCE = 20.0
"""Seconds after which a client that left before the first token is taken to have given up."""

Key = TypeVar("Key", bound=Hashable)


def grouped(rows: Iterable[Asked], key: Callable[[Asked], Key]) -> dict[Key, list[Asked]]:
    found: dict[Key, list[Asked]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


async def prompts_break(setup: Setup) -> Iterable[Seen]:
    found = []
    for agent, rows in grouped(setup.asked, lambda row: row.agent).items():
        broken = [row for row in rows if row.reason in BREAKING]
        if len(broken) >= FEW and len(broken) >= SHARE * len(rows):
            reasons = ", ".join(f"{reason} {count}" for reason, count in Counter(row.reason for row in broken).most_common())
            told = f"{agent}: {len(broken)} of {len(rows)} requests lost their prefix ({reasons})."
            found.append(Seen(told, {"id": broken[0].id}))
    return found


async def params_change(setup: Setup) -> Iterable[Seen]:
    changed = grouped((row for row in setup.asked if row.reason == "params_changed"), lambda row: row.agent)
    return [
        Seen(f"{agent}: {len(rows)} requests came with other parameters than those before.", {"id": rows[0].id})
        for agent, rows in changed.items()
        if len(rows) >= FEW
    ]


async def pushed_out(setup: Setup) -> Iterable[Seen]:
    lost = grouped((row for row in setup.asked if row.reason in PUSHED), lambda row: row.backend)
    return [
        Seen(f"{backend}: {len(rows)} requests found their prefix pushed out by others.", {"backend": backend})
        for backend, rows in lost.items()
        if len(rows) >= FEW
    ]


async def reloads(setup: Setup) -> Iterable[Seen]:
    loaded = grouped((row for row in setup.asked if row.reason == "model_loaded"), lambda row: (row.backend, row.model))
    return [
        Seen(f"{backend}: {model} was loaded anew before {len(rows)} requests.")
        for (backend, model), rows in loaded.items()
        if len(rows) >= FEW
    ]


async def gave_up(setup: Setup) -> Iterable[Seen]:
    left = (r for r in setup.asked if r.outcome == "cancelled" and r.ttft is None and r.duration >= SILENCE)
    return [
        Seen(f"{agent} left {len(rows)} times before the first token, after {min(r.duration for r in rows):.0f} s and more.")
        for agent, rows in grouped(left, lambda row: row.agent).items()
        if len(rows) >= FEW
    ]


async def not_counted(setup: Setup) -> Iterable[Seen]:
    answered = (row for row in setup.asked if row.outcome == "ok" and row.prompt)
    return [
        Seen(f"{backend}: none of {len(rows)} answers told cached tokens.")
        for backend, rows in grouped(answered, lambda row: row.backend).items()
        if len(rows) >= FEW and all(row.cached_source in (None, "none") for row in rows)
    ]


CHECKS: tuple[Check[Setup], ...] = (
    Check(
        "prompts-break",
        "serious",
        "An agent's prompts change where they should stay the same.",
        "All that stands behind the change is read again.",
        "`warmgate explain {id}` shows what changed, and the line that stops it.",
        prompts_break,
    ),
    Check(
        "params-change",
        "advice",
        "An agent changes parameters from request to request.",
        "On Ollama another `num_ctx` or `shift` loads the model anew; elsewhere other flags change the prompt's head.",
        "Fix them in the client, and take `num_ctx` out of it; `warmgate explain {id}` shows one of the requests.",
        params_change,
    ),
    Check(
        "pushed-out",
        "advice",
        "Prompts are pushed out of the cache by others.",
        "There are more conversations in turn than the server keeps.",
        "Give {backend} more slots or cache (llama.cpp: `-np`, `--cache-ram`), or send side requests to another model.",
        pushed_out,
    ),
    Check(
        "reloads",
        "serious",
        "A model is loaded anew again and again.",
        "Each load takes seconds to minutes, and drops the cache.",
        "Keep it loaded (Ollama: `OLLAMA_KEEP_ALIVE=-1`), with one context for all clients, and no other model in its memory.",
        reloads,
    ),
    Check(
        "gave-up",
        "serious",
        "A client gives up before the first token.",
        "Its prompt is read for nothing, and mostly sent again.",
        "Set `heartbeat: {{ before_headers: 15s, non_stream: 15s }}`, or a longer time-out in the client.",
        gave_up,
    ),
    Check(
        "not-counted",
        "note",
        "A server tells no cached tokens.",
        "What was reused there is not known; the gateway says `not reported`, never 0.",
        "The rows of the server's kind say whether a setting or a newer version helps.",
        not_counted,
    ),
)
