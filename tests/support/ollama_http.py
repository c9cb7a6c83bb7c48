"""How a simulated Ollama reads bodies and tells errors. Source: Ollama's server/routes.go, openai/openai.go, anthropic/."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from tests.support.ollama_runners import OllamaError
from tests.support.replies import anthropic, ollama, openai


async def json_body(request: web.Request) -> dict[str, Any]:
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        raise OllamaError(400, "invalid character in the request body") from None
    if not isinstance(body, dict):
        raise OllamaError(400, "the request body is not an object")
    return body


@web.middleware
async def tell_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Errors in the shape of the API that was used, and Ollama's own 404 for paths that it does not have."""
    try:
        return await handler(request)
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
        return web.Response(status=404, text="404 page not found")
    except OllamaError as error:
        return web.json_response(body=error_body(request.path, error.status, str(error)), status=error.status)


def error_body(path: str, status: int, message: str) -> bytes:
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    if path == "/v1/messages":
        return anthropic.error(message, "overloaded_error" if status == 503 else kind)
    return openai.error(message, kind) if path.startswith("/v1/") else ollama.error(message)
