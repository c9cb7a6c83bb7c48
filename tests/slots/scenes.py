"""Scenes of an agent's day, as plain data: who asks what, and what is asked at once. Pure and deterministic.

A scene is a row of moments; the steps of one moment are sent together, and the next moment begins when all have been answered.
Sizes are tokens of the generated models of `gateway.engine`, right to a few percent.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gateway.engine.corpus import CORPUS

Task = Literal["title", "tags", "memory"]

CHARACTERS = 4.75
"""Of the prose below, for one token."""

_WORDS = tuple(sorted(set(re.findall(r"\b[a-z]{4,9}\b", CORPUS))))


def prose(seed: str, tokens: int) -> str:
    """Sentences of the same words in another order for each seed."""
    draw, text = random.Random(seed), ""
    while len(text) < tokens * CHARACTERS:
        words = draw.choices(_WORDS, k=draw.randint(6, 12))
        text += " ".join(words).capitalize() + ". "
    return text.rstrip()


@dataclass(frozen=True, slots=True)
class Agent:
    """One client with one conversation. head: tokens of tools and system text; question: of each question; prefix: what its
    head is made of, "" = its own, so that agents with the same one share it."""

    name: str
    head: int = 1200
    question: int = 24
    prefix: str = ""

    @property
    def system(self) -> str:
        who = self.prefix or self.name
        return f"{who.title()} is a careful helper for a small lab. {prose(who, self.head - 230)}"

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Three of them, in OpenAI's shape, in the order of their names and with their keys in the order of the schema."""
        who = self.prefix or self.name
        return [_tool(f"{who}_{verb}", prose(who + verb, 24)) for verb in ("find", "read", "write")]

    def asked(self, turn: int) -> str:
        return prose(f"{self.name} asks {turn}", self.question)


def _tool(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@dataclass(frozen=True, slots=True)
class Turn:
    """The next question of an agent's conversation. answer: tokens that it is allowed."""

    agent: Agent
    answer: int = 8


@dataclass(frozen=True, slots=True)
class Side:
    """What a client asks beside a conversation. size: tokens of what it quotes; number: makes it unlike the one before."""

    agent: Agent
    task: Task
    size: int
    number: int
    answer: int = 8

    @property
    def system(self) -> str:
        return "You keep the memory of an assistant. Extract the lasting facts." if self.task == "memory" else ""

    @property
    def asked(self) -> str:
        words = {"title": "Give this talk a title", "tags": "Write three tags", "memory": "Extract facts worth a memory"}
        quoted = prose(f"{self.agent.name} {self.task} {self.number}", self.size)
        return f"### Task:\n{words[self.task]}.\n<history>\n{quoted}\n</history>"


Step = Turn | Side
Scene = Sequence[Sequence[Step]]


def agent_with_sides(name: str, turns: int = 4, head: int = 1200, memory: int = 3000) -> Scene:
    """One agent; behind each of its turns but the last come a title, tags and a memory request larger than its own prompt."""
    agent = Agent(name, head)
    scene: list[list[Step]] = []
    for number in range(turns):
        scene.append([Turn(agent)])
        if number < turns - 1:
            sizes: tuple[tuple[Task, int], ...] = (("title", 120), ("tags", 120), ("memory", memory))
            scene += [[Side(agent, task, size, number)] for task, size in sizes]
    return scene


def in_turn(name: str, agents: int, rounds: int = 5, head: int = 1200) -> Scene:
    """That many agents, one after the other, and again. They have nothing in common."""
    cast = [Agent(f"{chr(ord('a') + number)}{name}", head) for number in range(agents)]
    return [[Turn(agent)] for _ in range(rounds) for agent in cast]


def at_once(name: str, agents: int = 4, head: int = 2000, answer: int = 8) -> Scene:
    """That many agents with the same head ask at the same moment, each something else."""
    return [[Turn(Agent(f"{name}{number}", head, prefix=name), answer) for number in range(agents)]]


def day(name: str) -> Scene:
    """Two agents with their side requests, a third that comes and goes, and in the middle a handful of helpers at once."""
    one, two = agent_with_sides(f"one{name}", turns=3), agent_with_sides(f"two{name}", turns=3)
    guest = in_turn(f"guest{name}", agents=1, rounds=3)
    morning = [moment for pair in zip(one[:5], two[:5], strict=True) for moment in pair]
    evening = [moment for pair in zip(one[5:], two[5:], strict=True) for moment in pair]
    return [*morning, *guest[:1], *at_once(f"helper{name}", head=1200), *guest[1:2], *evening, *guest[2:]]


def heads(scene: Scene) -> int:
    """How many different beginnings of a prompt a scene has."""
    steps = [step for moment in scene for step in moment]
    agents = {step.agent.prefix or step.agent.name for step in steps if isinstance(step, Turn)}
    return len(agents) + sum(isinstance(step, Side) for step in steps)
