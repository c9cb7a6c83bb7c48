"""A model server that costs next to nothing, for measuring what stands in front of it: `python -m bench.upstream`.

What it does is said by the model's name in the body: `json` one small document; `flood` a stream of events as fast as they go;
`spaced` a stream with a pause before each event; `split` the same, each event in two writes; `silent` headers, then nothing;
`prefill` headers, a pause, then a short stream; `drop` a document, after which the connection is closed.
A number behind the name is the count of events: `flood-20000`.
"""

from __future__ import annotations

import asyncio
import re
import signal

EVENT = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
LAST = EVENT.replace(b'{"content":" word"},"finish_reason":null', b'{},"finish_reason":"stop"') + b"data: [DONE]\n\n"
DOCUMENT = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"word"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,'
    b'"prompt_tokens_details":{"cached_tokens":8}}}'
)
MODELS = ("json", "silent", "drop", "flood-20032", "spaced-250", "split-250", "prefill-20")
LIST = b'{"object":"list","data":[%s]}' % b",".join(b'{"id":"%s","object":"model"}' % name.encode() for name in MODELS)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODE = re.compile(rb'"model": ?"([a-z]+)(?:-(\d+))?"')
LENGTH = re.compile(rb"\r\ncontent-length: ?(\d+)", re.IGNORECASE)
PAUSE = 0.002  # seconds before each event of a spaced stream
PREFILL = 0.05
FLOOD_WRITE = 64  # events in one write of a flood


def document(body: bytes, close: bool = False) -> bytes:
    end = b"Connection: close\r\n" if close else b""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + end + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server(asyncio.Protocol):
    """One connection. One request at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[: end + 2])
        found = LENGTH.search(head)
        size = end + 4 + (int(found[1]) if found else 0)
        if len(self._buffer) < size:
            return
        body = bytes(self._buffer[end + 4 : size])
        del self._buffer[:size]
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self._transport.write(document(LIST))
            return
        found = MODE.search(body[:4096]) or MODE.search(body)
        mode, count = (found[1], int(found[2] or 0)) if found else (b"json", 0)
        if mode == b"json":
            self._transport.write(document(DOCUMENT))
        elif mode == b"drop":
            self._transport.write(document(DOCUMENT, close=True))
            self._transport.close()
        else:
            self._transport.write(STREAM_HEAD)
            self._task = asyncio.get_running_loop().create_task(self._stream(mode, count))

    async def _stream(self, mode: bytes, count: int) -> None:
        write, event = self._transport.write, chunked(EVENT)
        if mode == b"silent":
            return
        if mode == b"prefill":
            await asyncio.sleep(PREFILL)
        if mode == b"flood":
            piece = event * FLOOD_WRITE
            for _ in range(max(1, count // FLOOD_WRITE)):
                write(piece)
                await self._room.wait()
                await asyncio.sleep(0)
        for _ in range(0 if mode == b"flood" else max(1, count)):
            if mode in (b"spaced", b"split"):
                await asyncio.sleep(PAUSE)
            if mode == b"split":
                half = len(EVENT) // 2
                write(chunked(EVENT[:half]))
                await asyncio.sleep(0)
                write(chunked(EVENT[half:]))
            else:
                write(event)
        write(chunked(LAST) + b"0\r\n\r\n")


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
