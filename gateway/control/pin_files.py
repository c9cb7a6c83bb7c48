"""The pins of the configuration, read from their files. A file that cannot be used stops its pin, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from gateway.config import Pin as Settings
from gateway.dialects.prefill import prefill
from gateway.errors import WarmgateError
from gateway.state.pins import LARGEST, Pin


class PinProblem(WarmgateError):
    """Why a pin cannot be read, in a sentence."""


def read_pins(pins: Iterable[Settings]) -> Iterator[Pin | PinProblem]:
    """Reads files: not for the event loop."""
    for settings in pins:
        try:
            yield read_pin(settings)
        except PinProblem as problem:
            yield problem


def read_pin(settings: Settings) -> Pin:
    """Raises PinProblem."""
    body = prefill(settings.path, {"model": settings.model, **_request(settings)})
    if body is None:
        raise PinProblem(f"warmup.pins: {settings.name}: there is no system text and no tools in it for {settings.path}")
    key = b"config:" + settings.name.encode()
    return Pin(key, settings.name, "config", settings.model, settings.model, settings.path, body, when=tuple(settings.when))


def _request(settings: Settings) -> dict[str, Any]:
    if settings.body_file:
        body = _json(settings, settings.body_file)
        if not isinstance(body, dict):
            raise PinProblem(f"warmup.pins: {settings.name}: {settings.body_file} is not a request: it must be a JSON object")
        return body
    request: dict[str, Any] = {}
    if settings.system_file:
        text = _read(settings, settings.system_file).decode("utf-8", "replace").strip()
        if not text:
            raise PinProblem(f"warmup.pins: {settings.name}: there is no system text in {settings.system_file}")
        request |= SYSTEM[settings.path](text)
    if settings.tools_file:
        tools = _json(settings, settings.tools_file)
        if not isinstance(tools, list):
            raise PinProblem(f"warmup.pins: {settings.name}: {settings.tools_file} must be a JSON list of tools")
        request["tools"] = tools
    return request


def _messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": text}]}


SYSTEM: dict[str, Callable[[str], dict[str, Any]]] = {
    "/v1/chat/completions": _messages,
    "/api/chat": _messages,
    "/v1/messages": lambda text: {"system": text},
    "/v1/responses": lambda text: {"instructions": text, "input": "."},
}
"""Where each API has its system text."""


def _json(settings: Settings, path: Path) -> Any:
    try:
        return orjson.loads(_read(settings, path))
    except ValueError as error:
        raise PinProblem(f"warmup.pins: {settings.name}: {path} is not JSON: {error}") from error


def _read(settings: Settings, path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise PinProblem(f"warmup.pins: {settings.name}: {path} is larger than {LARGEST >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise PinProblem(f"warmup.pins: {settings.name}: {path} cannot be read: {error.strerror or error}") from error
