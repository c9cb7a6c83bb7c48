"""What a server received, read from the body's bytes, and what a server with a cache in tokens can reuse of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.dialects.prompt import Prompt
from gateway.dialects.prompt_read import read
from tests.support.kvcache import common_prefix, tokenize
from tests.support.ollama_asks import READERS
from tests.support.ollama_prompt import rendered
from tests.support.ollama_runners import Model

NOTE = re.compile(r"\A<context>\n.*?\n</context>\n\n", re.DOTALL)
"""A note, where it stands: at the start of a user's text."""

Message = tuple[str, list[str], Any]
"""(role, texts, what it carries besides: tool calls and results, parts that are no texts)"""


@dataclass(frozen=True, slots=True)
class Seen:
    """One body. Messages are those of the conversation, without the system texts in front of it."""

    path: str
    raw: bytes

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw)

    @property
    def prompt(self) -> Prompt:
        prompt = read(self.path, self.body)
        assert prompt is not None
        return prompt

    @property
    def system(self) -> str:
        return "\n".join(text.text for text in self.prompt.system)

    @property
    def tools(self) -> str:
        """The tools in the order and with the key order in which they came."""
        return json.dumps(self.body.get("tools"))

    @property
    def tool_names(self) -> list[str]:
        return [tool.get("name") or tool["function"]["name"] for tool in self.body["tools"]]

    @property
    def users(self) -> list[str]:
        """The first text of each message that a user wrote."""
        return [message.texts[0].text for message in self.prompt.messages if message.role == "user" and message.texts]

    @property
    def notes(self) -> str:
        """All notes, one after another."""
        found = (NOTE.match(text) for text in self.users)
        return "".join(match[0] for match in found if match)

    def messages(self, *, notes: bool = True) -> list[Message]:
        return [
            (message.role, [text.text if notes else NOTE.sub("", text.text) for text in message.texts], _others(message.data))
            for message in self.prompt.messages
        ]

    def rendered(self, model: Model) -> str:
        """The prompt that a simulated Ollama makes of it."""
        return rendered(model, READERS[self.path](self.body))

    def tokens(self, model: Model, until: str = "") -> int:
        """Tokens of the prompt, or of what stands in front of `until` in it."""
        text = self.rendered(model)
        return len(tokenize(text[: text.index(until)] if until else text))


def _others(data: Any) -> Any:
    content = data.get("content")
    parts = [part for part in content if "text" not in str(part.get("type"))] if isinstance(content, list) else []
    return [*parts, *(data[key] for key in ("tool_calls", "arguments", "output", "images") if data.get(key))]


def extends(first: Seen, second: Seen) -> bool:
    """Whether the second prompt begins with all of the first, byte for byte."""
    before = first.messages()
    return (first.system, first.tools, before) == (second.system, second.tools, second.messages()[: len(before)])


def direct_reuse(first: Seen, said: str, second: Seen, model: Model) -> int:
    """Tokens of the second prompt that one slot can reuse after the first one and its answer, if nobody edits them."""
    return common_prefix(tokenize(first.rendered(model) + said), tokenize(second.rendered(model)))
