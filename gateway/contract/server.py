"""The server that is examined, as the probes see it: what it is, and ways of asking it that always end."""

from __future__ import annotations

import itertools
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx

from gateway import values
from gateway.backends.base import Kind
from gateway.backends.control import MAX_REPLY, Control
from gateway.contract.base import Settled, differs, skipped
from gateway.contract.bodies import CHAT, FORMS, prose
from gateway.contract.heard import Heard
from gateway.contract.report import Masking
from gateway.dialects import PLAIN, find
from gateway.values import Usage

Until = Callable[[Heard], bool]


class Server:
    """kind, seen: what it was found to be; model: the one that is asked; masking: of what is told;
    baseline: seconds that the last one-token answer took, set by the probe that asks for the first."""

    def __init__(
        self, control: Control, client: httpx.AsyncClient, kind: Kind, seen: values.Probe, model: str, masking: Masking
    ):
        self.control = control
        self.kind = kind
        self.seen = seen
        self.model = model
        self.baseline = 0.0
        self._client = client
        self.masking = masking
        self._nonce = secrets.token_hex(4)
        self._texts = itertools.count(1)

    # what it is

    def before(self, *version: int) -> bool:
        """Whether it says that it is older than that version. One that does not say is taken for new."""
        found = tuple(map(int, re.findall(r"\d+", self.seen.version or "")[:3]))
        return bool(found) and found < version

    # asking

    def text(self, words: int) -> str:
        """A prompt that no cache knows."""
        return prose(words, f"{self._nonce}-{next(self._texts)}")

    def body(self, path: str, text: str, tokens: int, *, stream: bool = False) -> dict[str, Any]:
        return FORMS[path].body(self.model, text, tokens, stream=stream)

    async def get(self, path: str) -> Heard:
        return await self._exchange("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Heard:
        """Whatever it answers, as one document."""
        return await self._exchange("POST", path, json.dumps(body).encode())

    async def send(self, method: str, path: str, content: bytes) -> Heard:
        """These very bytes."""
        return await self._exchange(method, path, content)

    async def hear(self, path: str, body: Mapping[str, Any], until: Until | None = None) -> Heard:
        """A stream, to its end or until that is true of it: then the connection is closed, as by a client that leaves."""
        content = json.dumps(body).encode()
        return await self._exchange("POST", path, content, stream=True, until=until)

    async def answer(self, path: str, text: str, tokens: int, **fields: Any) -> Heard:
        """An answer that is one document. Raises Settled where there is none."""
        return answered(await self.post(path, self.body(path, text, tokens) | fields))

    async def usage(self, path: str, text: str, tokens: int = 1, **fields: Any) -> Usage:
        """The token counts of such an answer."""
        return (await self.answer(path, text, tokens, **fields)).seen.usage

    async def _exchange(
        self, method: str, path: str, content: bytes | None, *, stream: bool = False, until: Until | None = None
    ) -> Heard:
        endpoint = find(method, path)
        tap = (endpoint.dialect if endpoint else PLAIN).tap(path, streaming=stream)
        began = time.monotonic()
        headers = {"content-type": "application/json"} if content is not None else {}
        if path.startswith("/v1/messages"):
            headers["anthropic-version"] = "2023-06-01"
        async with self._client.stream(method, self.control.base_url + path, content=content, headers=headers) as reply:
            media = reply.headers.get("content-type", "").partition(";")[0].strip()
            heard = Heard(path, reply.status_code, media, time.monotonic() - began, tap.seen, mask=self.masking.text)
            async for piece in _bounded(reply):
                heard.pieces.append(piece)
                tap.feed(piece)
                if heard.first is None and tap.seen.first:
                    heard.first = time.monotonic() - began
                if until and until(heard):
                    break
            else:
                tap.close()
        heard.end = time.monotonic() - began
        return heard


async def _bounded(reply: httpx.Response) -> AsyncIterator[bytes]:
    size = 0
    async for piece in reply.aiter_bytes():
        size += len(piece)
        if size > MAX_REPLY:
            raise Settled(differs(f"it answers with more than {MAX_REPLY >> 20} MiB"))
        yield piece


def lacks(heard: Heard) -> bool:
    """Whether the server says that it has no such path. LM Studio says so with 200."""
    return heard.status in (404, 405, 501) or "unexpected endpoint" in str(heard.doc.get("error", "")).lower()


def answered(heard: Heard) -> Heard:
    """The reply if it is an answer. Raises Settled: skipped where the path is missing and may be, else differs."""
    if lacks(heard) and heard.path != CHAT:
        raise Settled(skipped(f"it has no {heard.path}: {heard.status}, {heard.words}", status=heard.status))
    if heard.status != 200 or heard.seen.error is not None:
        raise Settled(differs(f"{heard.path} answers {heard.status}: {heard.words}; expected an answer", status=heard.status))
    return heard
