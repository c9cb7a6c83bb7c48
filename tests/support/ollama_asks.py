"""What a request asks of a simulated Ollama, read from the bodies of all its APIs. Pure.

Source: Ollama's api/types.go, openai/openai.go, openai/responses.go, anthropic/. What an API has no field for is not read: /v1
knows neither `keep_alive` nor `options`, and of the token limits only `max_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.ollama_runners import FOREVER, OllamaError

Body = Mapping[str, Any]
Messages = list[dict[str, Any]]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for an answer. messages: for a chat, None for a bare prompt; keep_alive: seconds, None = not said."""

    messages: Messages | None = None
    prompt: str = ""
    system: str | None = None
    raw: bool = False
    tools: Sequence[Any] = ()
    options: Body = field(default_factory=dict)
    limit: int = -1
    think: bool | str | None = None
    keep_alive: float | None = None
    shift: bool | None = None
    truncate: bool = True

    @property
    def empty(self) -> bool:
        """A request to load or unload: nothing to answer."""
        return not self.messages if self.messages is not None else not self.prompt


def keep_alive_seconds(value: Any) -> float | None:
    """Numbers are seconds, strings Go durations; negative is forever, None is not said. Raises OllamaError 400."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise OllamaError(400, f"Unsupported type: '{type(value).__name__}'")
    seconds = _go_duration(value) if isinstance(value, str) else float(value)
    return FOREVER if seconds < 0 else min(seconds, FOREVER)


def _go_duration(text: str) -> float:
    """`10m`, `1h30m`, `-1m`, `0`. A number without a unit is an error, as in Go."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        why = "missing unit in duration" if re.fullmatch(r"[\d.]+", rest) else "invalid duration"
        raise OllamaError(400, f'time: {why} "{text}"')
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def _native(body: Body) -> dict[str, Any]:
    options = body.get("options") or {}
    return {
        "options": options,
        "limit": options.get("num_predict", -1),
        "think": body.get("think"),
        "keep_alive": keep_alive_seconds(body.get("keep_alive")),
        "shift": body.get("shift"),
        "truncate": body.get("truncate") is not False,
    }


def _chat(body: Body) -> Ask:
    return Ask([*map(dict, body.get("messages") or ())], tools=body.get("tools") or (), **_native(body))


def _generate(body: Body) -> Ask:
    return Ask(prompt=body.get("prompt") or "", system=body.get("system"), raw=body.get("raw") is True, **_native(body))


def _openai_chat(body: Body) -> Ask:
    """Each part of a content array becomes a message of its own."""
    if not body.get("messages"):
        raise OllamaError(400, "[] is too short - 'messages'")
    messages: Messages = []
    for message in body["messages"]:
        content = message.get("content")
        texts = [part.get("text", "[image]") for part in content] if isinstance(content, list) else [content or ""]
        messages += [{**message, "content": text} for text in texts]
    effort = body.get("reasoning_effort")
    think = None if effort is None else effort != "none" and effort
    return Ask(messages, tools=body.get("tools") or (), limit=body.get("max_tokens") or -1, think=think)


def _openai_completions(body: Body) -> Ask:
    prompt = body.get("prompt") or ""
    return Ask(prompt="".join(prompt) if isinstance(prompt, list) else prompt, raw=True, limit=body.get("max_tokens") or -1)


def _responses(body: Body) -> Ask:
    if body.get("previous_response_id"):
        raise OllamaError(400, "previous_response_id is not supported")
    instructions, asked = body.get("instructions"), body.get("input") or ""
    messages: Messages = [{"role": "system", "content": instructions}] if instructions else []
    for item in [{"role": "user", "content": asked}] if isinstance(asked, str) else asked:
        if item.get("type") == "function_call":
            call = {"function": {"name": item["name"], "arguments": item["arguments"]}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif item.get("type") == "function_call_output":
            messages.append({"role": "tool", "content": item["output"]})
        elif "role" in item:
            messages.append({"role": item["role"], "content": _joined(item["content"])})
    tools = [{"type": "function", "function": {k: v for k, v in t.items() if k != "type"}} for t in body.get("tools") or ()]
    return Ask(messages, tools=tools, limit=body.get("max_output_tokens") or -1)


def _anthropic(body: Body) -> Ask:
    """System blocks are joined without a separator; tool results become messages of their own."""
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] <= 0:
        raise OllamaError(400, "max_tokens is required and must be positive")
    if not body.get("messages"):
        raise OllamaError(400, "messages is required")
    messages: Messages = [{"role": "system", "content": _joined(body["system"])}] if body.get("system") else []
    for message in body["messages"]:
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        calls = [
            {"function": {"name": b["name"], "arguments": b.get("input", {})}} for b in blocks if b.get("type") == "tool_use"
        ]
        results = [b for b in blocks if b.get("type") == "tool_result"]
        messages += [{"role": "tool", "content": _joined(b.get("content") or "")} for b in results]
        if calls or len(results) < len(blocks):
            messages.append({"role": message["role"], "content": _joined(blocks), **({"tool_calls": calls} if calls else {})})
    tools = [
        {"type": "function", "function": {"name": t["name"], "description": t.get("description", ""),
                                          "parameters": t.get("input_schema", {})}}
        for t in body.get("tools") or ()
    ]  # fmt: skip
    think = {"enabled": True, "disabled": False}.get((body.get("thinking") or {}).get("type", ""))
    return Ask(messages, tools=tools, limit=body["max_tokens"], think=think)


def _joined(content: Any) -> str:
    """The text of a string or of the text blocks of a list."""
    return content if isinstance(content, str) else "".join(block.get("text") or "" for block in content)


READERS: Mapping[str, Callable[[Body], Ask]] = {
    "/api/chat": _chat,
    "/api/generate": _generate,
    "/v1/chat/completions": _openai_chat,
    "/v1/completions": _openai_completions,
    "/v1/responses": _responses,
    "/v1/messages": _anthropic,
}
"""How each path's body is read. Each raises OllamaError 400 for what Ollama refuses."""
