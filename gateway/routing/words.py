"""What a choice cost and why it was made, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.routing.board import Engine
from gateway.routing.cost import Option

TERMS = ("wait", "prefill", "load", "disk", "overwrite", "stall")

HOLDS = {
    "full": "everything is busy",
    "asked": "the slot that the client asks for is busy",
    "wait_warm": "what holds the prompt is busy",
    "wait_prefix": "another request computes the same beginning",
    "wait_side": "a side request leaves the conversation its slot until that pauses",
    "wait_context": "the context that all share is full",
    "wait_model": "loading the model would push out one that is answering",
}


def costs(option: Option) -> Mapping[str, float]:
    """Milliseconds by term; those of 0 are left out, but for the prefill."""
    terms = {term: round(getattr(option, term) * 1000, 1) for term in TERMS}
    return {term: cost for term, cost in terms.items() if cost or term == "prefill"}


def reasons(option: Option, now: float) -> tuple[str, ...]:
    return tuple(_sentences(option, now))


def _sentences(option: Option, now: float) -> Iterator[str]:
    place = _place(option.engine, option.slot)
    if option.hold is not None:
        yield f"{HOLDS[option.hold]}: about {option.wait:.1f} s"
    if option.restore is not None:
        yield f"{place} gets {option.restore.tokens} tokens from a snapshot in {option.restore.seconds * 1000:.0f} ms"
    elif option.reused:
        yield f"{place} holds {option.reused} tokens of the prompt"
    else:
        yield f"{place} holds nothing of the prompt"
    held = option.replaced
    if held is not None and option.overwrite:
        idle = f"used {held.hits + 1} times, idle for {now - held.used:.0f} s"
        yield f"a prefix of {held.tokens} tokens is overwritten ({idle}), worth {option.overwrite:.1f} s"
    if option.save:
        yield "it is saved before"
    if option.load:
        yield f"the model is loaded first: {option.load:.0f} s"


def _place(engine: Engine, slot: int | None) -> str:
    return engine.backend if slot is None else f"slot {slot} of {engine.backend}"
