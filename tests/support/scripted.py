"""An HTTP server on a raw socket that does what a script says: answers, stalls, lies, hangs up.

    async with ScriptedUpstream(personas.llamacpp()) as upstream:
        upstream.on("/v1/chat/completions", *stream(events[:2], end=False), rst())
        ...
        assert upstream.asked("/v1/chat/completions")[0].json()["model"] == "tiny"
        assert await upstream.connections[0].peer_closed(within=1.0)

The socket is always being read unless a script says otherwise, so a peer that leaves is seen at that moment, also in the middle
of a silence; what was left of the script is then given up, as a server that notices does. Steps: see tests.support.steps.
"""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict, deque
from types import TracebackType
from typing import Self

from tests.support import personas
from tests.support.connection import Connection, Request, Script, Step
from tests.support.personas import Persona
from tests.support.steps import full


class ScriptedUpstream:
    """The server. One writer of the records: its connections.

    persona: answers what no script covers; idle_close: seconds after which an idle connection is closed with FIN;
    reset_at_request: the connection is reset at the head of its n-th request that has a script (2: a reused connection dies);
    reads: False = accepts and never reads a byte; receive_buffer: SO_RCVBUF in bytes, so that an unread body fills up soon.
    """

    def __init__(
        self,
        persona: Persona | None = None,
        *,
        idle_close: float | None = None,
        reset_at_request: int | None = None,
        reads: bool = True,
        receive_buffer: int | None = None,
    ):
        self.persona = persona or personas.openai()
        self.idle_close = idle_close
        self.reset_at_request = reset_at_request
        self.reads = reads
        self.requests: list[Request] = []
        self.connections: list[Connection] = []
        self.errors: list[Exception] = []
        self.arrived = asyncio.Event()
        self.port = 0
        self._receive_buffer = receive_buffer
        self._standing: dict[str, Script] = {}
        self._once: defaultdict[str, deque[Script]] = defaultdict(deque)

    # scripts

    def on(self, where: str, *steps: Step, at_head: bool = False) -> None:
        """What is done for every request to `where`: "/path", "METHOD /path" or "*"."""
        self._standing[where] = Script(steps, at_head)

    def once(self, where: str, *steps: Step, at_head: bool = False) -> None:
        """What is done for the next request to `where` only; several are used in their order, before the standing script."""
        self._once[where].append(Script(steps, at_head))

    def forget(self) -> None:
        """Takes all scripts away and forgets the requests; connections stay."""
        self._standing.clear()
        self._once.clear()
        self.requests.clear()

    def script_for(self, request: Request) -> Script:
        places = [f"{request.method} {request.path}", request.path]
        if not self.persona.knows(request.method, request.path):
            places.append("*")  # it does not take the server's own answers away
        request.answered_by = "script"
        for where in places:
            if self._once[where]:
                return self._once[where].popleft()
            if where in self._standing:
                return self._standing[where]
        request.answered_by = "persona"
        canned = self.persona.answer(request.method, request.path)
        return Script(full(canned.body, canned.status, content_type=canned.content_type))

    # records

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return sum(connection.open and connection.closed_at is None for connection in self.connections)

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path]

    async def wait_for(self, path: str, count: int = 1, within: float = 5.0) -> list[Request]:
        """The requests to a path once there are `count` of them with their whole bodies. Raises TimeoutError."""
        async with asyncio.timeout(within):
            while len(found := self.asked(path)) < count:
                self.arrived.clear()
                await self.arrived.wait()
            for request in found:
                await request.received.wait()
        return found

    # life

    async def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port), backlog=4096)
        if self._receive_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        self.port = listener.getsockname()[1]
        self._server = await asyncio.get_running_loop().create_server(lambda: Connection(self), sock=listener)

    async def stop(self) -> None:
        """Closes everything, and raises the first error that a script made. `start` again listens on the same port."""
        self._server.close()
        for connection in self.connections:
            if connection.open:
                connection.open = False
                connection.transport.abort()
        await self._server.wait_closed()
        await asyncio.gather(*(connection.task for connection in self.connections), return_exceptions=True)
        if self.errors:
            raise self.errors[0]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
