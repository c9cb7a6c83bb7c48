"""`--canary`: does one conversation's text ever come out in another's answer?

Prefix caches of several engines have done that (llama.cpp #27148, Ollama #17599, mlx-lm #965 and #975), and a gateway that has
more reused would have more of it. Two prompts with markers of their own are asked in turn, then at the same time; none may show
the other's marker. That a marker is not said at all proves nothing, and is told.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.contract.bodies import CHAT
from gateway.contract.server import Server, answered
from gateway.doctor.base import Check, Seen

IN_TURN, AT_ONCE = 2, 2  # rounds of both prompts
TOKENS = 32
WORDS = 60  # in front of the question, so that there is something to reuse


@dataclass(frozen=True, slots=True)
class Said:
    """An answer. own, other: whether it shows the marker of its prompt, and that of the other; how: `in turn` or `at once`."""

    how: str
    own: bool
    other: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """All answers of a run."""

    model: str
    answers: tuple[Said, ...]

    @property
    def crossed(self) -> list[Said]:
        return [answer for answer in self.answers if answer.other]

    def data(self) -> dict[str, Any]:
        own = sum(answer.own for answer in self.answers)
        return {"model": self.model, "answers": len(self.answers), "own": own, "crossed": len(self.crossed)}


async def sing(server: Server) -> Heard:
    """Raises Settled where an answer is none, and httpx.HTTPError where there is no answer."""
    shared, markers = server.text(WORDS), (_marker(), _marker())
    prompts = [_prompt(shared, marker) for marker in markers]

    async def ask(number: int, how: str) -> Said:
        said = _words(answered(await server.post(CHAT, server.body(CHAT, prompts[number], TOKENS))).doc)
        return Said(how, own=markers[number] in said, other=markers[1 - number] in said)

    answers = [await ask(number, "in turn") for _ in range(IN_TURN) for number in (0, 1)]
    answers += await asyncio.gather(*(ask(number, "at once") for _ in range(AT_ONCE) for number in (0, 1)))
    return Heard(server.model, tuple(answers))


def _marker() -> str:
    """Digits that no model says by chance."""
    return f"{secrets.randbelow(9 * 10**8) + 10**8}"


def _prompt(shared: str, marker: str) -> str:
    """Both begin alike, as those of two sessions of one agent do."""
    return f"{shared}\nThe number of this conversation is {marker}. Repeat the number of this conversation and nothing else."


def _words(doc: dict[str, Any]) -> str:
    """All that the answer says, reasoning and tool calls included. Blanks and commas within numbers do not hide a marker."""
    message = [choice.get("message") for choice in doc.get("choices") or () if isinstance(choice, dict)]
    return json.dumps(message).replace(" ", "").replace(",", "")


async def crossed(heard: Heard) -> Iterable[Seen]:
    if not heard.crossed:
        return []
    hows = " and ".join(sorted({answer.how for answer in heard.crossed}))
    told = f"{len(heard.crossed)} of {len(heard.answers)} answers of {heard.model} show another conversation's number ({hows})."
    return [Seen(told)]


async def clean(heard: Heard) -> Iterable[Seen]:
    own = sum(answer.own for answer in heard.answers)
    if heard.crossed or not own:
        return []
    return [Seen(f"{own} of {len(heard.answers)} answers of {heard.model} show their own number, none the other's.")]


async def mute(heard: Heard) -> Iterable[Seen]:
    if any(answer.own or answer.other for answer in heard.answers):
        return []
    return [Seen(f"None of {len(heard.answers)} answers of {heard.model} shows any number: it does not do as it is told.")]


CHECKS: tuple[Check[Heard], ...] = (
    Check(
        "canary-crossed",
        "serious",
        "An answer shows what was said in another conversation.",
        "The server mixes up caches: answers may be wrong, and tell one user what another wrote.",
        "Update the server; until then have it work on one request at a time (`parallel: 1`), or turn its prefix cache off.",
        crossed,
    ),
    Check(
        "canary-clean",
        "note",
        "Answers show their own conversation only.",
        "Prompts that were asked in turn and at the same time did not mix.",
        "Nothing to set.",
        clean,
    ),
    Check(
        "canary-mute",
        "note",
        "Nothing crossed over, but the model did not say its number at all.",
        "A model that does not repeat what it is told to proves little.",
        "Ask again with a model that follows instructions.",
        mute,
    ),
)
