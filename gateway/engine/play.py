"""Asks one question over /v1/chat/completions as a stream, and measures what a user would notice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from gateway.engine.calls import open_url
from gateway.errors import WarmgateError

_DATA = b"data:"
_DONE = "[DONE]"


class PlayError(WarmgateError):
    """The reply cannot be used: an error in the stream, no answer in it, or not complete in time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """ttft, duration: seconds from sending the request to the first piece of the answer, and to the end of the stream.

    prompt: tokens of the whole prompt; cached: those that the server had in its KV cache; None where it does not say.
    """

    text: str
    ttft: float
    duration: float
    prompt: int | None
    cached: int | None

    @property
    def reused(self) -> float | None:
        """Share of the prompt that came from the cache, 0 to 1."""
        return self.cached / self.prompt if self.prompt and self.cached is not None else None


def ask(
    url: str,
    body: Mapping[str, Any],
    *,
    timeout: float,
    headers: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Reply:
    """Send the body to that server and read the stream to its end, for at most `timeout` seconds.

    Raises PlayError, urllib.error.HTTPError for 4xx and 5xx, OSError.
    """
    began = clock()
    pieces: list[str] = []
    first: float | None = None
    usage: Mapping[str, Any] = {}
    with open_url(f"{url}/v1/chat/completions", body, headers=headers, timeout=timeout) as stream:
        for event in _events(stream):
            if clock() - began > timeout:
                raise PlayError(f"the answer was not complete after {timeout:.0f} s")
            piece = _piece(event)
            if piece and first is None:
                first = clock()
            pieces.append(piece)
            usage = event.get("usage") or usage
    if first is None:
        raise PlayError("the stream ended without an answer")
    details = usage.get("prompt_tokens_details") or {}
    return Reply("".join(pieces), first - began, clock() - began, usage.get("prompt_tokens"), details.get("cached_tokens"))


def _events(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The data of each server-sent event, until `[DONE]`. llama.cpp and OpenAI write one line of data an event."""
    for line in stream:
        if not line.startswith(_DATA):
            continue  # blank lines and comments
        text = line.removeprefix(_DATA).decode().strip()
        if text == _DONE:
            return
        event: dict[str, Any] = json.loads(text)
        if "error" in event:
            raise PlayError(f"the server answered with an error: {json.dumps(event['error'])}")
        yield event
    raise PlayError("the connection was closed before the answer was complete")


def _piece(event: Mapping[str, Any]) -> str:
    """The text that an event adds to the answer; '' for roles, counts and heartbeats."""
    choices = event.get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("content") or ""
