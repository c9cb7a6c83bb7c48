"""The body that has a server read the head of a conversation, tools and system text, and nothing else. Pure.

It goes to the same path with the same template flags as the conversation itself, because chat templates differ by both; only
its first message is another, so that it has with every conversation that begins alike exactly the head in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.dialects.prompt_read import PARAMETERS, SYSTEM
from gateway.wire.lenient import dumps

STUB = "."
"""The user's message: templates want one, and one token of it is computed in vain."""

KEPT = frozenset(PARAMETERS) - {"context", "previous_response_id"} | {
    "model", "tools", "functions", "function_call", "parallel_tool_calls", "response_format", "text", "format", "documents",
    "chat_template", "reasoning_format", "enable_thinking", "add_generation_prompt", "keep_alive", "shift", "truncate",
}  # fmt: skip
"""Fields that may change how the prompt is rendered, or how the model is loaded. All others are left out: how an answer is
drawn, and for whom."""

REFERS = ("context", "previous_response_id")
"""Fields that put something in front of the head that the body does not hold."""

Body = Mapping[str, Any]
Fields = dict[str, Any]


def prefill(path: str, body: Body) -> bytes | None:
    """Tools and system text of a body for `path` (without query), a stub message, one token, no stream.

    body: as it would be sent, canonical form and model name included. None where there is no head, or none that can be had
    alone. One token, because none at all is not to be had: llama.cpp generates one when asked for 0 (measured), vLLM and mlx-lm
    answer 400. Never raises.
    """
    make = MAKERS.get(path)
    if make is None or any(body.get(name) for name in REFERS):
        return None
    head = make(body)
    if head is None:
        return None
    kept = {name: value for name, value in body.items() if name in KEPT}
    return dumps({**kept, **head, "stream": False})


def _chat(body: Body) -> Fields | None:
    system = _leading(body.get("messages"))
    if system is None or not (system or body.get("tools") or body.get("functions")):
        return None
    return {"messages": [*system, _stub()], "max_tokens": 1}


def _anthropic(body: Body) -> Fields | None:
    system = body.get("system")
    if not (system or body.get("tools")):
        return None
    return {**({"system": system} if system else {}), "messages": [_stub()], "max_tokens": 1}


def _responses(body: Body) -> Fields | None:
    given, instructions = body.get("input"), body.get("instructions")
    system = [] if isinstance(given, str) else _leading(given)
    if system is None or not (system or instructions or body.get("tools")):
        return None
    told = {"instructions": instructions} if instructions else {}
    return {**told, "input": [*system, _stub()] if system else STUB, "max_output_tokens": 1}


def _ollama_chat(body: Body) -> Fields | None:
    head = _chat(body)
    return None if head is None else {"messages": head["messages"], "options": _options(body)}


def _ollama_generate(body: Body) -> Fields | None:
    system = body.get("system")
    if not system or body.get("raw") or body.get("suffix"):
        return None
    return {"system": system, "prompt": STUB, "options": _options(body)}


def _options(body: Body) -> Fields:
    """All of them: some are settings of the loaded model, which another value would have loaded anew."""
    options = body.get("options")
    return {**(options if isinstance(options, dict) else {}), "num_predict": 1}


def _leading(items: Any) -> list[Any] | None:
    """The system messages before the first other one; None if these are no messages."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    end = next((at for at, item in enumerate(items) if item.get("role") not in SYSTEM), len(items))
    return items[:end]


def _stub() -> Fields:
    return {"role": "user", "content": STUB}


MAKERS: dict[str, Callable[[Body], Fields | None]] = {
    "/v1/chat/completions": _chat,
    "/chat/completions": _chat,
    "/api/v0/chat/completions": _chat,
    "/v1/messages": _anthropic,
    "/v1/responses": _responses,
    "/responses": _responses,
    "/api/chat": _ollama_chat,
    "/api/generate": _ollama_generate,
}
"""By path. Raw text (`/completion`, `/v1/completions`) has no head that could be told from the rest."""
