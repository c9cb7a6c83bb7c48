"""The list of requests, driven by events."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.events import Bus, ConfigReloaded, Event, RequestClosed, RequestLeft, RequestStarted
from gateway.state.requests import InFlight, Requests
from gateway.values import Client, Record

RECORD = Record(
    id="a",
    started=1.0,
    dialect="openai",
    path="/v1/chat/completions",
    backend="ollama",
    model="llama",
    label="llama",
    kind="main",
    client=Client("127.0.0.1", "agent/1"),
    stream=True,
    status=200,
    outcome="ok",
)


class TickingClock:
    time = 0.0

    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        self.time += 1
        return self.time


def requests_after(*events: Event, keep: int = 3) -> Requests:
    requests, bus = Requests(keep, TickingClock()), Bus()
    bus.subscribe(requests.on_event)
    for event in events:
        bus.publish(event)
    return requests


def finished(*ids: str) -> list[Event]:
    return [RequestClosed(replace(RECORD, id=id)) for id in ids]


def test_running_requests_are_listed_oldest_first() -> None:
    requests = requests_after(RequestStarted("a", "ollama"), RequestStarted("b", "lms"), ConfigReloaded(ok=True))
    assert requests.in_flight() == [InFlight("a", 0, "ollama", 1.0), InFlight("b", 0, "lms", 2.0)]
    assert requests.recent() == []
    assert requests.get("a") is None


def test_a_retry_moves_the_request_to_the_other_backend() -> None:
    moved = [RequestStarted("a", "ollama"), RequestStarted("b", "lms"), RequestLeft("a", "ollama"), RequestStarted("a", "lms")]
    assert requests_after(*moved).in_flight() == [InFlight("b", 0, "lms", 2.0), InFlight("a", 0, "lms", 3.0)]


def test_a_late_goodbye_of_the_first_backend_does_not_end_the_second_try() -> None:
    requests = requests_after(RequestStarted("a", "ollama"), RequestStarted("a", "lms"), RequestLeft("a", "ollama"))
    assert [request.backend for request in requests.in_flight()] == ["lms"]


def test_a_request_ends_by_leaving_or_closing() -> None:
    assert requests_after(RequestStarted("a", "ollama"), RequestLeft("a", "ollama")).in_flight() == []
    assert requests_after(RequestStarted("a", "ollama"), *finished("a")).in_flight() == []
    assert requests_after(RequestLeft("a", "ollama")).in_flight() == []


def test_two_requests_with_the_same_id_are_two() -> None:
    both = [RequestStarted("a", "ollama", 1), RequestStarted("a", "ollama", 2)]
    assert [(request.number, request.started) for request in requests_after(*both).in_flight()] == [(1, 1.0), (2, 2.0)]
    assert [request.started for request in requests_after(*both, RequestLeft("a", "ollama", 1)).in_flight()] == [2.0]
    assert [request.started for request in requests_after(*both, RequestClosed(RECORD, 2)).in_flight()] == [1.0]


def test_finished_requests_are_listed_newest_first_and_forgotten() -> None:
    requests = requests_after(*finished("a", "b", "c", "d"))
    assert [record.id for record in requests.recent()] == ["d", "c", "b"]
    assert [record.id for record in requests.recent(2)] == ["d", "c"]
    assert requests.recent(0) == []
    assert requests.recent(-1) == []
    assert requests.get("a") is None
    assert requests.get("b") == replace(RECORD, id="b")


def test_an_id_that_comes_again_shows_its_last_request() -> None:
    again = RequestClosed(replace(RECORD, id="a", status=500))
    requests = requests_after(*finished("a", "b"), again, *finished("c"))
    assert [record.id for record in requests.recent()] == ["c", "a", "b"]
    record = requests.get("a")
    assert record is not None
    assert record.status == 500


def test_a_huge_model_name_is_not_kept() -> None:
    requests = requests_after(RequestClosed(replace(RECORD, model="x" * 10_000_000)), *finished("b"))
    assert [len(record.model or "") for record in requests.recent()] == [5, 256]


@given(st.lists(st.sampled_from("abcdef")), st.integers(1, 4))
def test_never_more_than_kept_and_always_the_newest(ids: list[str], keep: int) -> None:
    requests = requests_after(*finished(*ids), keep=keep)
    newest_first = list(dict.fromkeys(reversed(ids)))
    assert [record.id for record in requests.recent()] == newest_first[:keep]
    assert all((requests.get(id) is not None) is (id in newest_first[:keep]) for id in "abcdef")
