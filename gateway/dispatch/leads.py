"""Heads that the gateway computes itself, once for all requests that begin alike.

A llama.cpp server computes a prefix once for each slot, and saving a busy slot waits for its whole answer. So the first of
several requests that begin alike is led: a request with the same tools and system text, a stub message and one token is sent
before it, and its slot is saved. The others restore that. (Measured: four requests at once with one prefix prefilled 103-171
tokens besides the head, instead of four heads.)
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import aiohttp
import orjson

from gateway.backends import slot_files
from gateway.backends.slot_files import Row
from gateway.dialects import counts
from gateway.dispatch.plan import Order, Place
from gateway.dispatch.reading import Body
from gateway.dispatch.saver import SLACK, Saver
from gateway.dispatch.turns import Turns
from gateway.dispatch.upstream import Upstream
from gateway.errors import Unreachable, UpstreamError
from gateway.prefix.chain import Chain
from gateway.routing.board import Snapshot
from gateway.values import Usage
from gateway.wire.inflate import Undecodable
from gateway.wire.lenient import loads
from gateway.wire.splice import set_fields

log = logging.getLogger("warmgate.snapshots")

LOOK = 2.0
"""Seconds that a look at the slots may take."""

MAX_REPLY = 1 << 20
"""Bytes of a reply of one token."""

TRIES = 2
"""Times that a head is sent: in the server's default mode another request may empty its slot before it is saved, and then the
server's cache in memory has it."""


@dataclass(frozen=True, slots=True)
class Lead:
    """nodes: of the beginning of the chain that is computed; slot: that it is pinned to, None where the server chooses; spare:
    one that may be overwritten by the proof of the model."""

    saver: Saver
    place: Place
    order: Order
    chain: Chain
    nodes: int
    slot: int | None
    spare: int | None

    @property
    def key(self) -> tuple[str, bytes]:
        return self.place.state.name, self.chain.digests[self.nodes - 1]


class Leads:
    """One writer of `_running`: this class, on the event loop."""

    def __init__(self, upstream: Upstream, turns: Turns):
        self._upstream, self._turns = upstream, turns
        self._running: dict[tuple[str, bytes], tuple[Lead, asyncio.Task[Snapshot | None]]] = {}

    def running(self, backend: str) -> bool:
        return any(name == backend for name, _ in self._running)

    async def follow(self, lead: Lead) -> tuple[Snapshot | None, int | None]:
        """The snapshot of the head, computed now unless it is being computed already, and the slot to which that was pinned.
        None if it failed."""
        if lead.key not in self._running:
            task = lead.saver.spawn(self._make(lead))
            self._running[lead.key] = lead, task
            task.add_done_callback(lambda _: self._running.pop(lead.key, None))
        first, task = self._running[lead.key]
        return await asyncio.shield(task), first.slot

    async def _make(self, lead: Lead) -> Snapshot | None:
        saver, made = lead.saver, lead.order.lead(lead.place.target, lead.place.state.kind)
        if made is None or lead.spare is None or not await saver.prove(lead.spare):
            saver.tell("lead", "not_made")
            return None
        path, body = made
        if lead.slot is not None:
            body = set_fields(body, {"id_slot": orjson.dumps(lead.slot)})
        try:
            snapshot = await (self._pinned if lead.slot is not None else self._free)(lead, path, body)
        except (UpstreamError, Unreachable, aiohttp.ClientError, OSError, Undecodable, TimeoutError) as error:
            log.info("backend %s: a head could not be computed ahead: %s", saver.backend, error)
            snapshot = None
        saver.tell("lead", "ok" if snapshot else "failed")
        return snapshot

    async def _pinned(self, lead: Lead, path: str, body: bytes) -> Snapshot | None:
        assert lead.slot is not None
        tokens = await self._send(lead, path, body)
        return await lead.saver.save(lead.slot, lead.chain, lead.nodes, tokens) if tokens else None

    async def _free(self, lead: Lead, path: str, body: bytes) -> Snapshot | None:
        """Computed wherever the server likes. From the second try on nothing else may start until it is saved."""
        tokens = await self._send(lead, path, body)
        for again in range(TRIES):
            if not tokens:
                return None
            async with self._turns.turn(lead.place.state.name) as turn:
                if turn is None:
                    return None
                if again:
                    tokens = await self._send(lead, path, body)
                slot = holder(await slot_files.rows(lead.saver.control, LOOK), tokens)
                if slot is not None and (saved := await lead.saver.save(slot, lead.chain, lead.nodes, tokens)):
                    return saved
        return None

    async def _send(self, lead: Lead, path: str, body: bytes) -> int:
        """Tokens of the prompt, 0 if it was not computed. Raises UpstreamError and what reading a reply raises."""
        place, order = lead.place, lead.order
        headers = order.headers(place.target, place.state.kind)
        async with asyncio.timeout(place.state.config.timeouts.first_byte):
            response = await self._upstream.send("POST", place.address, path, headers, body)
            try:
                reply = Body(response, decode=order.decode)
                data = bytearray()
                while (piece := await reply.read()) and len(data) < MAX_REPLY:
                    data += piece
            finally:
                response.close()
        usage = _usage(path, bytes(data)) if response.status == 200 else Usage()
        return usage.prompt or 0


def holder(rows: list[Row], tokens: int) -> int | None:
    """The slot of the newest task, if it is idle and holds so many tokens."""
    fitting = [row for row in rows if not row.busy and row.tokens is not None and abs(row.tokens - tokens) <= SLACK]
    newest = max(fitting, key=lambda row: row.task, default=None)
    return newest.number if newest else None


def _usage(path: str, data: bytes) -> Usage:
    doc = counts.as_dict(loads(data))
    return counts.anthropic(counts.as_dict(doc.get("usage"))) if path.endswith("/messages") else counts.openai(doc)
