"""One llama.cpp server whose slots are saved and restored: what this process of it can do, and how long that takes.

Each operation runs as a task of its own and to its end, because the server carries it out whether or not somebody still waits:
whoever gives up leaves a file that is being written, not a name that is written twice. Nothing here raises for what a server
does; what failed is None or False, and an event says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway.backends import slot_files
from gateway.backends.control import Control
from gateway.backends.slot_files import Moved, SlotFailure
from gateway.clock import Clock
from gateway.errors import Unreachable
from gateway.events import Bus, SnapshotDone, SnapshotsChanged
from gateway.prefix.chain import Chain
from gateway.routing.board import Snapshot
from gateway.state.snapshots import File, Ring

log = logging.getLogger("warmgate.snapshots")

TOKEN_BYTES = 100_000
"""Bytes of a token in a slot file while none was saved: a model of 7-8 thousand million parameters."""

WRITE, READ = 500e6, 2e9
"""Bytes that a server writes and reads in a second while nothing was measured (590 MB took 0.4-1.4 s and 0.10 s)."""

SLACK = 4
"""Tokens by which a slot may hold more or less than is believed: the last one of an answer is not computed, and drafted ones
may be. By more it holds something else."""

LEAST, SLOWEST = 5.0, 50e6
"""Seconds that any operation may take, and bytes that the slowest disk moves in a second."""

LEAST_TOKENS = 1000
"""Tokens that are worth a file: what there must be room for."""

INEFFECTIVE = 3
"""Restores in a row of which nothing was reused, after which the server is taken at its word."""

T = TypeVar("T")


@dataclass(slots=True)
class Process:
    """What is known of one process of the server. mark: its own; model: as it is told; saves: it can save slots; proved: its
    model is the one that the stored snapshots were made with; given_up: why, "" if not; useless: restores in a row of which
    nothing was reused; asked: it is being asked what it can do, met: it has answered; own: names that were saved in it; broke:
    it did not answer the last restore, so if it ends now it may be for what is in the files."""

    mark: str | None = None
    model: str = ""
    met: bool = False
    saves: bool = False
    proved: bool = False
    given_up: str = ""
    useless: int = 0
    asked: bool = False
    broke: bool = False
    own: set[str] = field(default_factory=set)


class Saver:
    """changed: is told when the snapshots, or whether any can be saved, are others. Written by dispatch, on the event loop."""

    def __init__(
        self, backend: str, control: Control, ring: Ring, bus: Bus, clock: Clock, changed: Callable[[Saver], None]
    ) -> None:
        self.backend, self.control = backend, control
        self.process = Process()
        self.done: Counter[tuple[str, str]] = Counter()  # by act and outcome
        self._ring, self._bus, self._clock, self._changed = ring, bus, clock, changed
        self._tasks: set[asyncio.Task[Any]] = set()
        self._proving = asyncio.Lock()
        self._each, self._write, self._read = float(TOKEN_BYTES), WRITE, READ
        self._measured = False

    @property
    def usable(self) -> bool:
        """Whether this process saves slots at all, and was not given up."""
        return self.process.met and self.process.saves and not self.process.given_up

    @property
    def snapshots(self) -> dict[bytes, Snapshot]:
        return self._ring.snapshots(self.backend, self.process.model) if self.usable else {}

    @property
    def can_save(self) -> bool:
        return self.usable and self._ring.has_room(self.backend, self.size_of(LEAST_TOKENS))

    def size_of(self, tokens: int) -> int:
        """Bytes that so many tokens are likely to take."""
        if not self._measured:
            known = max(self.snapshots.values(), key=lambda one: one.tokens, default=None)
            self._each = known.size / known.tokens if known and known.tokens else self._each
        return round(tokens * self._each)

    def stall(self, tokens: int) -> float:
        """Seconds for which the server is likely to do nothing else while so many tokens are saved."""
        return self.size_of(tokens) / self._write

    # the life of a process

    def meet(self, mark: str | None) -> None:
        """A look at the server found it up. A process that was not seen before is asked what it can do, in the background."""
        if self.process.asked and self.process.mark == mark:
            return
        self.lost()
        process = self.process = Process(mark, asked=True)
        self.spawn(self._meet(process))

    def lost(self) -> None:
        """The server is down, or another process."""
        was, self.process = self.process, Process()
        if was.broke and (gone := self._ring.drop(self.backend, was.model)):
            log.warning(
                "backend %s: it ended while a slot was restored; %d saved slots are not trusted any more", self.backend, gone
            )
        if was.met:
            self._changed(self)

    async def _meet(self, process: Process) -> None:
        try:
            process.saves = await slot_files.can_save(self.control)
            process.model = await slot_files.identity(self.control) if process.saves else ""
        except Unreachable as error:
            log.debug("backend %s: it does not say whether it saves slots: %s", self.backend, error)
            process.asked = False  # the next look asks again
            return
        known = self._ring.proved(self.backend, process.model)
        process.proved = known is not None and process.mark is not None and known.mark == process.mark
        process.met = True
        if process is self.process:
            self._changed(self)

    def give_up(self, why: str) -> None:
        """Until the server is started again."""
        if not self.process.given_up:
            self.process.given_up = why
            log.warning("backend %s: no slots are saved or restored until it is started again: %s", self.backend, why)
            self._changed(self)

    # operations

    async def prove(self, slot: int) -> bool:
        """Make sure that the model is the one that the stored snapshots were made with, or drop them. The slot's content is
        lost, if this process was not asked before. Returns whether snapshots can be used."""
        return await self._finish(self._prove(self.process, slot)) or False

    async def save(self, slot: int, chain: Chain, nodes: int, tokens: int) -> Snapshot | None:
        """Save a slot that should hold so many tokens, the first `nodes` nodes of a chain and perhaps more."""
        return await self._finish(self._save(self.process, slot, chain.digests[nodes - 1], nodes, tokens))

    async def restore(self, slot: int, snapshot: Snapshot) -> bool:
        """Put a snapshot into a slot. False leaves it empty, or busy."""
        return await self._finish(self._restore(self.process, slot, snapshot)) or False

    def judged(self, snapshot: Snapshot, cached: int, prompt: int) -> None:
        """What a reply told of a request for which it was restored. cached, prompt: tokens."""
        if 2 * cached >= min(snapshot.tokens, prompt):
            self.process.useless = 0
            return
        self.process.useless += 1
        self.tell("restore", "ineffective")
        self._ring.spoil(self.backend, snapshot.name)
        self._changed(self)
        if self.process.useless >= INEFFECTIVE:
            self.give_up(f"{INEFFECTIVE} restored slots in a row were not reused; its model or its cache does not allow it")

    def tell(self, act: str, outcome: str, moved: Moved | None = None) -> None:
        self.done[act, outcome] += 1
        size, seconds = (moved.size, moved.seconds) if moved else (0, 0.0)
        self._bus.publish(SnapshotDone(self.backend, act, outcome, size, seconds))

    async def _prove(self, process: Process, slot: int) -> bool:
        """The process may have changed since the last look at the server, so it is asked who it is each time; one that does
        not tell proves its model each time."""
        async with self._proving:
            mark = await self._try("proof", slot_files.mark(self.control))
            if mark != process.mark or process is not self.process:
                if mark != "unreachable":
                    self.meet(mark)
                return False
            if process.given_up or (process.proved and mark is not None):
                return not process.given_up
            proof = await self._try("proof", slot_files.prove(self.control, slot, LEAST))
            if isinstance(proof, str):
                return False
            known = self._ring.proved(self.backend, process.model)
            same = known is not None and known.proof.agrees(proof)
            own = () if process.proved else process.own  # of a process that was another before, nothing is its own
            gone = 0 if same else self._ring.drop(self.backend, process.model, keep=own)
            self._ring.prove(self.backend, process.model, proof, process.mark)
            process.proved = True
            self.tell("proof", "ok" if same or not gone else "mismatch")
            if gone:
                log.warning(
                    "backend %s: its model is another than the one of %d saved slots; they are dropped", self.backend, gone
                )
                self._changed(self)
            return True

    async def _save(self, process: Process, slot: int, node: bytes, nodes: int, tokens: int) -> Snapshot | None:
        size = self.size_of(tokens)
        name = self._ring.reserve(self.backend, size)
        if name is None:
            self.tell("save", "full")
            self._changed(self)
            return None
        moved = await self._try("save", slot_files.save(self.control, slot, name, _limit(size)))
        if isinstance(moved, str):
            self._ring.spoil(self.backend, name, size if moved == "unreachable" else None)  # it may be written all the same
            self._changed(self)
            return None
        self._learn(moved)
        if abs(moved.tokens - tokens) > SLACK or process is not self.process:
            self.tell("save", "mismatch", moved)
            self._ring.spoil(self.backend, name, moved.size)
            self._changed(self)
            return None
        process.own.add(name)
        seconds = moved.size / self._read
        file = File(self.backend, name, moved.size, process.model, node.hex(), nodes, moved.tokens, seconds, self._clock.wall())
        snapshot = self._ring.fill(file)
        self.tell("save", "ok", moved)
        self._changed(self)
        return snapshot

    async def _restore(self, process: Process, slot: int, snapshot: Snapshot) -> bool:
        if not self._ring.hold(self.backend, snapshot.name, process.model, snapshot.node):
            self.tell("restore", "gone")
            return False
        good = False
        try:
            moved = await self._try("restore", slot_files.restore(self.control, slot, snapshot.name, _limit(snapshot.size)))
            if not isinstance(moved, str):
                process.broke = False
                self._read += (moved.size / max(moved.seconds, 1e-4) - self._read) / 4
                good = moved.tokens == snapshot.tokens
                self.tell("restore", "ok" if good else "mismatch", moved)
            if not good:  # the file is gone, cut off, or not what it was; or the server has died of it
                process.broke = moved == "unreachable"
                self._ring.spoil(self.backend, snapshot.name)
                self._changed(self)
        finally:
            self._ring.free(self.backend, snapshot.name, used=good)
        return good

    def _learn(self, moved: Moved) -> None:
        if moved.tokens:
            self._each, self._measured = moved.size / moved.tokens, True
            self._write += (moved.size / max(moved.seconds, 1e-4) - self._write) / 4

    async def _try(self, act: str, operation: Awaitable[T]) -> T | str:
        """Its result, or a word for why there is none, which has been told then."""
        try:
            return await operation
        except SlotFailure as error:
            self.tell(act, error.reason)
            log.info("backend %s: %s of a slot failed: %s", self.backend, act, error)
            if error.reason in ("unsupported", "unproved"):
                self.give_up(str(error))
            return error.reason
        except Unreachable as error:
            self.tell(act, "unreachable")
            log.info("backend %s: %s of a slot failed: %s", self.backend, act, error)
            return "unreachable"

    # tasks

    async def _finish(self, operation: Coroutine[Any, Any, T]) -> T:
        """Wait for an operation, which goes on if the waiting is cancelled."""
        return await asyncio.shield(self.spawn(operation))

    def spawn(self, operation: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(operation)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("backend %s: an operation on its slots failed", self.backend, exc_info=error)

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.control.close()

    def changes(self) -> SnapshotsChanged:
        return SnapshotsChanged(self.backend, len(self.snapshots), self._ring.size(self.backend))


def _limit(size: int) -> float:
    """Seconds that an operation on so many bytes may take."""
    return LEAST + size / SLOWEST
