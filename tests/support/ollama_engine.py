"""A real llama.cpp server as the child of a simulated Ollama, as Ollama has one since 0.30: it answers, it counts, it caches.

What is asked is translated to its `/v1/chat/completions`, or to `/v1/completions` for bare prompts; the counts are those of its
`timings`. Not translated: images, tool calls in the answer, reasoning, formats. Unloading
does not end it, so what it holds outlives the model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import aiohttp
import orjson

from tests.support.ollama_asks import Ask
from tests.support.ollama_prompt import with_system
from tests.support.ollama_runners import Model, OllamaError
from tests.support.replies import Reply


@dataclass(slots=True)
class Answer:
    """An answer while it comes. complete: the rest is only known then; finish: why it ended; prompt_ms: milliseconds."""

    text: str = ""
    complete: bool = False
    finish: str = ""
    cached: int = 0
    evaluated: int = 0
    completion: int = 0
    prompt_ms: float = 0.0

    @property
    def prompt(self) -> int:
        return self.cached + self.evaluated

    def take(self, chunk: Mapping[str, Any]) -> None:
        for choice in chunk.get("choices") or ():
            self.text += (choice.get("delta") or {}).get("content") or choice.get("text") or ""
            self.finish = choice.get("finish_reason") or self.finish
        if told := chunk.get("timings"):
            self.cached, self.evaluated = told["cache_n"], told["prompt_n"]
            self.completion, self.prompt_ms = told["predicted_n"], told["prompt_ms"]


async def answers(url: str, model: Model, ask: Ask) -> AsyncIterator[Answer]:
    """The same answer, each time that there is more of it. Who stops reading closes the connection, and so stops the server.

    Raises OllamaError for what it refuses.
    """
    path, body = translated(model, ask)
    answer = Answer()
    async with aiohttp.ClientSession() as session, session.post(url + path, json=body) as reply:
        if reply.status != 200:
            raise _refusal(reply.status, await reply.json(content_type=None))
        async for line in reply.content:
            data = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and data != b"[DONE]":
                answer.take(orjson.loads(data))
                yield answer
    answer.complete = True
    yield answer


def translated(model: Model, ask: Ask) -> tuple[str, dict[str, Any]]:
    """(path, body) of the request to the real server."""
    common = {"stream": True, "temperature": 0, "n_predict": ask.limit if ask.limit > 0 else -1}
    if ask.messages is None and ask.raw:
        return "/v1/completions", {"prompt": ask.prompt, **common}
    asked = [{"role": "user", "content": ask.prompt}] if ask.messages is None else ask.messages
    messages = [_message(message) for message in with_system(model, asked, ask.system if ask.messages is None else None)]
    return "/v1/chat/completions", {"messages": messages, **({"tools": [*ask.tools]} if ask.tools else {}), **common}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Ollama's calls have their arguments as objects, OpenAI's as text."""
    if not message.get("tool_calls"):
        return dict(message)
    calls = []
    for number, call in enumerate(message["tool_calls"]):
        function = call["function"]
        arguments = function["arguments"] if isinstance(function["arguments"], str) else json.dumps(function["arguments"])
        calls.append({"id": f"call_{number}", "type": "function", "function": {**function, "arguments": arguments}})
    return {**message, "tool_calls": calls}


def _refusal(status: int, told: Mapping[str, Any]) -> OllamaError:
    error = told.get("error") or {}
    if error.get("type") == "exceed_context_size_error":
        return OllamaError(400, "the input length exceeds the context length")
    return OllamaError(400 if status == 400 else 500, str(error.get("message")))


async def events(coming: AsyncIterator[Answer], stream: Callable[[Answer], list[bytes]]) -> AsyncIterator[bytes]:
    """The events of an answer, each as soon as it is certain. stream: all events of a whole answer."""
    sent = 0
    async for answer in coming:
        ready = stream(answer) if answer.complete else certain(answer, stream)
        for event in ready[sent:]:
            yield event
        sent = max(sent, len(ready))
        await asyncio.sleep(0)  # a fast server would leave no turn to the client, who may want to go


def certain(answer: Answer, stream: Callable[[Answer], list[bytes]]) -> list[bytes]:
    """The events that come whatever the rest of the text will be: two ways to go on have them in common.

    They are made word by word, and the last word may not be finished yet.
    """
    words = answer.text.rpartition(" ")[0]
    if not words:
        return []
    one, other = (stream(replace(answer, text=f"{words} {more}")) for more in "ab")
    return [event for event, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))]


def reply_of(answer: Answer, **told: Any) -> Reply:
    """What an answer says and counts. told: what this version of Ollama adds to it, or reports otherwise."""
    counts = {"prompt": answer.prompt, "completion": answer.completion, "prefill_ms": answer.prompt_ms}
    finish = "length" if answer.finish == "length" else ""
    return Reply(**{"text": answer.text, "finish": finish, **counts, **told})
