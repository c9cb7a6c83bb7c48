"""What a reader of the log sees, and that nobody waits for him."""

from __future__ import annotations

import io
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import logs
from gateway.events import Bus, ConfigReloaded, RequestClosed
from gateway.logs import Format, Level, Logs, RequestLog, printable, request_fields, request_line
from gateway.values import OUTCOMES, Client, Record, Usage

RECORD = Record(
    id="r1",
    started=1e9,
    dialect="openai",
    path="/v1/chat/completions",
    backend="ollama",
    model="llama3:8b",
    label="llama3:8b",
    kind="main",
    client=Client("127.0.0.1", "agent/1"),
    stream=True,
    status=200,
    outcome="ok",
    decision="affinity",
    first="content",
    ttft=0.12345,
    ttfb=0.1,
    queue=0.0,
    duration=2.3456,
    usage=Usage(prompt=1000, cached=0, completion=101, source="usage"),
)

log = logging.getLogger("warmgate.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(stream: io.StringIO, format: Format = "auto", level: Level = "info") -> Iterator[Logs]:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    running = Logs(format, level, stream)
    try:
        yield running
    finally:
        running.stop()
        logging.getLogger("warmgate").setLevel(logging.NOTSET)
        assert (logging.getLogger().handlers, logging.getLogger().level) == before


def objects(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_one_object_a_line_with_extra_fields() -> None:
    stream = io.StringIO()
    with logging_to(stream):
        log.info("loaded %s", "llama", extra={"seconds": 1.5, "who": {"odd": object}})
        log.warning("a\nb")
    first, second = objects(stream)
    assert first["message"] == "loaded llama"
    assert first["level"] == "info"
    assert first["logger"] == "warmgate.test"
    assert first["seconds"] == 1.5
    assert str(first["time"]).endswith("+00:00")
    assert set(first) == {"time", "level", "logger", "message", "seconds", "who"}
    assert second["message"] == "a\nb"
    assert second["level"] == "warning"


def test_text_has_short_times() -> None:
    stream = Terminal()
    with logging_to(stream):
        log.info("loaded %s", "llama")
    assert len(stream.getvalue().splitlines()) == 1
    clock, level, message = stream.getvalue().strip().split(None, 2)
    time.strptime(clock, "%H:%M:%S")
    assert (level, message) == ("info", "loaded llama")


def test_the_format_may_be_chosen() -> None:
    stream = Terminal()
    with logging_to(stream, "json"):
        log.info("x")
    assert objects(stream)[0]["message"] == "x"
    plain = io.StringIO()
    with logging_to(plain, "text"):
        log.info("x")
    assert plain.getvalue().endswith("info    x\n")


def test_tracebacks_are_kept_and_cannot_pass_for_lines() -> None:
    text, lines = Terminal(), io.StringIO()
    for stream in (text, lines):
        with logging_to(stream):
            try:
                raise ValueError("bad\n12:00:00 info    forged \x1b[31m")
            except ValueError:
                log.exception("it failed")
    assert "ValueError: bad" in str(objects(lines)[0]["traceback"])
    first, *rest = text.getvalue().splitlines()
    assert first.endswith("it failed")
    assert any("ValueError: bad" in line for line in rest)
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in text.getvalue()


def test_levels_are_for_our_own_loggers() -> None:
    stream = io.StringIO()
    with logging_to(stream, level="debug") as running:
        log.debug("ours")
        logging.getLogger("some.library").info("theirs")
        logging.getLogger("some.library").warning("their warning")
        running.set_level("error")
        log.warning("too quiet")
    assert [entry["message"] for entry in objects(stream)] == ["ours", "their warning"]


def test_arguments_are_read_when_the_line_is_logged() -> None:
    stream, names = io.StringIO(), ["a"]
    with logging_to(stream):
        log.info("%s", names)
        names.append("b")
    assert objects(stream)[0]["message"] == "['a']"


def test_other_handlers_and_the_root_level_are_left_alone() -> None:
    root, seen = logging.getLogger(), logging.Handler()
    records: list[logging.LogRecord] = []
    seen.emit = records.append  # type: ignore[method-assign]
    root.setLevel(logging.ERROR)
    try:
        with logging_to(io.StringIO()):
            root.addHandler(seen)
            log.info("loaded %s", "llama")
            root.removeHandler(seen)
        assert root.level == logging.ERROR
    finally:
        root.setLevel(logging.WARNING)
    assert (records[0].msg, records[0].args) == ("loaded %s", ("llama",))


class Stuck(io.StringIO):
    """A pipe that nobody reads, until `reader` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = threading.Event()

    def write(self, text: str) -> int:
        self.reader.wait(20)
        return super().write(text)


def test_a_reader_that_does_not_read_costs_lines_not_time() -> None:
    stream = Stuck()
    with logging_to(stream) as running:
        began = time.monotonic()
        for number in range(logs.QUEUE_LINES + 500):
            log.info("line %d", number)
        assert time.monotonic() - began < 5
        assert 490 <= running.dropped <= 500
        stream.reader.set()
    entries = objects(stream)
    told = [entry["dropped"] for entry in entries if "dropped" in entry]
    assert sum(told) == running.dropped  # type: ignore[arg-type]
    assert len(entries) - len(told) + running.dropped == logs.QUEUE_LINES + 500
    assert entries[-1]["message"] == f"line {logs.QUEUE_LINES + 500 - 1 - running.dropped}"


def test_shut_down_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "STOP_SECONDS", 0.05)
    stream = Stuck()
    with logging_to(stream):
        for number in range(logs.QUEUE_LINES + 10):
            log.info("line %d", number)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    stream.reader.set()


def test_a_request_is_one_readable_line() -> None:
    assert request_line(RECORD) == (
        "id=r1 dialect=openai path=/v1/chat/completions model=llama3:8b backend=ollama status=200 outcome=ok ttft=0.123 "
        "duration=2.346 queue=0.0 prompt=1000 cached=0 completion=101 route=affinity agent=agent/1"
    )


def test_what_is_not_known_is_left_out_and_is_not_zero() -> None:
    fields = request_fields(replace(RECORD, ttft=None, usage=Usage(prompt=5), backend=None, model=None, decision=None))
    assert not {"ttft", "cached", "completion", "backend", "model", "route", "error", "retries"} & set(fields)
    assert fields["prompt"] == 5
    assert (
        request_fields(replace(RECORD, error="queue_full", retries=1)).items() >= {"error": "queue_full", "retries": 1}.items()
    )


def test_finished_requests_reach_the_log_through_the_bus() -> None:
    stream, bus = io.StringIO(), Bus()
    bus.subscribe(RequestLog().on_event)
    with logging_to(stream):
        for outcome in OUTCOMES:
            bus.publish(RequestClosed(replace(RECORD, outcome=outcome)))
        bus.publish(ConfigReloaded(ok=True))
    entries = objects(stream)
    levels = {entry["outcome"]: entry["level"] for entry in entries}
    assert len(entries) == len(OUTCOMES)
    assert levels["ok"] == levels["cancelled"] == levels["refused"] == "info"
    assert levels["upstream_error"] == levels["timeout"] == "warning"
    assert levels["internal_error"] == "error"
    assert entries[0]["message"] == "request", "its fields stand beside it"
    assert entries[0]["model"] == "llama3:8b"
    assert entries[0]["logger"] == "warmgate.requests"


def test_below_its_level_a_request_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "request_fields", lambda record: pytest.fail("was formatted"))
    with logging_to(io.StringIO(), level="warning"):
        RequestLog().on_event(RequestClosed(RECORD))


HOSTILE = ["\x1b[2J\x1b[31m", "a\nb", "a\r\nb", "\u202egnp", "\x00", "\x7f", "\x9b31m", "\ud800", "\u2028", "x" * 100_000]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("format", ["text", "json"])
def test_hostile_names_are_harmless(text: str, format: Format) -> None:
    stream = io.StringIO()
    evil = replace(RECORD, id=text, model=text, path=text, client=Client("127.0.0.1", text))
    with logging_to(stream, format):
        RequestLog().on_event(RequestClosed(evil))
    out = stream.getvalue()
    assert out.count("\n") == 1
    assert out.endswith("\n")
    assert out[:-1].isprintable()
    assert len(out) < 4000


def test_a_name_cannot_forge_fields() -> None:
    line = request_line(replace(RECORD, model='x status=500 backend="evil"'))
    assert 'model="x status=500 backend=\\"evil\\""' in line
    assert " status=500 backend=evil" not in line


@given(st.text(), st.integers(1, 50))
def test_printable_text_is_printable_short_and_otherwise_the_same(text: str, limit: int) -> None:
    safe = printable(text, limit)
    assert safe.isprintable()
    assert len(safe) <= limit
    if text.isprintable() and len(text) <= limit:
        assert safe == text
