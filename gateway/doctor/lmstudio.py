"""Checks of LM Studio. Source of facts: its developer docs and bug tracker. Nothing asked here loads a model."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.backends.lmstudio import V1
from gateway.contract.suite import NOT_FOR_TALK
from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject

KIND = only("lmstudio")


async def no_counts(subject: Subject) -> Iterable[Seen]:
    return [Seen("Its answers have no figure of cached tokens.")]


async def old(subject: Subject) -> Iterable[Seen]:
    rows = (await subject.get(V1)).doc.get("models")
    return [] if isinstance(rows, list) else [Seen(f"It has no {V1}: it is older than 0.4.0.")]


async def nothing_loaded(subject: Subject) -> Iterable[Seen]:
    talking = [m for m in subject.seen.models if not any(part in m.name.lower() for part in NOT_FOR_TALK)]
    if not talking or any(model.resident for model in talking):
        return []
    return [Seen("No model is loaded: the next request has to wait for that.", {"model": talking[0].name})]


async def several(subject: Subject) -> Iterable[Seen]:
    """More models asked for than are loaded: with auto-evict, one goes for each other."""
    asked = sorted({row.model for row in subject.asked if row.model})
    loaded = len(subject.loaded)
    if len(asked) < 2 or loaded >= len(asked):
        return []
    return [Seen(f"Clients ask for {len(asked)} models ({', '.join(asked[:4])}), of which {loaded} are loaded now.")]


async def duplicate(subject: Subject) -> Iterable[Seen]:
    """Instances beyond a model's first are called `key:2` and so on."""
    rows = (await subject.get(V1)).doc.get("models") or ()
    counted = {str(row.get("key")): len(row.get("loaded_instances") or ()) for row in rows if isinstance(row, dict)}
    return [Seen(f"{key} is loaded {count} times.", {"model": key}) for key, count in counted.items() if count > 1]


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "lmstudio-no-counts",
        "note",
        "LM Studio reports no cached tokens.",
        "What was reused can only be guessed from times; the gateway says `not reported`, never 0.",
        "Nothing to set: `warmgate doctor --probe MODEL` measures by time whether a model reuses.",
        no_counts,
        KIND,
    ),
    Check(
        "lmstudio-old",
        "advice",
        "The version has no REST API v1.",
        "Which instances are loaded, and with which context, can be told less exactly.",
        "Update LM Studio to 0.4.0 or later.",
        old,
        KIND,
    ),
    Check(
        "lmstudio-nothing-loaded",
        "advice",
        "No model is loaded.",
        "A model that a request loads (JIT) goes after 60 minutes without requests, and its cache with it.",
        "Load it before: `lms load {model} --context-length 65536`; such a model stays.",
        nothing_loaded,
        KIND,
    ),
    Check(
        "lmstudio-auto-evict",
        "serious",
        "Clients ask for more models than are loaded.",
        "With Auto-Evict on, each model that a request loads throws the other out, with its cache.",
        "Load both with `lms load`, or turn off `Auto-Evict` in the server's settings.",
        several,
        KIND,
    ),
    Check(
        "lmstudio-duplicate",
        "advice",
        "A model is loaded more than once.",
        "The instances share no cache, and requests by the model's name reach only one of them.",
        "Unload the second one: `lms unload {model}:2`.",
        duplicate,
        KIND,
    ),
)
