"""The control path to one backend: the only httpx client. Probes, model lists and, later, load and unload calls go through it.

It is apart from the data path on purpose: a probe that hangs must not touch a connection that carries a user's answer.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from gateway.errors import Unreachable

MAX_REPLY = 8 << 20  # bytes; a model list of a thousand models is below 1 MiB


@dataclass(frozen=True, slots=True)
class Answer:
    """A control reply. body: parsed JSON, or None where it is not JSON; text: at most the first 200 characters."""

    status: int
    body: Any
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def rows(self, key: str) -> list[dict[str, Any]]:
        """The list of objects under `key`, with everything that is not an object left out; [] where there is none."""
        found = self.body.get(key) if isinstance(self.body, dict) else None
        return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []

    def field(self, *path: str) -> Any:
        """The value at a path of object keys, or None."""
        value = self.body
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value


class Control:
    """Owns one httpx client. `memo` is a small cache for kinds that would otherwise ask the same thing at each probe."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        verify: ssl.SSLContext | bool = True,
        timeout: float = 2.0,
    ):
        self.base_url = base_url.rstrip("/")
        if verify is True and self.base_url.startswith("http://"):
            verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the system's authorities would hold the loop for 20 ms
        self.memo: dict[Any, Any] = {}
        self._client = httpx.AsyncClient(
            headers=dict(headers or {}),
            verify=verify,
            trust_env=False,
            timeout=timeout,
            limits=httpx.Limits(max_connections=4, keepalive_expiry=3.0),
        )

    async def get(self, path: str, timeout: float | None = None) -> Answer:
        """timeout: seconds of silence, where not the usual ones."""
        return await self._ask("GET", path, None, timeout)

    async def post(self, path: str, body: Mapping[str, Any], timeout: float | None = None) -> Answer:
        return await self._ask("POST", path, body, timeout)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float | None) -> Answer:
        """Raises Unreachable with a sentence that names the address; never a library's own error."""
        limit = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
        try:
            async with self._client.stream(method, self.base_url + path, json=body, timeout=limit) as reply:
                data = bytearray()
                async for piece in reply.aiter_bytes():
                    data += piece
                    if len(data) > MAX_REPLY:
                        raise Unreachable(f"{self.base_url}{path} answers with more than {MAX_REPLY >> 20} MiB")
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, ValueError) as error:
            raise Unreachable(f"{self.base_url}: {describe(error)}") from error
        try:
            parsed = json.loads(bytes(data))
        except (ValueError, RecursionError):
            parsed = None
        return Answer(reply.status_code, parsed, bytes(data[:200]).decode("utf-8", "replace"))


def describe(error: BaseException) -> str:
    """A connection error in words for the operator."""
    text = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its TLS certificate cannot be verified; set tls.ca to its authority's file, or tls.verify: false"
    if "Connect call failed" in text or "All connection attempts failed" in text or "refused" in text.lower():
        return "connection refused; is the server running?"
    if "Name or service not known" in text or "nodename nor servname" in text or "getaddrinfo" in text:
        return "its host name cannot be resolved"
    return text
