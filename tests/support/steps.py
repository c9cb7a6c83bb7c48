"""The steps of which the scripts of a ScriptedUpstream are made.

A step is a coroutine function of the connection. `status`, `raw` and `chunk` send exactly what they are given; `full`,
`json_reply` and `stream` make whole replies, that is tuples of steps: `upstream.on(path, *stream(events), fin())`.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson

from tests.support.connection import Connection, Request, Step
from tests.support.http1 import Framing, chunk_bytes, head_bytes
from tests.support.replies import SHAPES, SSE, Reply

JSON = "application/json"


def raw(data: bytes) -> Step:
    """These bytes, in one write."""

    async def step(connection: Connection) -> None:
        await connection.send(data)

    return step


def status(code: int, *headers: tuple[str, str]) -> Step:
    """A status line and exactly these headers: the framing of the body is theirs to tell."""
    return raw(head_bytes(f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", headers))


def chunk(data: bytes) -> Step:
    """One chunk of a chunked body, in one write. No bytes: the end of the body."""
    return raw(chunk_bytes(data))


def sleep(seconds: float) -> Step:
    async def step(connection: Connection) -> None:
        await asyncio.sleep(seconds)

    return step


def wait(event: asyncio.Event) -> Step:
    """Goes on when the test sets the event."""

    async def step(connection: Connection) -> None:
        await event.wait()

    return step


def never() -> Step:
    """Silence until the peer leaves or the server is stopped."""
    return wait(asyncio.Event())


def fin() -> Step:
    """Closes the connection in an orderly way."""

    async def step(connection: Connection) -> None:
        connection.fin()

    return step


def rst() -> Step:
    """Aborts the connection: the peer sees a reset."""

    async def step(connection: Connection) -> None:
        connection.rst()

    return step


def stop_reading() -> Step:
    """Leaves what comes in the kernel's buffers. A script must be `at_head` for this to hold back the request's own body."""

    async def step(connection: Connection) -> None:
        connection.transport.pause_reading()

    return step


def choose(pick: Callable[[Request], Iterable[Step]]) -> Step:
    """Steps that depend on the request."""

    async def step(connection: Connection) -> None:
        for chosen in pick(connection.request):
            await chosen(connection)

    return step


def full(
    body: bytes, code: int = 200, *headers: tuple[str, str], content_type: str = JSON, gzipped: bool = False
) -> tuple[Step, ...]:
    """A whole reply with a Content-Length. HEAD gets the head of it. gzipped: compressed, whatever was asked for."""
    payload = gzip.compress(body, mtime=0) if gzipped else body
    encoding = [("Content-Encoding", "gzip")] if gzipped else []
    head = status(code, ("Content-Type", content_type), *encoding, ("Content-Length", str(len(payload))), *headers)
    return (choose(lambda request: (head,) if request.method == "HEAD" or not payload else (head, raw(payload))),)


def json_reply(value: Any, code: int = 200, *headers: tuple[str, str], gzipped: bool = False) -> tuple[Step, ...]:
    return full(orjson.dumps(value), code, *headers, gzipped=gzipped)


def stream(
    events: Sequence[bytes],
    *headers: tuple[str, str],
    content_type: str = SSE,
    framing: Framing = "chunked",
    gap: float = 0.0,
    end: bool = True,
    gzipped: bool = False,
) -> tuple[Step, ...]:
    """A reply in which each event is one write (and one chunk, where the body is chunked).

    framing: `length` counts the given events; gap: seconds before each event but the first; end: False leaves the body
    unfinished (no last chunk; with `close`, the connection stays open); gzipped: the events become one compressed piece.
    """
    if gzipped:
        events, headers = [gzip.compress(b"".join(events), mtime=0)], (*headers, ("Content-Encoding", "gzip"))
    told = {
        "chunked": ("Transfer-Encoding", "chunked"),
        "length": ("Content-Length", str(sum(map(len, events)))),
        "close": ("Connection", "close"),
    }
    steps = [status(200, ("Content-Type", content_type), told[framing], *headers)]
    for number, event in enumerate(events):
        steps += [sleep(gap)] if gap and number else []
        steps.append(chunk(event) if framing == "chunked" else raw(event))
    if end and framing != "length":
        steps.append(chunk(b"") if framing == "chunked" else fin())
    return tuple(steps)


def ordinary(reply: Reply | None = None, *, gap: float = 0.0) -> Step:
    """A well-behaved answer in the dialect of the request's path: streamed or not, and with usage, as its body asks."""
    said = reply or Reply()

    def pick(request: Request) -> Iterable[Step]:
        shape, body = SHAPES[request.path], request.json()
        if not shape.wants_stream(body):
            return full(shape.document(said))
        told = replace(said, usage=said.usage and shape.tells_usage(body))
        return stream(shape.stream(told), content_type=shape.content_type, gap=gap)

    return choose(pick)
