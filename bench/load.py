"""A client that costs little: one request after the other on each of a few connections, and what it saw."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field

ANSWER_LIMIT = 60.0  # seconds for one reply


@dataclass(slots=True)
class Seen:
    """Seconds from the request to the first byte of the body's data, and to the end, for each reply."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return statistics.median(self.whole)

    @property
    def first_p50(self) -> float:
        return statistics.median(self.first)


def request(model: str, prompt: str = "hi", *, stream: bool, system: str = "") -> bytes:
    """A chat request; prompt and system must need no escapes."""
    told = f'{{"role":"system","content":"{system}"}},' if system else ""
    body = (
        f'{{"model":"{model}","messages":[{told}{{"role":"user","content":"{prompt}"}}],"stream":{str(stream).lower()}}}'
    ).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"User-Agent: bench\r\nContent-Length: %d\r\n\r\n" % len(body)
    ) + body


async def run(port: int, message: bytes, *, requests: int, connections: int) -> Seen:
    """Send the message so often, over so many connections. Raises RuntimeError on any reply that is not a whole 200."""
    seen = Seen()
    share = [requests // connections + (at < requests % connections) for at in range(connections)]
    await asyncio.gather(*(_work(port, message, count, seen) for count in share if count))
    return seen


async def _work(port: int, message: bytes, count: int, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    for _ in range(count):
        began = time.perf_counter()
        writer.write(message)
        async with asyncio.timeout(ANSWER_LIMIT):
            close = await _reply(reader, seen, began)
        if close:
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.close()


async def _reply(reader: asyncio.StreamReader, seen: Seen, began: float) -> bool:
    """Read one reply. Returns whether the connection is closed after it."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(f"not a 200: {head[:200]!r}")
    if b"transfer-encoding: chunked" in head:
        tail, first = b"", True
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            data = await reader.read(1 << 20)
            if not data:
                raise RuntimeError("the reply ended early")
            if first:
                seen.first.append(time.perf_counter() - began)
                first = False
            tail = (tail + data)[-7:]
    else:
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        seen.first.append(time.perf_counter() - began)
    seen.whole.append(time.perf_counter() - began)
    return b"connection: close" in head


async def hold(port: int, message: bytes, count: int) -> list[asyncio.StreamWriter]:
    """Open so many streams and leave them open. The caller closes the writers."""
    writers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(message)
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
    return writers
