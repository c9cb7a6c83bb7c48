"""What a dialect is: one API's way of asking, answering and failing. Pure: bytes in, facts and bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from gateway.values import First, Usage

Task = Literal["answer", "count"]
"""What an endpoint is for: `answer` generates; `count` counts tokens (routed the same way, never queued behind answers)."""


@dataclass(slots=True)
class Seen:
    """What a tap has observed so far. Written by the tap only.

    first: what the first content-bearing event carried, None before it; visible: visible content or a tool call (anything but
    reasoning) has come; usage: last counts reported; stopped: the reason why the answer ended was given (`finish_reason`,
    `stop_reason`); finished: the dialect's terminator was seen, of which a `finish_reason` is none, or the whole document was
    read; error: message of an in-band error, if any. It does not depend on how the reply was cut into reads.
    """

    first: First | None = None
    visible: bool = False
    usage: Usage = field(default_factory=Usage)
    stopped: bool = False
    finished: bool = False
    error: str | None = None


class Tap(Protocol):
    """Watches one reply on its way to the client.

    `feed` takes whatever the network read returned and gives back what may be forwarded now: the same bytes in the same order,
    cut at event boundaries, less the frames that the gateway itself asked for. `close` gives back what is still held, after a
    reply that ended as it should. No bytes make a tap raise.
    """

    seen: Seen

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...

    @property
    def at_boundary(self) -> bool:
        """Whether a frame of the gateway's own may follow what has been forwarded (False in the middle of a huge event)."""

    def abandon(self) -> bytes:
        """Ends a reply that broke: drops what is held, and gives back what must precede an error event (mostly nothing)."""


class Dialect(Protocol):
    """One API. Stateless."""

    name: str

    def wants_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        """Whether this body asks for a stream (Ollama streams unless told not to)."""

    def tap(self, path: str, *, streaming: bool, hide_usage: bool = False) -> Tap:
        """A tap for one reply. streaming: the reply is an event stream, else one JSON document.

        hide_usage: the gateway asked for a usage chunk that the client did not, so that chunk is swallowed.
        """

    def error(self, status: int, code: str, message: str, request_id: str) -> bytes:
        """A complete JSON error body in this API's shape."""

    def error_event(self, status: int, code: str, message: str, request_id: str) -> bytes:
        """Bytes that tell a client in the middle of a stream that it failed; never a clean end. Starts at an event boundary."""

    def heartbeat(self, path: str, model: str = "") -> bytes:
        """Bytes that keep a client waiting without being a token. May stand at any event boundary.

        model: as the client named it, for events that carry it.
        """


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row of the path table."""

    dialect: Dialect
    path: str
    task: Task = "answer"
