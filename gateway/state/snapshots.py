"""Which saved slot holds what: a ring of file names for each backend, how much disk they take, and what was written today.

llama.cpp deletes no files, so there is a fixed number of names for each backend and gateway, and a name whose content is worth
least is written again. A file counts as long as its name was not written again, whether its content is still of use or not.
Rows are kept in the store; a name's row is gone from there before its file is written, so that a crash in between leaves no row
that says what is no longer true.

One writer: `gateway.dispatch.snapshots`, on the event loop. Times are wall clock seconds, because they outlive the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace

import orjson

from gateway.backends.slot_files import Proof
from gateway.clock import Clock
from gateway.routing.board import Snapshot
from gateway.state.store import Stored

NAMES = 32
"""Names for each backend."""

HALF_LIFE = 6 * 3600.0
"""Seconds without use after which a snapshot is worth half."""

DAY = 86400.0

FILE, PROOF, WRITTEN = "snapshot", "snapshot_proof", "snapshot_written"
KINDS = frozenset({FILE, PROOF, WRITTEN})
"""Kinds of rows in the store that are for this module."""


@dataclass(frozen=True, slots=True)
class Proved:
    """What a model says first, and the mark of the server process that said it last."""

    proof: Proof
    mark: str | None


Put = Callable[[Iterable[Stored]], None]


@dataclass(frozen=True, slots=True)
class File:
    """One name of the ring. size: bytes on the server's disk, as it told; node: "" once the content is of no use; model: what
    is told of the model and of the shape of its KV cache."""

    backend: str
    name: str
    size: int
    model: str = ""
    node: str = ""
    nodes: int = 0
    tokens: int = 0
    seconds: float = 0.0
    used: float = 0.0
    hits: int = 0

    @property
    def key(self) -> bytes:
        return _key(self.backend, self.name)

    def worth(self, now: float) -> float:
        """Tokens that it is likely to save again."""
        return self.tokens * (1 + self.hits) * 0.5 ** (max(0.0, now - self.used) / HALF_LIFE) if self.node else 0.0


class Ring:
    """instance: tells gateways that share a server apart, part of each name; put: writes rows soon."""

    def __init__(self, instance: str, clock: Clock, put: Put) -> None:
        self.instance = instance
        self.disk, self.daily = 0, 0  # bytes that all files may take, and that may be written in a day
        self._clock, self._put = clock, put
        self._files: dict[tuple[str, str], File] = {}
        self._writing: dict[tuple[str, str], int] = {}  # bytes that are expected
        self._reading: Counter[tuple[str, str]] = Counter()
        self._proofs: dict[bytes, Proved] = {}  # by backend and model
        self._written = (0, 0)  # day, bytes

    def configure(self, disk: int, daily: int) -> None:
        self.disk, self.daily = disk, daily

    def load(self, row: Stored) -> None:
        """A row of the store, at start-up. One that cannot be read is dropped: its name is written again some day."""
        try:
            data = orjson.loads(row.value or b"")
            if row.kind == FILE:
                file = File(**data)
                self._files[file.backend, file.name] = file
            elif row.kind == PROOF:
                self._proofs[row.key] = Proved(Proof(data["token"], data["logprob"]), data["mark"])
            else:
                self._written = data["day"], data["bytes"]
        except (ValueError, TypeError, KeyError):
            self._put([Stored(row.kind, row.key, None, row.used)])

    # what there is

    def snapshots(self, backend: str, model: str) -> dict[bytes, Snapshot]:
        """Of this model, by the digest of the last node."""
        return {bytes.fromhex(one.node): self._snapshot(one) for one in self._of(backend) if one.node and one.model == model}

    def size(self, backend: str | None = None) -> int:
        """On the disks of the servers, of one or of all."""
        return sum(one.size for one in self._files.values() if backend in (None, one.backend))

    @property
    def written_today(self) -> int:
        day, count = self._written
        return count if day == self._today() else 0

    def has(self, backend: str, node: bytes) -> bool:
        """Whether a file of the backend holds what ends in this node, of whichever model."""
        return any(one.node == node.hex() for one in self._of(backend))

    def has_room(self, backend: str, size: int) -> bool:
        """Whether a file of about this size could be written now, in the place of another if need be."""
        return self._victim(backend, size) is not None

    # a file is written or read

    def reserve(self, backend: str, size: int) -> str | None:
        """The name for a new file of about this size. What it held is of no use from now on; no other may have the name until
        it is filled or spoiled. None: the disk or the day is full."""
        victim = self._victim(backend, size)
        if victim is None:
            return None
        self._keep(_void(victim))
        self._writing[backend, victim.name] = size
        return victim.name

    def fill(self, file: File) -> Snapshot:
        """It was written, and holds what it should; another that holds the same is of no more use."""
        for other in [one for one in self._of(file.backend) if (one.node, one.model) == (file.node, file.model)]:
            self._keep(_void(other))
        self._keep(file)
        self._count(file.size)
        self._writing.pop((file.backend, file.name), None)
        return self._snapshot(file)

    def spoil(self, backend: str, name: str, size: int | None = None) -> None:
        """Its content is of no use. size: that was written; None: what it was is still there."""
        file = self._files.get((backend, name), File(backend, name, 0))
        self._keep(_void(file if size is None else replace(file, size=size)))
        self._count(size or 0)
        self._writing.pop((backend, name), None)

    def hold(self, backend: str, name: str, model: str, node: bytes) -> bool:
        """It is about to be read, and stays until it is freed. False if it does not hold that any more."""
        file = self._files.get((backend, name))
        if file is None or (file.model, file.node) != (model, node.hex()):
            return False
        self._reading[backend, name] += 1
        return True

    def free(self, backend: str, name: str, *, used: bool) -> None:
        """It was read. used: with success."""
        self._reading[backend, name] -= 1
        self._reading += Counter()  # without those that are down to 0
        file = self._files.get((backend, name))
        if used and file is not None and file.node:
            self._keep(replace(file, hits=file.hits + 1, used=self._clock.wall()))

    def drop(self, backend: str, model: str, keep: Iterable[str] = ()) -> int:
        """The files of a model are of no use, but for those of these names. Returns how many those were."""
        kept = set(keep)
        gone = [one for one in self._of(backend) if one.node and one.model == model and one.name not in kept]
        for one in gone:
            self._keep(_void(one))
        return len(gone)

    def forget(self) -> int:
        """Nothing is known of any content. The files stay until their names are written again."""
        count = sum(bool(one.node) for one in self._files.values())
        self._files = {key: _void(one) for key, one in self._files.items()}
        self._proofs.clear()
        self._put([self._row(one) for one in self._files.values()])
        return count

    # what a model says first

    def proved(self, backend: str, model: str) -> Proved | None:
        return self._proofs.get(_key(backend, model))

    def prove(self, backend: str, model: str, proof: Proof, mark: str | None) -> None:
        """This server process was asked, and this is what its model says first."""
        key, value = _key(backend, model), {"token": proof.token, "logprob": proof.logprob, "mark": mark}
        self._proofs[key] = Proved(proof, mark)
        self._put([Stored(PROOF, key, orjson.dumps(value), self._clock.wall())])

    def _of(self, backend: str) -> Iterator[File]:
        return (one for one in self._files.values() if one.backend == backend)

    def _victim(self, backend: str, size: int) -> File | None:
        """The file to overwrite: of those that make enough room the one that is worth least, and of those that are worth
        nothing the largest, because only being written again makes it smaller. None: the disk or the day is full."""
        coming = sum(self._writing.values())
        if self.written_today + coming + size > self.daily:
            return None
        now, room = self._clock.wall(), self.disk - self.size() - coming
        names = [f"wg-{self.instance}-{number}.bin" for number in range(NAMES)]
        ours = [self._files.get((backend, name)) or File(backend, name, 0) for name in names]
        taken = self._writing.keys() | self._reading.keys()
        free = [one for one in ours if (backend, one.name) not in taken and room + one.size >= size]
        return min(free, key=lambda one: (one.worth(now), -one.size), default=None)

    def _snapshot(self, file: File) -> Snapshot:
        used = self._clock.now() - max(0.0, self._clock.wall() - file.used)  # the board's times are monotonic
        node = bytes.fromhex(file.node)
        return Snapshot(file.name, node, file.nodes, file.tokens, file.size, file.seconds, used, file.hits)

    def _keep(self, file: File) -> None:
        self._files[file.backend, file.name] = file
        self._put([self._row(file)])

    def _row(self, file: File) -> Stored:
        return Stored(FILE, file.key, orjson.dumps(asdict(file)), self._clock.wall())

    def _count(self, size: int) -> None:
        if size:
            self._written = self._today(), self.written_today + size
            day, count = self._written
            value = orjson.dumps({"day": day, "bytes": count})
            self._put([Stored(WRITTEN, b"day", value, self._clock.wall())])

    def _today(self) -> int:
        return int(self._clock.wall() // DAY)


def _void(file: File) -> File:
    return File(file.backend, file.name, file.size)


def _key(*parts: str) -> bytes:
    return "\0".join(parts).encode()
