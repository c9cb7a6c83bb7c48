from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Iterator

import pytest

from gateway.server import unread

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both ends of a connection: the gateway's, the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        mine, _ = listener.accept()
    with mine, client:
        yield mine, client


def test_a_client_that_is_still_there(pair: Pair) -> None:
    mine, client = pair
    client.sendall(b"unread")
    assert unread.left([mine.fileno()]) == []
    assert unread.left([]) == []


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="needs POLLRDHUP")
def test_an_end_behind_bytes_that_are_not_read(pair: Pair) -> None:
    mine, client = pair
    client.sendall(b"unread")
    client.close()
    assert unread.left([mine.fileno()]) == [mine.fileno()]


def test_a_reset(pair: Pair) -> None:
    mine, client = pair
    client.sendall(b"unread")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert unread.left([mine.fileno()]) == [mine.fileno()]


class Held(asyncio.Protocol):
    """A server side that reads only while it is told to."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        self.transport = None


async def test_the_connection_of_a_client_that_left_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "EVERY", 0.01)
    made: list[Held] = []

    def make() -> Held:
        made.append(Held())
        return made[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(2)]
    watching = asyncio.create_task(unread.watch(lambda: made))  # type: ignore[arg-type, return-value]
    while len(made) < 2:
        await asyncio.sleep(0.005)
    clients[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    clients[0].close()
    async with asyncio.timeout(5):
        while sum(held.lost.is_set() for held in made) != 1:
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    assert sum(held.lost.is_set() for held in made) == 1, "the other is still there"
    watching.cancel()
    clients[1].close()
    for held in made:
        if held.transport:
            held.transport.abort()
    server.close()
    await asyncio.sleep(0)
