"""The real gateway in front of three scripted servers, and calls in every dialect. One rig serves all tests of a module.

async def test_something(rig: Rig) -> None:
    call = CALLS["anthropic"]
    rig.upstream(call).once(call.path, *stream(call.events()[:3], end=False), fin())
    async with rig.expects("upstream_error"):
        response = await rig.ask(call)
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from tests.support import personas
from tests.support.clients import RawClient, Response, fetch, post
from tests.support.connection import Request, Step
from tests.support.process import GatewayProcess, Metrics
from tests.support.replies import SHAPES, Reply, Shape
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import full, stream

PATIENCE = 10.0
"""Seconds that something which should happen at once may take on a busy machine."""

SAID = Reply(text="Hello there, my good old friend.")


@dataclass(frozen=True, slots=True)
class Call:
    """A request in one dialect. backend: which server of the rig answers it; content: what the body holds beside the rest."""

    name: str
    path: str
    backend: str
    model: str
    content: Mapping[str, Any]
    streaming: bool = True

    @property
    def shape(self) -> Shape:
        return SHAPES[self.path]

    @property
    def body(self) -> dict[str, Any]:
        return {"model": self.model, **self.content, "stream": self.streaming}

    @property
    def ndjson(self) -> bool:
        return self.shape.content_type == "application/x-ndjson"

    def raw(self, *headers: tuple[str, str], **fields: Any) -> bytes:
        return post(self.path, self.body | fields, *headers)

    def events(self, reply: Reply = SAID) -> list[bytes]:
        return self.shape.stream(reply)

    def answer(self, reply: Reply = SAID, *, gap: float = 0.0, gzipped: bool = False) -> tuple[Step, ...]:
        if self.streaming:
            return stream(self.events(reply), content_type=self.shape.content_type, gap=gap, gzipped=gzipped)
        return full(self.shape.document(reply), gzipped=gzipped)

    def whole(self, reply: Reply = SAID) -> bytes:
        """The bytes of the body of `answer`."""
        return b"".join(self.events(reply)) if self.streaming else self.shape.document(reply)


_USER = {"messages": [{"role": "user", "content": "hi"}]}

CALLS: dict[str, Call] = {
    call.name: call
    for call in (
        Call("openai_chat", "/v1/chat/completions", "llama", "tiny", _USER),
        Call("openai_completions", "/v1/completions", "llama", "tiny", {"prompt": "hi"}),
        Call("openai_responses", "/v1/responses", "llama", "tiny", {"input": "hi"}),
        Call("anthropic", "/v1/messages", "llama", "tiny", {"max_tokens": 8, **_USER}),
        Call("ollama_chat", "/api/chat", "ollama", "gem", _USER),
        Call("ollama_generate", "/api/generate", "ollama", "gem", {"prompt": "hi"}),
        Call("llamacpp", "/completion", "llama", "tiny", {"prompt": "hi"}),
        Call("plain_openai", "/v1/chat/completions", "plain", "plain", {"stream_options": {"include_usage": True}, **_USER}),
    )
}
"""One call for each dialect, and one to a server of which nothing is known."""

STREAMS = list(CALLS.values())
DOCUMENTS = [replace(call, streaming=False) for call in STREAMS]
ALL = STREAMS + DOCUMENTS


def call_id(call: Call) -> str:
    return f"{call.name}-{'stream' if call.streaming else 'document'}"


@dataclass(slots=True)
class Rig:
    gateway: GatewayProcess
    upstreams: dict[str, ScriptedUpstream]

    @property
    def llama(self) -> ScriptedUpstream:
        return self.upstreams["llama"]

    @property
    def ollama(self) -> ScriptedUpstream:
        return self.upstreams["ollama"]

    @property
    def plain(self) -> ScriptedUpstream:
        return self.upstreams["plain"]

    def upstream(self, call: Call) -> ScriptedUpstream:
        return self.upstreams[call.backend]

    def client(self, **options: Any) -> RawClient:
        return RawClient(self.gateway.url, **options)

    async def ask(self, call: Call, *headers: tuple[str, str], **fields: Any) -> Response:
        """The call on a connection of its own, its response read to the end, whatever that is."""
        return await self.send(call.raw(*headers, **fields))

    async def send(self, request: bytes, *, method: str = "POST", within: float = PATIENCE) -> Response:
        """These bytes on a connection of their own. Raises ConnectionError if there is no HTTP answer, TimeoutError."""
        async with asyncio.timeout(within), self.client() as client:
            await client.send(request)
            response = await client.response(method=method)
            await response.read()
        return response

    async def last(self, path: str, backend: str = "llama") -> Request:
        """The newest request to this path at a server, with its body."""
        upstream = self.upstreams[backend]

        async def whole() -> bool:
            asked = upstream.asked(path)
            return bool(asked) and asked[-1].complete

        await eventually(whole, f"a request to {path}")
        return upstream.asked(path)[-1]

    @asynccontextmanager
    async def expects(self, *outcomes: str) -> AsyncIterator[Changes]:
        """Checks that the block makes the gateway count exactly these outcomes, and that nothing stays in flight."""
        changes = Changes(await self._scrape())
        yield changes
        wanted = Counter(outcomes)

        async def counted() -> bool:
            changes.last = await self._scrape()
            return changes.outcomes().total() >= len(outcomes) and changes.last.in_flight == 0

        await eventually(counted, f"{outcomes} counted and nothing in flight", lambda: changes.last)
        assert changes.outcomes() == wanted

    async def _scrape(self) -> Scrape:
        return Scrape((await fetch(f"{self.gateway.admin}/metrics")).body.decode())

    async def record(self, request_id: str) -> dict[str, Any]:
        """What the gateway keeps of a finished request."""
        found: dict[str, Any] = {}

        async def known() -> bool:
            response = await fetch(f"{self.gateway.admin}/status")
            rows = response.json()["recent"] if response.status == 200 else []
            found.update(next((row for row in rows if row["id"] == request_id), {}))
            return bool(found)

        await eventually(known, f"a record of {request_id}")
        return found


class Scrape:
    """A scrape of /metrics. What every test looks at is found without parsing it all."""

    def __init__(self, text: str = ""):
        self.text = text

    @cached_property
    def metrics(self) -> Metrics:
        return Metrics.parse(self.text)

    @cached_property
    def outcomes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for outcome, count in _OUTCOME.findall(self.text):
            found[outcome] += int(float(count))
        return found

    @cached_property
    def in_flight(self) -> float:
        return sum(map(float, _IN_FLIGHT.findall(self.text)))


_OUTCOME = re.compile(r'^warmgate_requests_total\{.*outcome="(\w+)".*\} (\S+)$', re.MULTILINE)
_IN_FLIGHT = re.compile(r"^warmgate_inflight\{.*\} (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Changes:
    """What happened between two scrapes."""

    first: Scrape
    last: Scrape = field(default_factory=Scrape)

    @property
    def after(self) -> Metrics:
        return self.last.metrics

    @property
    def before(self) -> Metrics:
        return self.first.metrics

    def outcomes(self) -> Counter[str]:
        """How many requests ended how."""
        return self.last.outcomes - self.first.outcomes

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """How much the series of this name grew, summed by one label; what did not grow is left out."""
        grown: dict[str, float] = {}
        for key, value in self.after.matching(name, **labels).items():
            change = value - self.before.get((name, key), 0.0)
            if change:
                label_value = dict(key)[label]
                grown[label_value] = grown.get(label_value, 0.0) + change
        return grown

    def value(self, name: str, **labels: str) -> float:
        return self.after.value(name, **labels) - self.before.value(name, **labels)


async def eventually(check: Callable[[], Any], what: str, shown: Callable[[], Any] = lambda: "") -> None:
    """Waits until the asynchronous check is true."""
    end = time.monotonic() + PATIENCE
    while not await check():
        assert time.monotonic() < end, f"not within {PATIENCE} s: {what} {shown()}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(
    directory: Path,
    config: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    url: str | None = None,
    **backend: Any,
) -> AsyncIterator[Rig]:
    """The three servers and the gateway. config: over the rig's own; more: further backends; url: where the gateway listens, if
    `listen` is a list; backend: fields of the three backends."""
    async with AsyncExitStack() as stack:
        upstreams = {
            "llama": ScriptedUpstream(personas.llamacpp("tiny", slots=64)),
            "ollama": ScriptedUpstream(personas.ollama("gem")),
            "plain": ScriptedUpstream(personas.openai("plain")),
        }
        for upstream in upstreams.values():
            await stack.enter_async_context(upstream)
        kinds = {"llama": "llamacpp", "ollama": "ollama", "plain": "openai"}
        fields = {"parallel": 64, "pin": "never", "snapshots": "never", **backend}  # the gateway asks for nothing of its own
        backends = {name: {"kind": kinds[name], "url": upstream.url, **fields} for name, upstream in upstreams.items()}
        settings = {"backends": {**backends, **(more or {})}, **(config or {})}
        gateway = await stack.enter_async_context(GatewayProcess(directory, settings))
        gateway.url = url or gateway.url
        yield Rig(gateway, upstreams)


def as_sent(path: str, body: bytes) -> bytes:
    """What a body becomes on its way: llama.cpp's own paths are told to use the cache, where the client did not say (case E11).
    What only lenient parsers read is not touched."""
    try:
        orjson.loads(body)
    except ValueError:
        return body
    brace = body.index(b"{") + 1
    return body[:brace] + b'"cache_prompt":true,' + body[brace:] if path == "/completion" else body


def is_error(call: Call, body: bytes) -> bool:
    """Whether a reply of the gateway's own has the shape of an error in this call's API."""
    return error_message(call.path, orjson.loads(body)) is not None


def error_message(path: str, doc: Any) -> str | None:
    """The sentence in an error of the API of this path, None if it is no such error."""
    if path.startswith("/api/") and not path.startswith("/api/v"):
        return doc["error"] if isinstance(doc.get("error"), str) else None
    error = doc.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str) or not isinstance(error.get("type"), str):
        return None
    if path.startswith("/v1/messages") and doc.get("type") != "error":
        return None
    return str(error["message"])
