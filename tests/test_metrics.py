"""Events in, an exposition out, read back by the Prometheus parser."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gateway.events import (
    BackendGone,
    BackendProbed,
    Bus,
    Canonicalized,
    CircuitChanged,
    ConfigReloaded,
    RequestClosed,
    RequestLeft,
    RequestStarted,
    RewriteRejected,
)
from gateway.metrics import TTFT_BUCKETS, Metrics, cache_class
from gateway.values import OUTCOMES, Client, ModelInfo, Probe, Record, Usage

RECORD = Record(
    id="r1",
    started=1e9,
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
    decision="affinity",
    first="content",
    ttft=0.3,
    ttfb=0.1,
    queue=0.2,
    duration=2.3,
    overhead={"parse": 0.0002, "route": 0.0001},
    usage=Usage(prompt=1000, cached=900, completion=101, source="usage"),
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class FixedClock:
    def now(self) -> float:
        return 1.0

    def wall(self) -> float:
        return self.time

    time = 1e9


def read(metrics: Metrics) -> Samples:
    samples: Samples = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return read(metrics).get((f"warmgate_{name}", frozenset(labels.items())))


def total(metrics: Metrics, name: str, **labels: str) -> float:
    wanted = set(labels.items())
    return sum(value for (key, got), value in read(metrics).items() if key == f"warmgate_{name}" and wanted <= got)


def closed(metrics: Metrics, **changes: Any) -> None:
    metrics.on_event(RequestClosed(replace(RECORD, **changes)))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(clock=FixedClock())


def test_a_request_is_counted_with_its_labels(metrics: Metrics) -> None:
    closed(metrics)
    closed(metrics)
    closed(metrics, outcome="timeout", kind="side", dialect="ollama")
    pair = {"backend": "ollama", "model": "llama"}
    assert value(metrics, "requests_total", **pair, dialect="openai", kind="main", outcome="ok") == 2
    assert value(metrics, "requests_total", **pair, dialect="ollama", kind="side", outcome="timeout") == 1
    assert value(metrics, "routes_total", backend="ollama", decision="affinity") == 3
    assert value(metrics, "queue_seconds_sum", backend="ollama") == pytest.approx(0.6)
    assert value(metrics, "request_duration_seconds_sum", **pair) == pytest.approx(6.9)
    assert value(metrics, "overhead_seconds_count", stage="parse") == 3
    assert value(metrics, "overhead_seconds_sum", stage="route") == pytest.approx(0.0003)


def test_ttft_has_the_agreed_buckets_and_the_cache_class(metrics: Metrics) -> None:
    closed(metrics, ttft=0.03)
    labels = {"backend": "ollama", "model": "llama", "cache": "hit"}
    name = "warmgate_time_to_first_token_seconds_bucket"
    bounds = {dict(key[1])["le"]: value for key, value in read(metrics).items() if key[0] == name}
    assert [float(bound) for bound in bounds][:-1] == list(TTFT_BUCKETS)
    assert list(TTFT_BUCKETS)[:5] == [0.02, 0.04, 0.06, 0.08, 0.1]
    assert list(TTFT_BUCKETS)[-3:] == [160, 320, 640]
    assert bounds["0.02"] == 0
    assert bounds["0.04"] == 1
    assert value(metrics, "time_to_first_token_seconds_count", **labels) == 1


@pytest.mark.parametrize("changes", [{"stream": False}, {"ttft": None}, {"backend": None}])
def test_ttft_is_only_of_streams_with_content(metrics: Metrics, changes: dict[str, Any]) -> None:
    closed(metrics, **changes)
    assert total(metrics, "requests_total") == 1
    assert total(metrics, "time_to_first_token_seconds_count") == 0
    assert total(metrics, "time_per_output_token_seconds_count") == 0


@pytest.mark.parametrize(
    ("prompt", "cached", "expected"),
    [
        (1000, None, "unknown"),
        (None, None, "unknown"),
        (1000, 0, "miss"),
        (50, 0, "miss"),
        (None, 0, "miss"),
        (1000, -5, "miss"),
        (1000, 1, "partial"),
        (1000, 899, "partial"),
        (1000, 900, "hit"),
        (1000, 1000, "hit"),
        (500, 435, "partial"),
        (500, 436, "hit"),
        (None, 10, "partial"),
    ],
)
def test_cache_class(prompt: int | None, cached: int | None, expected: str) -> None:
    assert cache_class(Usage(prompt=prompt, cached=cached)) == expected


def test_time_per_output_token(metrics: Metrics) -> None:
    closed(metrics)
    assert value(metrics, "time_per_output_token_seconds_sum", backend="ollama", model="llama") == pytest.approx(0.02)
    closed(metrics, usage=Usage(completion=1))
    closed(metrics, outcome="cancelled")
    closed(metrics, usage=Usage())
    assert total(metrics, "time_per_output_token_seconds_count") == 1


def test_the_reuse_ratio_leaves_out_what_is_not_reported(metrics: Metrics) -> None:
    closed(metrics, usage=Usage(prompt=1000, cached=900, completion=1, source="usage"))
    closed(metrics, usage=Usage(prompt=1000, cached=0, completion=1, source="timings"))
    closed(metrics, usage=Usage(prompt=5000, cached=None, completion=1, source="none"))
    closed(metrics, usage=Usage(prompt=300, cached=200, completion=1, source="inferred"))
    assert total(metrics, "prompt_tokens_total") == 7300
    assert total(metrics, "prompt_tokens_total", report="reported") == 2000
    assert total(metrics, "prompt_tokens_total", report="unknown") == 5000
    assert total(metrics, "prompt_tokens_cached_total", report="reported") == 900
    assert total(metrics, "prompt_tokens_cached_total", report="inferred") == 200
    assert total(metrics, "prompt_tokens_cached_total", report="unknown") == 0
    assert total(metrics, "completion_tokens_total") == 4
    for source in ("usage", "timings", "inferred", "none"):
        assert value(metrics, "cache_reports_total", source=source) == 1


def test_counts_without_a_cached_count_are_not_reported_whatever_their_source(metrics: Metrics) -> None:
    closed(metrics, usage=Usage(prompt=10, cached=None, source="usage"))
    assert total(metrics, "prompt_tokens_total", report="unknown") == 10
    assert value(metrics, "cache_reports_total", source="none") == 1


def test_a_cached_count_without_a_prompt_count_stays_out_of_the_ratio(metrics: Metrics) -> None:
    closed(metrics, usage=Usage(prompt=None, cached=10, source="usage"))
    assert total(metrics, "prompt_tokens_cached_total") == 0
    assert value(metrics, "cache_reports_total", source="usage") == 1


def test_requests_that_are_no_answers_report_nothing(metrics: Metrics) -> None:
    closed(metrics, first=None, ttft=None, usage=Usage(), dialect="other")
    assert total(metrics, "cache_reports_total") == 0
    assert total(metrics, "requests_total") == 1


@pytest.mark.parametrize("count", [-1, 10**400, 2**63])
def test_absurd_counts_spoil_nothing(metrics: Metrics, count: int) -> None:
    closed(metrics, usage=Usage(prompt=count, cached=count, completion=count, source="usage"))
    closed(metrics, usage=Usage(prompt=10, cached=50, completion=5, source="usage"))
    assert 10 <= total(metrics, "prompt_tokens_total") <= 2e9
    assert total(metrics, "prompt_tokens_cached_total") <= total(metrics, "prompt_tokens_total")
    assert total(metrics, "requests_total") == 2


def test_a_request_that_reached_no_backend(metrics: Metrics) -> None:
    closed(metrics, backend=None, decision=None, outcome="refused", label="other", first=None, ttft=None, usage=Usage())
    labels = {"backend": "none", "model": "other", "dialect": "openai", "kind": "main", "outcome": "refused"}
    assert value(metrics, "requests_total", **labels) == 1
    assert total(metrics, "queue_seconds_count") == 0
    assert total(metrics, "request_duration_seconds_count") == 0


def test_clients_that_leave_are_counted(metrics: Metrics) -> None:
    assert value(metrics, "client_disconnects_total") == 0
    for outcome in OUTCOMES:
        closed(metrics, outcome=outcome)
    assert value(metrics, "client_disconnects_total") == 1


def test_requests_in_flight(metrics: Metrics) -> None:
    metrics.on_event(RequestStarted("a", "ollama"))
    metrics.on_event(RequestStarted("b", "ollama"))
    metrics.on_event(RequestStarted("c", "lms"))
    metrics.on_event(RequestLeft("a", "ollama"))
    assert value(metrics, "inflight", backend="ollama") == 1
    assert value(metrics, "inflight", backend="lms") == 1
    metrics.on_event(RequestLeft("b", "ollama"))
    assert value(metrics, "inflight", backend="ollama") == 0


def probed(metrics: Metrics, name: str, *models: ModelInfo, up: bool = True) -> None:
    metrics.on_event(BackendProbed(name, Probe(kind="ollama", up=up, models=models), 0.01))


def test_a_probe_shows_the_backend_and_zeroes_to_alert_on(metrics: Metrics) -> None:
    probed(metrics, "ollama")
    assert value(metrics, "backend_up", backend="ollama") == 1
    assert value(metrics, "circuit_open", backend="ollama") == 0
    assert value(metrics, "inflight", backend="ollama") == 0
    probed(metrics, "ollama", up=False)
    assert value(metrics, "backend_up", backend="ollama") == 0


def test_models_of_a_backend_come_and_go(metrics: Metrics) -> None:
    big = ModelInfo("big", resident=True, resident_bytes=7, expires=float("inf"))
    small = ModelInfo("small", resident=False)
    probed(metrics, "ollama", big, small, ModelInfo("mystery"))
    probed(metrics, "lms", ModelInfo("big", resident=True, expires=2e9))
    assert value(metrics, "model_resident", backend="ollama", model="big") == 1
    assert value(metrics, "model_resident", backend="ollama", model="small") == 0
    assert value(metrics, "model_resident", backend="ollama", model="mystery") is None
    assert value(metrics, "model_resident_bytes", backend="ollama", model="big") == 7
    assert value(metrics, "model_expires_timestamp_seconds", backend="ollama", model="big") == float("inf")
    probed(metrics, "ollama", replace(big, resident=False, resident_bytes=None, expires=None))
    assert value(metrics, "model_resident", backend="ollama", model="big") == 0
    assert value(metrics, "model_resident", backend="ollama", model="small") is None
    assert value(metrics, "model_resident_bytes", backend="ollama", model="big") is None
    assert value(metrics, "model_expires_timestamp_seconds", backend="ollama", model="big") is None
    assert value(metrics, "model_expires_timestamp_seconds", backend="lms", model="big") == 2e9
    probed(metrics, "ollama", up=False)
    assert total(metrics, "model_resident", backend="ollama") == 0
    assert value(metrics, "model_resident", backend="lms", model="big") == 1


def test_a_vanished_backend_takes_its_gauges_along(metrics: Metrics) -> None:
    for name in ("ollama", "lms"):
        probed(metrics, name, ModelInfo("big", resident=True, resident_bytes=7, expires=2e9))
    metrics.on_event(BackendGone("ollama"))
    left = {name for name, labels in read(metrics) if ("backend", "ollama") in labels}
    assert left == {"warmgate_inflight"}
    assert value(metrics, "backend_up", backend="lms") == 1
    probed(metrics, "ollama")
    assert value(metrics, "backend_up", backend="ollama") == 1


def test_resident_models_come_first_when_there_are_many(metrics: Metrics) -> None:
    asleep = [ModelInfo(f"m{number}", resident=False) for number in range(100)]
    probed(metrics, "ollama", *asleep, ModelInfo("awake", resident=True))
    shown = [labels for name, labels in read(metrics) if name == "warmgate_model_resident"]
    assert len(shown) == 25
    assert value(metrics, "model_resident", backend="ollama", model="awake") == 1


def test_circuit(metrics: Metrics) -> None:
    metrics.on_event(CircuitChanged("ollama", open=True))
    assert value(metrics, "circuit_open", backend="ollama") == 1
    probed(metrics, "ollama")
    assert value(metrics, "circuit_open", backend="ollama") == 1
    metrics.on_event(CircuitChanged("ollama", open=False))
    assert value(metrics, "circuit_open", backend="ollama") == 0


def test_reloads() -> None:
    clock = FixedClock()
    metrics = Metrics(clock=clock)
    assert value(metrics, "config_last_reload_successful") == 1
    clock.time = 1e9 + 5
    metrics.on_event(ConfigReloaded(ok=False, message="line 3"))
    assert value(metrics, "config_last_reload_successful") == 0
    assert value(metrics, "config_last_reload_success_timestamp_seconds") == 1e9
    metrics.on_event(ConfigReloaded(ok=True))
    assert value(metrics, "config_last_reload_successful") == 1
    assert value(metrics, "config_last_reload_success_timestamp_seconds") == 1e9 + 5


def test_build_info() -> None:
    metrics = Metrics(version="1.2.3")
    (labels,) = [dict(labels) for name, labels in read(metrics) if name == "warmgate_build_info"]
    assert labels["version"] == "1.2.3"


def test_it_hears_the_bus_and_ignores_what_it_does_not_know(metrics: Metrics) -> None:
    bus = Bus()
    bus.subscribe(metrics.on_event)
    bus.publish(RequestClosed(RECORD))
    bus.publish("something else")
    assert total(metrics, "requests_total") == 1


def label_values(metrics: Metrics) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for _, labels in read(metrics):
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    return values


def test_a_flood_of_names_adds_one_value_to_a_full_label() -> None:
    metrics = Metrics(max_pairs=5)
    for number in range(5):
        closed(metrics, label=f"m{number}", backend=f"b{number}")
        probed(metrics, f"b{number}", ModelInfo(f"m{number}", resident=True, resident_bytes=1, expires=2e9))
    closed(metrics, backend=None, label="m0")
    before = label_values(metrics)
    for number in range(1000):
        name = f"flood{number}"
        metrics.on_event(RequestStarted("x", name))
        probed(metrics, name, ModelInfo(name, resident=True))
        metrics.on_event(CircuitChanged(name, open=True))
        closed(metrics, label=name, backend=name)
        closed(metrics, label=name)
        closed(metrics, label="m0", backend=name)
    after = label_values(metrics)
    assert set(after) == set(before)
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown == {"backend": {"other"}}
    assert after["backend"] == {"b0", "b1", "b2", "b3", "b4", "none", "other"}
    assert value(metrics, "inflight", backend="other") == 1000
    assert total(metrics, "requests_total", backend="other", model="other") == 3000
    assert value(metrics, "backend_up", backend="other") is None
    assert value(metrics, "circuit_open", backend="other") is None


def test_a_flood_of_other_labels_is_bounded_too(metrics: Metrics) -> None:
    for number in range(200):
        name = f"x{number}"
        closed(metrics, dialect=name, kind=name, decision=name, overhead={name: 0.001})
    sizes = {name: len(values) for name, values in label_values(metrics).items()}
    assert max(sizes[name] for name in ("dialect", "kind", "decision", "stage")) <= 33
    assert total(metrics, "requests_total") == 200


HOSTILE = ['a"} 1\nfake_total 7', "back\\slash", "new\nline", "\x1b[31mred", "\ud800", "\u2028", "🦙", "", "x" * 5000, "# HELP"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_do_not_break_the_format(metrics: Metrics, text: str) -> None:
    closed(metrics, label=text, backend=text, dialect=text, decision=text, kind=text, overhead={text: 0.1})
    metrics.on_event(RequestStarted("x", text))
    probed(metrics, text, ModelInfo(text, resident=True, resident_bytes=1, expires=1.0))
    assert total(metrics, "requests_total") == 1
    assert all(name.startswith("warmgate_") for name, _ in read(metrics))
    assert all(len(value) <= 200 for values in label_values(metrics).values() for value in values)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_name_can_be_read_back(backend: str, model: str) -> None:
    metrics = Metrics()
    closed(metrics, backend=backend, label=model)
    assert total(metrics, "requests_total") == 1


GAUGES = {
    "index_nodes",
    "working_set_tokens",
    "inflight",
    "backend_up",
    "circuit_open",
    "model_resident",
    "model_kept",
    "slots",
    "waiting",
    "pin_disabled",
    "snapshots_disabled",
    "snapshot_files",
    "prefix_warm",
    "config_last_reload_successful",
    "build_info",
}
UNITS = ("_total", "_seconds", "_bytes", "_timestamp_seconds", "_ratio", "_fds")


def test_names_units_and_help(metrics: Metrics) -> None:
    closed(metrics)
    probed(metrics, "ollama", ModelInfo("big", resident=True, resident_bytes=1, expires=1.0))
    families = list(text_string_to_metric_families(metrics.render().decode()))
    assert len(families) >= 20
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        assert name.startswith("warmgate_")
        assert name.endswith(UNITS) or name.removeprefix("warmgate_") in GAUGES
        assert len(family.documentation) > 15
        assert not any(sample.name.endswith("_created") for sample in family.samples)


def test_two_instances_do_not_share_anything(metrics: Metrics) -> None:
    other = Metrics()
    closed(other)
    assert total(metrics, "requests_total") == 0


def test_rendering_in_a_thread_while_events_come(metrics: Metrics) -> None:
    done, failures = threading.Event(), []

    def scrape() -> None:
        while not done.is_set():
            try:
                read(metrics)
            except Exception as error:
                failures.append(error)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    for number in range(300):
        closed(metrics, label=f"m{number}", decision=f"d{number}")
        probed(metrics, "ollama", *[ModelInfo(f"m{(number + n) % 40}", resident=True) for n in range(10)])
    done.set()
    scraper.join()
    assert failures == []
    assert total(metrics, "requests_total") == 300


def test_edits_and_finds_are_counted_by_rule(metrics: Metrics) -> None:
    metrics.on_event(Canonicalized({"clock": 2, "note": 1}, ("learned", "learned")))
    metrics.on_event(Canonicalized({}, (), "doubt: something about the prompt"))
    metrics.on_event(RewriteRejected())
    assert value(metrics, "canonical_edits_total", rule="clock", action="rewrite") == 2
    assert value(metrics, "canonical_edits_total", rule="learned", action="observe") == 2
    assert value(metrics, "volatile_found_total", detector="clock") == 1
    assert value(metrics, "volatile_found_total", detector="learned") == 1
    assert value(metrics, "volatile_found_total", detector="note") is None
    assert value(metrics, "canonical_untouched_total", reason="doubt") == 1, "the rest of the reason is no label"
    assert value(metrics, "rewrite_rejected_total") == 1
