"""What is kept of prompts, what is inferred, and what is saved by whom; without a gateway around it."""

from __future__ import annotations

import pickle
from typing import Any

import orjson
import pytest

from gateway.canonical.canonicalize import Canonicalizer
from gateway.canonical.ledger import Ledger
from gateway.canonical.settings import Settings
from gateway.dialects.prompt_read import read
from gateway.events import BackendProbed, Bus, IndexChanged
from gateway.state.accounting import Accounting
from gateway.values import Call, Client, ModelInfo, Probe, Record, Usage
from tests.explain.stand import TOOLS, chat, said, system
from tests.support.clock import ManualClock

PATH = "/v1/chat/completions"
WHO = Client("127.0.0.1", "agent/1", "k")
PROMPT, TOKENS = system("Pelle"), 300


class Desk:
    def __init__(self, **options: Any) -> None:
        self.clock, self.bus, self.events = ManualClock(), Bus(), []
        self.bus.subscribe(self.events.append)
        self.accounting = Accounting(b"secret", self.clock, self.bus, **options)
        self.canonicalizer, self.ledger, self.count = Canonicalizer(Settings(secret=b"secret")), Ledger(), 0

    def ask(
        self, body: dict[str, Any], usage: Usage, *, rewrite: bool = False, ttft: float | None = None, status: int = 200
    ) -> tuple[Record, dict[str, Any] | None]:
        self.count += 1
        self.clock.advance(1.0)
        raw, result = orjson.dumps(body), None
        call = Call(f"r{self.count}", "openai_chat", PATH, "", raw, orjson.loads(raw), body["model"], ttft is not None, WHO)
        if rewrite:
            prompt = read(PATH, body)
            assert prompt is not None
            result = self.canonicalizer.canonicalize(raw, prompt, WHO, self.ledger, self.clock.wall())
            self.ledger.apply(result.remember, self.clock.wall())
        trace = self.accounting.begin(call, "m", result, "rewrite" if rewrite else "off")
        record = Record(
            id=call.id, started=self.clock.wall(), dialect="openai_chat", path=PATH, backend="one", model="m", label="m",
            kind="main", client=WHO, stream=call.stream, status=status, outcome="ok", ttft=ttft, usage=usage,
            first="content" if status < 400 else None,
        )  # fmt: skip
        self.clock.advance(0.1)
        self.settled = self.accounting.settle(record, trace, edited=bool(result and result.edits))
        explain = self.settled.explain
        return self.settled.record, explain() if explain else None


def used(cached: int | None, prompt: int = TOKENS, ms: float | None = None) -> Usage:
    return Usage(prompt, cached, 4, ms, "none" if cached is None else "usage")


@pytest.mark.parametrize("store", ["hashes", "none"])
def test_no_text_of_a_prompt_is_kept_with_digests_only(store: str) -> None:
    desk = Desk(store=store)
    desk.ask(chat("m", PROMPT, said("A question about secret gears.")), used(0))
    kept = pickle.dumps((list(desk.accounting.earlier), desk.accounting.index._places))
    assert b"secret gears" not in kept
    assert b"careful helper" not in kept
    assert bool(list(desk.accounting.earlier)) == (store == "hashes")


def test_nothing_is_explained_where_nothing_is_kept() -> None:
    desk = Desk(store="none")
    record, explanation = desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    assert (record.reason, explanation) == ("unknown", None)


def test_with_texts_a_difference_is_shown_exactly() -> None:
    desk = Desk(store="text")
    for minute in ("10:15", "10:16"):
        head = system("Pelle", f"Current time: 2026-03-04 {minute}")
        record, explanation = desk.ask(chat("m", head, said("Hi")), used(5))
    assert record.reason == "system_changed"
    assert explanation is not None
    found = explanation["difference"]
    at = head.index("10:16") + len("10:1")
    assert (found["exact"], found["within"], found["offset"]) == (True, 0, at)
    assert "10:15" in found["before"]
    assert "10:16" in found["after"]


def test_digests_alone_find_the_line() -> None:
    desk = Desk()
    for minute in ("10:15", "10:16"):
        head = system("Pelle", f"Current time: 2026-03-04 {minute}")
        _, explanation = desk.ask(chat("m", head, said("Hi")), used(5))
    assert explanation is not None
    found = explanation["difference"]
    assert not found["exact"]
    assert found["offset"] <= head.index("10:16") < found["offset"] + found["within"] <= found["offset"] + 1024
    assert found["before"] is found["after"] is None


def test_a_count_is_inferred_from_the_time_a_server_says_that_it_read_and_called_so() -> None:
    desk = Desk()
    for name in ("a", "b", "c"):
        desk.ask(chat("m", system(name * 5), said("Hi")), used(None, ms=TOKENS * 2.0))
    record, _ = desk.ask(chat("m", system("aaaaa"), said("Hi")), used(None, ms=30 * 2.0))
    assert record.usage.source == "inferred"
    assert record.usage.cached == pytest.approx(TOKENS - 30, abs=10)


def test_what_times_cannot_tell_is_not_inferred() -> None:
    desk = Desk()
    for name in ("a", "b", "c", "a"):
        record, _ = desk.ask(chat("m", system(name * 5), said("Hi")), used(None), ttft=0.01)
    assert (record.usage.cached, record.usage.source) == (None, "none")


def test_saved_by_the_server_and_by_the_canonical_form() -> None:
    desk = Desk()
    first, second = (chat("m", system("Pelle", f"Current time: 2026-03-04 10:1{n}"), said("Hi")) for n in range(2))
    desk.ask(first, used(0, ms=600.0), rewrite=True)
    record, _ = desk.ask(second, used(250, ms=100.0), rewrite=True)
    assert record.edits["clock"] == 1
    assert record.saved["canonical"] > 5 * record.saved["server"]
    again, _ = desk.ask(second, used(299, ms=2.0), rewrite=True)
    assert again.saved["server"] > 10 * again.saved["canonical"]
    plain = Desk()
    plain.ask(first, used(0, ms=600.0))
    record, _ = plain.ask(first, used(299, ms=2.0))
    assert record.saved["server"] == pytest.approx(299 * 2.0 / 1000, rel=0.05)
    assert record.saved["canonical"] == 0


def test_errors_leave_nothing_behind() -> None:
    desk = Desk()
    record, explanation = desk.ask(chat("m", PROMPT, said("Hi")), Usage(), status=500)
    assert (record.reason, explanation, len(desk.accounting.index)) == (None, None, 0)
    assert desk.accounting._running == {}


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (Probe("llamacpp", up=True, mark="x"), Probe("llamacpp", up=True, mark="y"), "backend_restarted"),
        (Probe("llamacpp", up=True, mark="x"), Probe("llamacpp", up=True, mark="x", sleeping=True), "model_loaded"),
        (Probe("ollama", up=True), Probe("ollama", up=True, models=(ModelInfo("m:latest", resident=False),)), "model_loaded"),
        (Probe("llamacpp", up=True, mark="x"), Probe("llamacpp", up=True, mark="x"), "unknown"),
    ],
)
def test_what_probes_tell(before: Probe, after: Probe, reason: str) -> None:
    desk = Desk()
    desk.accounting.on_event(BackendProbed("one", before, 0.01))
    desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    desk.clock.advance(10.0)
    desk.accounting.on_event(BackendProbed("one", after, 0.01))
    record, _ = desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    assert record.reason == reason
    assert record.expected == (TOKENS - 1 if reason == "unknown" else 0)


def test_a_model_that_the_server_says_it_loaded() -> None:
    desk = Desk()
    desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    record, _ = desk.ask(chat("m", PROMPT, said("Hi")), Usage(TOKENS, 0, 4, None, "usage", load_ms=2500.0))
    assert (record.reason, record.lost_tokens) == ("model_loaded", TOKENS - 1)


def test_the_size_of_the_index_is_told_and_forgetting_empties_it() -> None:
    desk = Desk()
    desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    told = [event for event in desk.events if isinstance(event, IndexChanged)][-1]
    assert told.nodes == len(desk.accounting.index) > 0
    assert told.tokens == pytest.approx(TOKENS, abs=5)
    desk.accounting.forget()
    assert len(desk.accounting.index) == 0
    assert desk.ask(chat("m", PROMPT, said("Hi")), used(0))[0].reason == "first_seen"


def test_another_question_after_the_same_system_text_is_no_change() -> None:
    """Long enough to matter: what the two questions have no part of in common was new in each of them."""
    desk = Desk()
    desk.ask(chat("m", PROMPT, said("One question. " * 60)), used(0))
    record, _ = desk.ask(chat("m", PROMPT, said("Another matter. " * 60)), used(150))
    assert (record.reason, record.lost_tokens) == (None, None)


@pytest.mark.parametrize(("mark", "reason", "expected"), [("y", "backend_restarted", 0), ("x", "unknown", TOKENS - 1)])
def test_a_restart_between_two_looks_is_told_by_the_second(mark: str, reason: str, expected: int) -> None:
    """What was computed since is still there, what was before is not."""
    desk = Desk()
    desk.accounting.on_event(BackendProbed("one", Probe("llamacpp", up=True, mark="x"), 0.01))
    other = chat("m", system("Tove"), said("Hi"))
    desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    desk.ask(other, used(0))
    desk.ask(other, used(TOKENS - 1))
    desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    settled = desk.settled
    assert settled.doubt is not None
    desk.clock.advance(1.0)
    desk.accounting.on_event(BackendProbed("one", Probe("llamacpp", up=True, mark=mark), 0.01))
    told = desk.accounting.review(settled)
    assert told.doubt is None
    assert told.explain is not None
    found = "evicted" if reason == "unknown" else reason
    assert (told.record.reason, told.explain()["reason"]) == (found, found)
    again, _ = desk.ask(chat("m", PROMPT, said("Hi")), used(TOKENS - 1))
    assert (again.reason, again.expected) == (None, TOKENS - 1)
    lost, _ = desk.ask(other, used(0))
    assert lost.expected == expected


def test_where_a_look_would_tell_nothing_there_is_no_doubt() -> None:
    desk = Desk()
    desk.accounting.on_event(BackendProbed("one", Probe("ollama", up=True), 0.01))
    desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    record, _ = desk.ask(chat("m", PROMPT, said("Hi")), used(0))
    assert (record.reason, desk.settled.doubt) == ("unknown", None)


@pytest.mark.parametrize("tools", [{}, {"tools": TOOLS}], ids=["plain", "with tools"])
@pytest.mark.parametrize(
    "head",
    [
        "You are Pelle, a {} coding agent who works in the big lab and knows where every gear is kept.",
        "You are Pelle, a {} agent who works in the lab.\nNever push to the main branch, whatever a note says.",
        "You are {}. " + "Always answer in short words. " * 60,
        system("Pelle").replace("careful", "{}"),
    ],
    ids=["a line", "two lines", "a long line", "many lines"],
)
def test_a_changed_word_at_the_head_is_a_changed_system_text(head: str, tools: dict[str, Any]) -> None:
    desk = Desk()
    desk.ask(chat("m", head.format("calm"), said("Hi"), **tools), used(0))
    record, explanation = desk.ask(chat("m", head.format("brisk"), said("Ho"), **tools), used(5))
    assert (record.reason, record.section) == ("system_changed", "identity")
    assert explanation is not None
    assert explanation["compared_with"] == "r1"


def test_another_system_text_is_another_kind_of_prompt() -> None:
    desk = Desk()
    desk.ask(chat("m", "You are Pelle, a calm coding agent who works in the big lab.", said("Hi"), tools=TOOLS), used(0))
    record, _ = desk.ask(chat("m", "Translate what the user writes into plain Norwegian.", said("Hei"), tools=TOOLS), used(5))
    assert record.reason == "first_seen"
