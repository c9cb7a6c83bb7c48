"""Standard logging, set up so that the event loop never waits for a slow terminal or pipe, and one line per finished request.

Loggers put records into a bounded queue, a thread writes them; a full queue drops records and says how many. Names that clients
choose (models, user agents, paths) are made printable before they get here. No prompt text is ever logged.
"""

from __future__ import annotations

import copy
import json
import logging
import queue
import re
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Literal, TextIO

from gateway.events import RequestClosed
from gateway.values import Outcome, Record

Format = Literal["auto", "text", "json"]
Level = Literal["debug", "info", "warning", "error"]

QUEUE_LINES = 4096
LONGEST_LINE = 2000  # characters of one line of text
LONGEST_NAME = 80  # characters of a name that a client chose
TOGETHER = 0.01  # seconds for which lines are gathered before they are written
STOP_SECONDS = 2.0  # that the last lines may take to be written

LEVELS: dict[Outcome, int] = {
    "ok": logging.INFO,
    "client_error": logging.INFO,
    "refused": logging.INFO,
    "cancelled": logging.INFO,
    "upstream_error": logging.WARNING,
    "timeout": logging.WARNING,
    "internal_error": logging.ERROR,
}

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_BARE = re.compile(r"[\w./:@+-]+")


def printable(text: str, limit: int) -> str:
    """`text` on one line, safe for a terminal: no control, bidirectional or unpaired surrogate characters; cut at `limit`."""
    if len(text) <= limit and text.isprintable():
        return text
    safe = "".join(char if char.isprintable() else "?" for char in text[: limit + 1])
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


# One line per request


def request_fields(record: Record) -> dict[str, Any]:
    """What the log says about a request; what is not known is left out. Times in seconds, to the millisecond."""
    usage = record.usage
    fields: dict[str, Any] = {
        "id": printable(record.id, LONGEST_NAME),
        "dialect": record.dialect,
        "path": printable(record.path, LONGEST_NAME),
        "model": None if record.model is None else printable(record.model, LONGEST_NAME),
        "backend": record.backend,
        "status": record.status,
        "outcome": record.outcome,
        "error": record.error,
        "ttft": _rounded(record.ttft),
        "duration": _rounded(record.duration),
        "queue": _rounded(record.queue),
        "prompt": usage.prompt,
        "cached": usage.cached,
        "completion": usage.completion,
        "route": record.decision,
        "retries": record.retries or None,
        "agent": printable(record.client.agent, LONGEST_NAME) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def request_line(record: Record) -> str:
    """One line of `name=value`; values that could be mistaken for more of them are quoted."""
    return " ".join(f"{name}={_quoted(value)}" for name, value in request_fields(record).items())


class RequestLog:
    """Subscriber of the bus, to what it `hears`: writes one line when a request is finished."""

    hears = (RequestClosed,)

    def __init__(self) -> None:
        self._log = logging.getLogger("warmgate.requests")

    def on_event(self, event: Any) -> None:
        if not isinstance(event, RequestClosed):
            return
        level = LEVELS[event.record.outcome]
        if self._log.isEnabledFor(level):
            # Not `log`, which walks up the stack to find out who calls.
            self._log.handle(self._log.makeRecord(self._log.name, level, "", 0, Line(event.record), (), None))


class Line:
    """What is logged of a finished request. The thread that writes spells it out: it costs more than all else about a line."""

    __slots__ = ("record",)

    def __init__(self, record: Record) -> None:
        self.record = record

    def __str__(self) -> str:
        return request_line(self.record)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _quoted(value: Any) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


# Formats


class TextFormatter(logging.Formatter):
    """`12:34:56 info message`. Further lines of a message or traceback are indented: nothing can pass for a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        lines = record.getMessage().split("\n")
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        head = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.levelname.lower():<7} "
        return head + "\n    ".join(printable(line, LONGEST_LINE) for line in lines)


class JsonFormatter(logging.Formatter):
    """One ASCII JSON object a line: time (RFC 3339, UTC), level, logger, message, the extra fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg.record if isinstance(record.msg, Line) else None
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": "request" if line else record.getMessage(),
        }
        if line:
            return json.dumps(fields | request_fields(line))
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD and name not in fields}
        return json.dumps(fields | extra, default=str)


# The queue


class DroppingHandler(QueueHandler):
    """Never waits. One writer of `dropped`: whoever logs, under the handler's lock."""

    def __init__(self, lines: queue.Queue[Any]) -> None:
        super().__init__(lines)
        self.dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Arguments may change after the call, so the message is made now; the traceback is written by the thread."""
        if isinstance(record.msg, Line):  # holds nothing that changes
            return record
        record = copy.copy(record)
        record.msg, record.args = record.getMessage(), None
        return record


class Sink(logging.StreamHandler[TextIO]):
    """Flushed by the writer, when no more lines wait: a system call for each would cost as much as making it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.stream.write(self.format(record) + self.terminator)
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        with suppress(OSError, ValueError):  # the other side is gone, or the stream is closed
            super().flush()


class Writer(QueueListener):
    """The thread that writes; it adds a line when records were dropped since the last one."""

    def __init__(self, lines: queue.Queue[Any], source: DroppingHandler, sink: logging.Handler) -> None:
        super().__init__(lines, sink)
        self._lines, self._sink = lines, sink
        self._source = source
        self._told = 0

    def handle(self, record: logging.LogRecord) -> None:
        super().handle(record)
        lost = self._source.dropped - self._told
        if lost:
            self._told += lost
            text = f"{lost} log lines were dropped: they came faster than they could be written"
            level = {"levelno": logging.WARNING, "levelname": "WARNING"}
            super().handle(logging.makeLogRecord({"name": "warmgate.logs", "msg": text, "dropped": lost, **level}))

    def dequeue(self, block: bool) -> Any:
        """The first line after a pause at once, then many at a time: waking the thread for each costs as much as writing it."""
        if self._lines.empty():
            self._sink.flush()
            time.sleep(TOGETHER)
        record = self._lines.get()
        if record is None:  # the end
            self._sink.flush()
        return record

    def enqueue_sentinel(self) -> None:
        self._lines.put(None)  # waits for a place, unlike the base class, which fails when the queue is full


class Logs:
    """The running log. One writer: the process at start-up and shut-down."""

    def __init__(self, format: Format = "auto", level: Level = "info", stream: TextIO | None = None) -> None:
        """auto: text for a terminal, else JSON. level: of Warmgate's own loggers; the libraries' are shown from warning on.

        Takes over the root logger until `stop`.
        """
        stream = stream or sys.stderr
        as_text = format == "text" or (format == "auto" and stream.isatty())
        sink = Sink(stream)
        sink.setFormatter(TextFormatter() if as_text else JsonFormatter())
        lines: queue.Queue[Any] = queue.Queue(QUEUE_LINES)
        self._handler = DroppingHandler(lines)
        self._writer = Writer(lines, self._handler, sink)
        self._writer.start()
        root = logging.getLogger()
        self._root_level = root.level
        root.setLevel(logging.WARNING)
        root.addHandler(self._handler)
        self.set_level(level)

    @property
    def dropped(self) -> int:
        """Lines lost since the start because the queue was full."""
        return self._handler.dropped

    def set_level(self, level: Level) -> None:
        logging.getLogger("warmgate").setLevel(level.upper())

    def stop(self) -> None:
        """Write what is queued, for at most STOP_SECONDS: a pipe that nobody reads must not keep the process."""
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._root_level)
        last = threading.Thread(target=self._writer.stop, daemon=True)
        last.start()
        last.join(STOP_SECONDS)
