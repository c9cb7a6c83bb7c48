"""Plays a scene against a server, directly or through the gateway, and counts what was reused: always the server's own figures.

player = Player(engine.url, MESSAGES)
played = await player.play(at_once("bo"))
assert played.prefilled < 1.15 * played.prompt / 4
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import orjson

from tests.slots.scenes import Agent, Scene, Side, Step, Turn
from tests.support.clients import RawClient, Response, post

PATIENCE = 60.0
"""Seconds that a request may take at most, on a busy machine."""

MODEL = "local-a"

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Talk:
    """A prompt in no dialect: messages are (role, text), the newest last."""

    system: str
    tools: list[dict[str, Any]]
    messages: tuple[tuple[str, str], ...]
    answer: int


class Dialect(Protocol):
    """How a prompt is asked as a stream, and what is read from the events of the answer."""

    path: str
    lines: bool
    """NDJSON instead of server-sent events."""

    def body(self, talk: Talk) -> dict[str, Any]: ...

    def text(self, event: Mapping[str, Any]) -> str: ...

    def counts(self, event: Mapping[str, Any]) -> tuple[int, int] | None:
        """(tokens of the prompt, those of them that were reused), None for an event that does not tell."""
        ...


class _Chat:
    path = "/v1/chat/completions"
    lines = False

    def body(self, talk: Talk) -> dict[str, Any]:
        system = [{"role": "system", "content": talk.system}] if talk.system else []
        messages = [*system, *({"role": role, "content": text} for role, text in talk.messages)]
        tools = {"tools": talk.tools} if talk.tools else {}
        limits = {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0, "max_tokens": talk.answer}
        return {"model": MODEL, "messages": messages, **tools, **limits}

    def text(self, event: Mapping[str, Any]) -> str:
        return "".join((choice.get("delta") or {}).get("content") or "" for choice in event.get("choices") or ())

    def counts(self, event: Mapping[str, Any]) -> tuple[int, int] | None:
        if timings := event.get("timings"):
            return timings["cache_n"] + timings["prompt_n"], timings["cache_n"]
        if usage := event.get("usage"):
            return usage["prompt_tokens"], (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return None


class _Messages:
    path = "/v1/messages"
    lines = False

    def body(self, talk: Talk) -> dict[str, Any]:
        tools = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in (one["function"] for one in talk.tools)
        ]
        messages = [{"role": role, "content": text} for role, text in talk.messages]
        known = {"system": talk.system} if talk.system else {}
        known |= {"tools": tools} if tools else {}
        return {"model": MODEL, "max_tokens": talk.answer, "temperature": 0, "stream": True, **known, "messages": messages}

    def text(self, event: Mapping[str, Any]) -> str:
        return str((event.get("delta") or {}).get("text") or "")

    def counts(self, event: Mapping[str, Any]) -> tuple[int, int] | None:
        usage = (event.get("message") or event).get("usage") or {}
        if "input_tokens" not in usage:
            return None
        cached = usage.get("cache_read_input_tokens") or 0
        return usage["input_tokens"] + cached, cached


class _Native:
    """Ollama's own."""

    path = "/api/chat"
    lines = True

    def body(self, talk: Talk) -> dict[str, Any]:
        asked = CHAT.body(talk)
        tools = {"tools": talk.tools} if talk.tools else {}
        options = {"num_predict": talk.answer, "temperature": 0}
        return {"model": MODEL, "messages": asked["messages"], **tools, "options": options}

    def text(self, event: Mapping[str, Any]) -> str:
        return str((event.get("message") or {}).get("content") or "")

    def counts(self, event: Mapping[str, Any]) -> tuple[int, int] | None:
        if "prompt_eval_count" not in event:
            return None
        return event["prompt_eval_count"], event.get("prompt_eval_cached_count") or 0


CHAT, MESSAGES, NATIVE = _Chat(), _Messages(), _Native()
DIALECTS: Mapping[str, Dialect] = {"chat": CHAT, "messages": MESSAGES}


@dataclass(frozen=True, slots=True)
class Got:
    """One answer. began, first, ended: when it was sent, when its first content came, and its last byte; monotonic seconds."""

    step: Step
    id: str
    status: int
    text: str
    prompt: int
    cached: int
    began: float
    first: float
    ended: float
    route: str = ""
    backend: str = ""

    @property
    def prefilled(self) -> int:
        return self.prompt - self.cached


@dataclass(slots=True)
class Played:
    """All answers, in the order in which they were asked for."""

    answers: list[Got] = field(default_factory=list)

    @property
    def prompt(self) -> int:
        return sum(got.prompt for got in self.answers)

    @property
    def cached(self) -> int:
        return sum(got.cached for got in self.answers)

    @property
    def prefilled(self) -> int:
        return self.prompt - self.cached

    @property
    def turns(self) -> list[Got]:
        return [got for got in self.answers if isinstance(got.step, Turn)]

    @property
    def kept(self) -> float:
        """Share of what earlier turns had made reusable (their whole prompts) that the next turns of the same agents reused."""
        before: dict[Agent, int] = {}
        reusable, reused = 0, 0
        for got in self.turns:
            if (last := before.get(got.step.agent)) is not None:
                reusable, reused = reusable + last, reused + min(last, got.cached)
            before[got.step.agent] = got.prompt
        return reused / reusable

    @property
    def together(self) -> int:
        """The most answers that were being written at the same moment."""
        return max(sum(one.first <= got.first < one.ended for one in self.answers) for got in self.answers)

    def __str__(self) -> str:
        return "\n".join(
            f"{type(got.step).__name__} {got.id}: {got.cached} of {got.prompt} reused {got.backend} {got.route}"
            for got in self.answers
        )


class Player:
    """All clients of a server. One writer of the conversations: `play`, which waits for each moment to end.

    headers: for each request, besides the agent's own user agent; sessions: each agent names its session in a header.
    """

    def __init__(self, url: str, dialect: Dialect, *headers: tuple[str, str], sessions: bool = False):
        self.url, self.dialect, self.headers, self.sessions = url, dialect, headers, sessions
        self._talks: defaultdict[Agent, list[tuple[str, str]]] = defaultdict(list)

    async def play(self, scene: Scene) -> Played:
        played = Played()
        for moment in scene:
            answers = await asyncio.gather(*map(self.ask, moment))
            played.answers += answers
            for got in answers:
                if isinstance(got.step, Turn):
                    self._talks[got.step.agent] += [("user", self._question(got.step)), ("assistant", got.text)]
        return played

    async def ask(self, step: Step) -> Got:
        """One step, as the conversation stands now, which it does not change."""
        return await ask(self.url, self.dialect, step, self.talk(step), self.told(step))

    def told(self, step: Step) -> tuple[tuple[str, str], ...]:
        """The headers of a step."""
        return (*self.headers, *([("X-Session-Id", step.agent.name)] if self.sessions else []))

    def talk(self, step: Step) -> Talk:
        if isinstance(step, Side):
            return Talk(step.system, [], (("user", step.asked),), step.answer)
        messages = (*self._talks[step.agent], ("user", self._question(step)))
        return Talk(step.agent.system, step.agent.tools, messages, step.answer)

    def _question(self, step: Turn) -> str:
        return step.agent.asked(len(self._talks[step.agent]) // 2)


async def ask(url: str, dialect: Dialect, step: Step, talk: Talk, headers: Iterable[tuple[str, str]] = ()) -> Got:
    """Raises TimeoutError, ConnectionError; AssertionError for an answer that is no complete stream."""
    id = f"{step.agent.name}-{next(_NUMBERS)}"
    told = (("User-Agent", f"{step.agent.name}/1"), ("X-Request-Id", id), *headers)
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(PATIENCE), RawClient(url) as client:
        await client.send(post(dialect.path, dialect.body(talk), *told))
        response = await client.response()
        await response.read()
    assert response.status == 200, (id, response.status, response.body)
    assert response.complete, (id, response.body[-300:])
    return _read(dialect, step, id, response, began)


@dataclass(frozen=True, slots=True)
class Whole:
    """What came of an answer that may have been cut off. whole: all of it; begun: its first words at least."""

    whole: bool
    begun: bool
    body: bytes


async def listen_in(player: Player, step: Step) -> Whole:
    """One step, which does not change the conversation, over `/v1/chat/completions`. Raises nothing if it is cut off."""
    body = b""
    try:
        async with asyncio.timeout(PATIENCE), RawClient(player.url) as client:
            await client.send(post(CHAT.path, CHAT.body(player.talk(step)), *player.told(step)))
            response = await client.response()
            body = await response.read()
    except ConnectionError:
        return Whole(False, False, body)
    whole = response.status == 200 and response.complete and b"data: [DONE]" in body and b'"error"' not in body
    return Whole(whole, b'"content":"' in body, body)


def _read(dialect: Dialect, step: Step, id: str, response: Response, began: float) -> Got:
    text, counts, first = "", (0, 0), 0.0
    for at, event in _events(response, lines=dialect.lines):
        assert "error" not in event, (id, event)
        piece = dialect.text(event)
        first = first or (at if piece else 0.0)
        text, counts = text + piece, dialect.counts(event) or counts
    assert text, (id, response.body)
    ended = response.arrived[-1].at
    headers = (response.header("X-Warmgate-Route"), response.header("X-Warmgate-Backend"))
    return Got(step, id, response.status, text, *counts, began, first, ended, *headers)


def _events(response: Response, *, lines: bool) -> Iterable[tuple[float, dict[str, Any]]]:
    """Each event, with the second at which the piece came that completed it."""
    buffer, end, start = b"", b"\n" if lines else b"\n\n", b"" if lines else b"data:"
    for piece in response.arrived:
        *frames, buffer = (buffer + piece.data).replace(b"\r\n", b"\n").split(end)
        for frame in frames:
            told = [line for line in frame.split(b"\n") if line.startswith(start)]
            data = b"".join(line.removeprefix(start).strip() for line in told)
            if data and data != b"[DONE]":
                yield piece.at, orjson.loads(data)
