"""`--probe`: whether a model reuses prompts at all, measured with small invented requests of one token's answer each.

    load     a few words, twice: the model is there, and what a request costs beside its prompt is known
    cold     a system text and tools that nobody has seen
    again    the same with another question: what was reused?
    side     something else, as a title or summary is asked for
    back     the first again: did the prompt outlast another?
    others   the same system text with other tools: reused up to the tools, if they stand behind it

Counts of cached tokens decide where there are some, else times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gateway.contract.bodies import CHAT, prose
from gateway.contract.heard import Heard
from gateway.contract.server import Server, answered
from gateway.doctor.base import Check, Seen

WORDS = 350  # of the system text: more than a block of servers that reuse whole blocks of up to 256 tokens
TOOLS, TOOL_WORDS = 3, 60  # about half as long as the system text
LOAD_WORDS, SIDE_WORDS = 8, 60

MEASURABLE = 0.15
"""Seconds that a cold prompt must take for times to prove anything."""

FASTER = 0.5
"""Share of the cold time below which a repeated prompt is taken to have been reused."""

LITTLE = 0.2  # share of a prompt below which nothing that counts was reused

Place = Literal["before", "behind", "unknown"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. seconds: to the whole answer, less what a request without a prompt takes; prompt, cached: tokens; prefill:
    milliseconds that the server says it took; None where it does not tell."""

    seconds: float
    prompt: int | None
    cached: int | None
    prefill: float | None

    @property
    def share(self) -> float | None:
        return self.cached / self.prompt if self.cached is not None and self.prompt else None


@dataclass(frozen=True, slots=True)
class Measured:
    """through: the gateway was in between; blind: a count of 0 from this server proves nothing."""

    model: str
    through: bool
    blind: bool
    cold: Asked
    again: Asked
    back: Asked
    others: Asked

    @property
    def counted(self) -> bool:
        """Whether the server tells cached tokens."""
        told = [one.cached for one in (self.again, self.back, self.others)]
        return any(told) or (not self.blind and None not in told)

    def reused(self, one: Asked) -> bool | None:
        """None: neither counts nor times tell."""
        if self.counted:
            return (one.share or 0.0) >= LITTLE
        if self.cold.seconds < MEASURABLE:
            return None
        return one.seconds < FASTER * self.cold.seconds

    @property
    def tools(self) -> Place:
        """Where tools stand to the system text: other tools cost the system text only where they stand before it."""
        if not self.counted or not self.reused(self.again):
            return "unknown"
        return "behind" if (self.others.share or 0.0) >= LITTLE else "before"

    @property
    def rate(self) -> float | None:
        """Tokens of prompt that are read in a second."""
        fresh = None if self.cold.prompt is None else self.cold.prompt - (self.cold.cached or 0)
        seconds = self.cold.prefill / 1000 if self.cold.prefill else self.cold.seconds
        return fresh / seconds if fresh and seconds > 0 else None

    def data(self) -> dict[str, Any]:
        rows = {name: asdict(getattr(self, name)) for name in ("cold", "again", "back", "others")}
        return {
            "model": self.model,
            "through_gateway": self.through,
            "counted": self.counted,
            "reused": self.reused(self.again),
            "outlasts_another": self.reused(self.back),
            "tools": self.tools,
            "prefill_rate": None if self.rate is None else round(self.rate, 1),
            "requests": rows,
        }


async def measure(server: Server, *, through: bool) -> Measured:
    """Raises Settled where an answer is none, and httpx.HTTPError where there is no answer."""
    await server.answer(CHAT, server.text(LOAD_WORDS), 1)
    base = (await server.answer(CHAT, server.text(LOAD_WORDS), 1)).end
    system, seed = server.text(WORDS), server.text(1)
    first, second = _tools(f"{seed} first"), _tools(f"{seed} second")

    async def ask(tools: list[dict[str, Any]], number: str) -> Asked:
        return _read(answered(await server.post(CHAT, _body(server, system, tools, number))), base)

    cold, again = await ask(first, "one"), await ask(first, "two")
    await server.answer(CHAT, server.text(SIDE_WORDS), 1)
    back, others = await ask(first, "three"), await ask(second, "four")
    return Measured(server.model, through, CHAT in server.kind.blind_zero, cold, again, back, others)


def _body(server: Server, system: str, tools: list[dict[str, Any]], number: str) -> dict[str, Any]:
    body = server.body(CHAT, f"Say the number {number}.", 1)
    return body | {"messages": [{"role": "system", "content": system}, *body["messages"]], "tools": tools}


def _tools(seed: str) -> list[dict[str, Any]]:
    """Invented tools that differ from their first word on between two seeds."""
    return [
        {
            "type": "function",
            "function": {
                "name": f"{prose(1, f'{seed} {number}').split()[-1]}_{number}",
                "description": prose(TOOL_WORDS, f"{seed} {number} words"),
                "parameters": {"type": "object", "properties": {}},
            },
        }
        for number in range(TOOLS)
    ]


def _read(heard: Heard, base: float) -> Asked:
    usage = heard.seen.usage
    return Asked(max(heard.end - base, 0.0), usage.prompt, usage.cached, usage.prefill_ms)


# what it means


def shown(one: Asked) -> str:
    cached = "not reported" if one.cached is None else str(one.cached)
    return f"{one.seconds:.2f} s for {one.prompt} tokens, cached {cached}"


async def no_reuse(measured: Measured) -> Iterable[Seen]:
    if measured.reused(measured.again) is not False:
        return []
    told = f"{measured.model}: {shown(measured.cold)}; with the same head again {shown(measured.again)}."
    return [Seen(told)]


async def unclear(measured: Measured) -> Iterable[Seen]:
    if measured.reused(measured.again) is not None:
        return []
    return [Seen(f"{measured.model} tells no cached tokens, and read all in {measured.cold.seconds:.2f} s.")]


async def reuse(measured: Measured) -> Iterable[Seen]:
    if not measured.reused(measured.again):
        return []
    rate = "" if measured.rate is None else f"; it reads about {measured.rate:,.0f} tokens a second"
    return [Seen(f"{measured.model}: {shown(measured.cold)}; again {shown(measured.again)}{rate}.")]


async def uncounted(measured: Measured) -> Iterable[Seen]:
    return [] if measured.counted else [Seen(f"{measured.model}: answers do not tell cached tokens.")]


async def evicted(measured: Measured) -> Iterable[Seen]:
    if not measured.reused(measured.again) or measured.reused(measured.back) is not False:
        return []
    return [Seen(f"{measured.model}: after another prompt, {shown(measured.back)}.")]


async def tools_before(measured: Measured) -> Iterable[Seen]:
    told = f"{measured.model}: with other tools, {shown(measured.others)}."
    return [Seen(told)] if measured.tools == "before" else []


async def tools_behind(measured: Measured) -> Iterable[Seen]:
    told = f"{measured.model}: with other tools, {shown(measured.others)}."
    return [Seen(told)] if measured.tools == "behind" else []


CHECKS: tuple[Check[Measured], ...] = (
    Check(
        "probe-no-reuse",
        "serious",
        "A prompt that was just read is read again in full.",
        "Every request of every client costs its whole prompt.",
        "`warmgate doctor` names the settings of the server; a sliding-window or hybrid model may have that limit.",
        no_reuse,
    ),
    Check(
        "probe-unclear",
        "note",
        "Whether the model reuses prompts could not be told.",
        "The server tells no cached tokens, and was too quick for times to prove anything.",
        "Nothing to set: what is read that quickly costs little.",
        unclear,
    ),
    Check(
        "probe-reuse",
        "note",
        "A prompt that was just read is reused.",
        "That is what the gateway builds on.",
        "Nothing to set.",
        reuse,
    ),
    Check(
        "probe-uncounted",
        "advice",
        "Answers do not tell cached tokens.",
        "What was reused is then not known for each request; the gateway says `not reported`, never 0.",
        "The rows of the server's kind say whether a setting or a newer version helps.",
        uncounted,
    ),
    Check(
        "probe-evicted",
        "serious",
        "A prompt does not outlast one other prompt.",
        "Each title, summary or second agent has the conversation's whole prompt read again.",
        "Give the server more slots or cache (llama.cpp: `-np 2`, `--cache-ram`), or send side requests to another model.",
        evicted,
    ),
    Check(
        "probe-tools-before",
        "note",
        "Tools stand before the system text.",
        "One tool more, fewer or in another place has the server read the whole prompt again.",
        "Keep `tools` among `canonical.rules`, and give one agent the same tools in each session.",
        tools_before,
    ),
    Check(
        "probe-tools-behind",
        "note",
        "Tools stand behind the system text.",
        "Whatever changes in the system text has the server read all tools again.",
        "Keep `canonical: {{ mode: rewrite }}`, which takes what changes out of the system text.",
        tools_behind,
    ),
)
