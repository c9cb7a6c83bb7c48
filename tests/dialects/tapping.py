"""Replies sent through a tap in any cut, for the tests of all dialects."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.dialects import DIALECTS
from gateway.dialects.base import Seen
from gateway.dialects.shapes import line, sse
from gateway.dialects.taps import StreamTap


class Thorough(StreamTap):
    """Parses every event: what the shortcut must agree with."""

    def _has_news(self, whole: bytes) -> bool:
        return True


def tap(dialect: str, stream: bytes | Iterable[bytes], *, path: str = "", hide: bool = False) -> tuple[bytes, Seen]:
    """(what the client gets, what was seen) of a stream. Each element is one read."""
    watch = DIALECTS[dialect].tap(path, streaming=True, hide_usage=hide)
    out = [watch.feed(read) for read in ([stream] if isinstance(stream, bytes) else stream)]
    return b"".join([*out, watch.close()]), watch.seen


def see(dialect: str, *events: object) -> Seen:
    """What is seen of these JSON events: as lines for Ollama, else as server-sent events named by their type."""
    if dialect == "ollama":
        return tap(dialect, b"".join(map(line, events)))[1]
    return tap(dialect, b"".join(sse(event, _name(event)) for event in events))[1]


def see_document(dialect: str, document: bytes, size: int = 7) -> Seen:
    """What is seen of a reply that is not streamed, read in pieces of `size` bytes, all of which are forwarded at once."""
    watch = DIALECTS[dialect].tap("", streaming=False)
    reads = [document[at : at + size] for at in range(0, len(document), size)]
    assert [watch.feed(read) for read in reads] == reads
    assert watch.close() == b""
    return watch.seen


def _name(event: object) -> str:
    kind = event.get("type", "") if isinstance(event, dict) else ""
    return kind if isinstance(kind, str) and kind.isascii() and "\n" not in kind else ""
