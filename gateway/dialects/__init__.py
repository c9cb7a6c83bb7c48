"""The APIs that the gateway understands: one small file each, and the table of their paths. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.dialects import anthropic, llamacpp, ollama, openai, openai_chat, openai_completions, openai_responses, plain
from gateway.dialects.base import Dialect, Endpoint, Seen, Tap, Task

__all__ = [
    "DIALECTS",
    "ENDPOINTS",
    "PLAIN",
    "Dialect",
    "Endpoint",
    "Seen",
    "Tap",
    "Task",
    "find",
    "for_path",
    "usage_request",
]

PLAIN: Dialect = plain.DIALECT

COUNT_ON_REQUEST: tuple[Dialect, ...] = (openai_chat.DIALECT, openai_completions.DIALECT)
"""Whose streams tell token counts only if asked."""

_ROWS: tuple[tuple[Dialect, Task, tuple[str, ...]], ...] = (
    (openai_chat.DIALECT, "answer", ("/v1/chat/completions", "/chat/completions", "/api/v0/chat/completions")),
    (openai_chat.DIALECT, "count", ("/v1/chat/completions/input_tokens",)),
    (openai_completions.DIALECT, "answer", ("/v1/completions", "/completions", "/api/v0/completions")),
    (openai_responses.DIALECT, "answer", ("/v1/responses", "/responses")),
    (openai_responses.DIALECT, "count", ("/v1/responses/input_tokens",)),
    (anthropic.DIALECT, "answer", ("/v1/messages",)),
    (anthropic.DIALECT, "count", ("/v1/messages/count_tokens",)),
    (ollama.DIALECT, "answer", ("/api/chat", "/api/generate")),
    (llamacpp.DIALECT, "answer", ("/completion", "/infill")),
)

ENDPOINTS: dict[str, Endpoint] = {path: Endpoint(dialect, path, task) for dialect, task, paths in _ROWS for path in paths}
"""By path, for POST. Every other path is passed through."""

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect, _, _ in _ROWS} | {PLAIN.name: PLAIN}
"""By name."""

_SHAPES: tuple[tuple[str, Dialect], ...] = (
    ("/v1/messages", anthropic.DIALECT),
    ("/v1/", openai_chat.DIALECT),
    ("/api/v0/", openai_chat.DIALECT),  # LM Studio
    ("/api/v1/", openai_chat.DIALECT),  # LM Studio
    ("/api/", ollama.DIALECT),
)
"""Whose errors the clients of a family of paths understand; the first prefix that fits."""


def find(method: str, path: str) -> Endpoint | None:
    """The row for a request, or None if it is to be passed through.

    One slash at the end is allowed, because half of the servers redirect it away; ask them for `Endpoint.path`, so that no
    client is redirected past the gateway. A doubled slash is no match: the servers give 404 as well.
    """
    if method != "POST":
        return None
    return ENDPOINTS.get(path) or ENDPOINTS.get(path.removesuffix("/"))


def for_path(path: str, headers: Mapping[str, str] | None = None) -> Dialect:
    """The dialect whose error shape fits a path, known or not.

    headers, with lower-case or case-insensitive names, tell an Anthropic client on a path that two APIs share, such as the list
    of models.
    """
    endpoint = find("POST", path)
    if endpoint:
        return endpoint.dialect
    if headers and "anthropic-version" in headers and path.startswith("/v1/"):
        return anthropic.DIALECT
    return next((dialect for prefix, dialect in _SHAPES if path.startswith(prefix)), PLAIN)


def usage_request(path: str, body: Mapping[str, Any]) -> bytes | None:
    """What to splice in as `stream_options` so that a stream tells its token counts; None where nothing can or need be asked.

    Two APIs count only on request; see `gateway.dialects.openai.usage_request`.
    """
    endpoint = find("POST", path)
    asks = endpoint is not None and endpoint.task == "answer" and endpoint.dialect in COUNT_ON_REQUEST
    return openai.usage_request(body) if asks else None
