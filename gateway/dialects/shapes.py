"""Error shapes and their words. Tables; pure."""

from __future__ import annotations

from typing import Any

from gateway.wire.lenient import dumps

OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    501: "not_supported_error",
    503: "unavailable_error",
    504: "timeout_error",
}
"""OpenAI's words, and llama.cpp's where OpenAI has none."""

ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def openai_type(status: int) -> str:
    return OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def anthropic_type(status: int) -> str:
    return ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def openai_error(status: int, code: str, message: str) -> dict[str, Any]:
    return {"message": message, "type": openai_type(status), "param": None, "code": code}


def sse(doc: Any, event: str = "") -> bytes:
    """One server-sent event with a JSON value."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + dumps(doc) + b"\n\n"


def line(doc: Any) -> bytes:
    """One line of NDJSON."""
    return dumps(doc) + b"\n"
