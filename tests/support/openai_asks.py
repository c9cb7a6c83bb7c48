"""What a request asks of a server that speaks OpenAI's and Anthropic's APIs as their documentation has it. Pure.

The same reading as the simulated Ollama's, without its peculiarities: parts of a message are one message, both spellings of the
token limit are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.fake_server import Refused
from tests.support.kvcache import tokenize
from tests.support.ollama_asks import READERS, Ask
from tests.support.ollama_prompt import rendered
from tests.support.ollama_runners import Model

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")

LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def read(path: str, body: Mapping[str, Any]) -> Ask:
    """path: one of PATHS. Raises Refused 400."""
    plain = dict(body)
    if isinstance(limit := plain.pop("max_completion_tokens", None), int):
        plain["max_tokens"] = limit
    if path == "/v1/chat/completions":
        plain["messages"] = [_one_text(message) for message in body.get("messages") or ()]
    return READERS[path](plain)


def limit_of(body: Mapping[str, Any]) -> int | None:
    """The token limit that a body names, under whichever name."""
    found = next((body[name] for name in LIMITS if body.get(name) is not None), None)
    return found if isinstance(found, int) else None


def prompt_tokens(ask: Ask, context: int, *, tools_first: bool = False) -> list[str]:
    """The rendered prompt. Nothing is cut: raises Refused 400 where it leaves no room for an answer."""
    tokens = tokenize(rendered(Model("any", tools_first=tools_first), ask))
    if len(tokens) >= context:
        raise Refused(400, f"This model's maximum context length is {context} tokens, but the prompt has {len(tokens)} tokens.")
    return tokens


def _one_text(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "".join(part.get("text", "[image]") for part in content)}
