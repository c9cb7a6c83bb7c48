"""The prompt that a simulated Ollama makes of a request, in tokens. Pure. Source: Ollama's server/prompt.go, routes.go."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.kvcache import tokenize
from tests.support.ollama_asks import Ask
from tests.support.ollama_runners import Model, OllamaError

NUM_KEEP = 4


def rendered(model: Model, ask: Ask) -> str:
    """The whole prompt. It begins with what the template puts first: reasoning flag, system text, tools."""
    if ask.messages is None:
        return ask.prompt if ask.raw else _template(model, ask, with_system(model, [_user(ask.prompt)], ask.system))
    return _template(model, ask, with_system(model, ask.messages, None))


def prompt_tokens(model: Model, ask: Ask, num_ctx: int, shift: bool) -> list[str]:
    """The prompt, cut to the context. A chat loses its oldest messages first, but neither the system text nor the last one.

    Raises OllamaError 400 where nothing may be cut.
    """
    tokens = tokenize(rendered(model, ask))
    if len(tokens) > num_ctx and not ask.truncate:
        raise OllamaError(400, "the input length exceeds the context length")
    if len(tokens) > num_ctx and ask.messages:
        tokens = _fit(model, ask, num_ctx)
    if len(tokens) > num_ctx and not shift:
        raise OllamaError(400, "the input length exceeds the context length")
    keep = ask.options.get("num_keep", NUM_KEEP)
    return tokens if len(tokens) <= num_ctx else tokens[:keep] + tokens[len(tokens) - num_ctx + keep :]


def _fit(model: Model, ask: Ask, num_ctx: int) -> list[str]:
    messages = with_system(model, ask.messages or [], None)
    system = [message for message in messages if message["role"] == "system"]
    talk = [message for message in messages if message["role"] != "system"]
    tokens = tokenize(_template(model, ask, system + talk))
    while len(tokens) > num_ctx and len(talk) > 1:
        del talk[0]
        tokens = tokenize(_template(model, ask, system + talk))
    return tokens


def with_system(model: Model, messages: Sequence[Mapping[str, Any]], system: str | None) -> list[Mapping[str, Any]]:
    """A chat with what its Modelfile adds. Its messages come first of all; its system text only where the request has none."""
    text = model.system if system is None else system
    own = bool(messages) and messages[0]["role"] == "system"
    return [*model.messages, *([] if own or not text else [{"role": "system", "content": text}]), *messages]


def _template(model: Model, ask: Ask, messages: Sequence[Mapping[str, Any]]) -> str:
    """Tools stand in the first system message, in the order and with the key order in which they came."""
    tools = "".join(f"\n{json.dumps(tool, separators=(',', ':'), ensure_ascii=False)}" for tool in ask.tools)
    thinking = f"<|think:{ask.think}|>\n" if model.thinking and ask.think is not None else ""
    out = [thinking]
    if tools and (not messages or messages[0]["role"] != "system"):
        messages = [{"role": "system", "content": ""}, *messages]
    for number, message in enumerate(messages):
        text = str(message.get("content") or "")
        calls = "".join(
            f"\n<|call|>{json.dumps(call['function'], ensure_ascii=False)}" for call in message.get("tool_calls") or ()
        )
        if number == 0 and tools:
            text = f"# Tools{tools}\n{text}" if model.tools_first else f"{text}\n# Tools{tools}"
        out.append(f"<|{message['role']}|>\n{text}{calls}<|end|>\n")
    return "".join([*out, "<|assistant|>\n"])


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
