"""Checks of oMLX. Source of facts: its README and server.py. Nothing asked here loads a model."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.doctor.base import Check, Seen, only
from gateway.doctor.subject import Subject

KIND = only("omlx")


async def not_pinned(subject: Subject) -> Iterable[Seen]:
    names = [model.name for model in subject.loaded if model.expires is None]
    return [Seen(f"{name} is loaded and not pinned.", {"model": name}) for name in names]


async def nothing_loaded(subject: Subject) -> Iterable[Seen]:
    known = [model for model in subject.seen.models if model.resident is not None]
    idle = known and not subject.loaded
    return [Seen("No model is loaded: the next request has to wait for that.", {"model": known[0].name})] if idle else []


async def blocks(subject: Subject) -> Iterable[Seen]:
    return [Seen("It reuses whole blocks of 256 tokens, of 2048 for models that cannot rewind.")]


CHECKS: tuple[Check[Subject], ...] = (
    Check(
        "omlx-not-pinned",
        "advice",
        "A loaded model is not pinned.",
        "The model that was not used for the longest time goes when another needs its memory.",
        "Pin {model} in oMLX's settings, and give it no TTL.",
        not_pinned,
        KIND,
    ),
    Check(
        "omlx-nothing-loaded",
        "advice",
        "No model is loaded.",
        "The next request has to wait for the model, and for all that is not in the cache on disk.",
        "Pin {model} in oMLX's settings: it is then loaded at start-up.",
        nothing_loaded,
        KIND,
    ),
    Check(
        "omlx-blocks",
        "note",
        "Reuse is counted in whole blocks.",
        "Prompts shorter than a block are never reused, and up to a block is read again each time.",
        "Nothing to set; start oMLX with `--paged-ssd-cache-dir` so that blocks outlast a restart.",
        blocks,
        KIND,
    ),
)
