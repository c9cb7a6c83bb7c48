"""An upstream in a process of its own, for load tests that must not share their event loop with it.

    async with UpstreamProcess("silent") as upstream:
        ... 1,000 requests to upstream.url that are given up ...
        report = await upstream.report()
        assert len(report.closed) == 1000 and max(report.closed) - left < 1.0

Every path but a plain OpenAI server's `/v1/models` and `/__control` is answered in the way of the mode:

    flood    an endless-looking chat stream of `--bytes` in large events, as fast as the peer reads
    silent   not a byte, not even headers
    stalled  headers and one event, then nothing
    spaced   `--events` events, one each `--interval` seconds
    json     one small document at once

`python -m tests.support.upstream_process --mode flood` prints its port on the first line and runs until SIGTERM. Its times are
of the monotonic clock, which on Linux all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from tests.support.clients import fetch
from tests.support.connection import Connection, Step
from tests.support.http1 import chunk_bytes
from tests.support.replies import SSE, Reply, openai
from tests.support.replies.reply import CREATED, sse
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import chunk, full, never, status, stream

REPOSITORY = Path(__file__).resolve().parents[2]
CONTROL = "/__control"
FLOOD_EVENT = 16_384
"""Bytes of one event of a flood: a delta of text."""


@dataclass(frozen=True, slots=True)
class Report:
    """The state of an upstream. Control connections are not counted, and the model list is not counted as a request.

    open: connections; requests: heads received; closed: monotonic seconds at which peers closed connections on which a request
    had been made, sorted; resets: how many of those ends were resets; sent: bytes handed to the kernel.
    """

    open: int
    requests: int
    closed: tuple[float, ...]
    resets: int
    sent: int


def delta(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return sse(
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": "tiny", "choices": [choice]}
    )


def flood(size: int) -> tuple[Step, ...]:
    """At least `size` bytes of events. Each event is one chunk, and several are sent in a write."""
    event = chunk_bytes(delta("x" * FLOOD_EVENT))
    batch = event * 8

    async def pour(connection: Connection) -> None:
        for _ in range(-(-size // len(batch))):
            await connection.send(batch)

    head = status(200, ("Content-Type", SSE), ("Transfer-Encoding", "chunked"))
    return (head, pour, chunk(openai.DONE), chunk(b""))


def spaced(count: int, interval: float) -> tuple[Step, ...]:
    return stream([*(delta(f"{n} ") for n in range(count)), openai.DONE], gap=interval)


MODES: Mapping[str, Callable[[argparse.Namespace], tuple[Step, ...]]] = {
    "flood": lambda options: flood(options.bytes),
    "silent": lambda _: (never(),),
    "stalled": lambda _: (*stream([delta("only")], end=False), never()),
    "spaced": lambda options: spaced(options.events, options.interval),
    "json": lambda _: full(openai.chat_document(Reply())),
}


def report_of(upstream: ScriptedUpstream) -> dict[str, Any]:
    control = {request.connection for request in upstream.asked(CONTROL)}
    asked = [r for r in upstream.requests if r.answered_by == "script" and r.connection not in control]
    worked = {request.connection for request in asked}
    others = [connection for connection in upstream.connections if connection.number not in control]
    left = [connection for connection in others if connection.closed_at is not None and connection.number in worked]
    return {
        "open": sum(connection.open and connection.closed_at is None for connection in others),
        "requests": len(asked),
        "closed": sorted(connection.closed_at for connection in left if connection.closed_at is not None),
        "resets": sum(connection.closed_how == "reset" for connection in left),
        "sent": sum(connection.sent for connection in others),
    }


async def serve(options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    upstream = ScriptedUpstream()
    upstream.on("*", *MODES[options.mode](options))

    async def control(connection: Connection) -> None:
        for step in full(orjson.dumps(report_of(upstream))):
            await step(connection)

    upstream.on(f"GET {CONTROL}", control)
    async with upstream:
        sys.stdout.write(f"{upstream.port}\n")
        sys.stdout.flush()
        await stopped.wait()


class UpstreamProcess:
    """Runs this module. options: `bytes`, `events`, `interval`, as on the command line."""

    def __init__(self, mode: str, **options: float):
        self._arguments = ["--mode", mode, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
        self._process: asyncio.subprocess.Process
        self.url = ""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.upstream_process", *self._arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, cwd=REPOSITORY,
        )  # fmt: skip
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line.strip().isdigit(), "the upstream process did not start"
        self.url = f"http://127.0.0.1:{int(line)}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def report(self) -> Report:
        found: Mapping[str, Any] = (await fetch(f"{self.url}{CONTROL}")).json()
        return Report(**{**found, "closed": tuple(found["closed"])})

    async def wait_closed(self, count: int, within: float) -> Report:
        """The report once `count` request connections were closed by their peers, or at the deadline as it is then."""
        deadline = time.monotonic() + within
        while len((found := await self.report()).closed) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="a scripted upstream in a process of its own")
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--bytes", type=int, default=200_000_000, help="size of a flood")
    parser.add_argument("--events", type=int, default=10, help="events of a spaced stream")
    parser.add_argument("--interval", type=float, default=0.1, help="seconds between the events of a spaced stream")
    asyncio.run(serve(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
