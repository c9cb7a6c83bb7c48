"""A short day in front of a real llama.cpp server: warm and cold prompts, and misses of several reasons."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.explain.stand import TOOLS, Desk, answered, chat, said, system
from tests.slots.scenes import prose
from tests.stable.stand import eventually
from tests.support.clients import RawClient, fetch, post
from tests.support.process import GatewayProcess

MODEL = "tiny"
FIRST, SECOND, THIRD = said("List the parts in tray four."), said("And what is in tray five?"), said("And in tray six?")
AS_SENT = ("X-Warmgate-Mode", "off")
PIN = "house"
"""A prefix that the configuration has the gateway read ahead."""

CHAT = "/v1/chat/completions"


def stream(head: str, *talk: dict[str, Any], tools: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    usage = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 8}
    return chat(MODEL, head, *talk, tools=tools or TOOLS, **usage, **fields)


async def turns(desk: Desk, head: str, count: int) -> None:
    """A conversation: the first turn is cold, the others find it warm."""
    talk = [FIRST]
    for number in range(count):
        await desk.ask(stream(head, *talk))
        talk += [answered(f"Part {number}."), SECOND]


async def wave(gateway: GatewayProcess, name: str) -> None:
    """All kinds of requests once. name: unlike that of other waves, whose prompts are then others."""
    desks = [Desk(gateway, f"{name}-{letter}") for letter in "abcdef"]
    await asyncio.gather(*(turns(desk, system(f"{name} {desk.agent}"), 3) for desk in desks[:3]))  # more than there are slots
    await breaks(desks[3], name)
    await clock(desks[4], name)
    await aside(desks[5], name)
    await crowd(gateway, name)
    read = await fetch(f"{gateway.admin}/warm/{PIN}", {}, within=60.0)  # the crowd has pushed it out
    assert read.status == 200, read.body
    await leaves(gateway, name)
    refused = await fetch(gateway.url + CHAT, ["no request"])
    assert refused.status == 400


async def breaks(desk: Desk, name: str) -> None:
    """A client that loses its prefix by its own doing; the gateway may not help it."""
    head = system(f"{name} breaker")
    await desk.ask(stream(head, FIRST), CHAT, AS_SENT)
    await desk.ask(stream(system(f"{name} breaker", "Be brisk."), FIRST, answered("Yes."), SECOND), CHAT, AS_SENT)
    await desk.ask(stream(head, FIRST, answered("Yes."), SECOND, tools=TOOLS[:-1]), CHAT, AS_SENT)
    await desk.ask(stream(head, FIRST, answered("No."), SECOND, tools=TOOLS[:-1]), CHAT, AS_SENT)


async def clock(desk: Desk, name: str) -> None:
    """A client whose system text tells the time, which the gateway moves to the end."""
    talk = [FIRST]
    for second in range(3):
        time = f"Current time: 2026-03-04T10:15:0{second}+01:00"
        await desk.ask(stream(system(f"{name} clock", time), *talk))
        talk += [answered(f"{second}."), SECOND]
    await desk.ask(stream(system(f"{name} clock", time)))  # without a message that could carry a note of it


async def crowd(gateway: GatewayProcess, name: str) -> None:
    """One agent with a long prompt more than there are slots, one after the other and again: slots are saved and restored."""
    heads = {f"{name}-long-{letter}": prose(f"{name} {letter}", 1500) for letter in "abc"}
    for talk in ([FIRST], [FIRST, answered("1."), SECOND], [FIRST, answered("1."), SECOND, answered("2."), THIRD]):
        for agent, head in heads.items():
            await Desk(gateway, agent + str(len(talk))).ask(stream(head, *talk))


async def aside(desk: Desk, name: str) -> None:
    """A conversation and the request for its title; then others push it out, and it comes back."""
    head = system(f"{name} aside")
    await desk.ask(stream(head, FIRST))
    quoted = f"{FIRST['content']}\nPart one.\n" * 6
    await desk.ask(chat(MODEL, "", said(f"### Task:\nGive this talk a title.\n<history>\n{quoted}</history>")))
    for number in range(3):
        await Desk(desk.gateway, f"{desk.agent}-{number}").ask(stream(system(f"{name} other {number}"), FIRST))
    await desk.ask(stream(head, FIRST, answered("Part one."), SECOND))


async def leaves(gateway: GatewayProcess, name: str) -> None:
    """A client that leaves when the first bytes have come."""
    body = stream(system(f"{name} leaver"), FIRST) | {"max_tokens": 2000}
    before = (await gateway.metrics()).value("warmgate_client_disconnects_total")
    async with RawClient(gateway.url) as client:
        await client.send(post(CHAT, body))
        await client.response()
        client.rst()

    async def counted() -> bool:
        return (await gateway.metrics()).value("warmgate_client_disconnects_total") > before

    await eventually(counted, "the client that left is counted")
