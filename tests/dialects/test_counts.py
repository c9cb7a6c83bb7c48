"""Token counts of every kind of server, and which report wins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import counts
from gateway.values import Usage

OPENAI: list[tuple[dict[str, Any], Usage]] = [
    ({}, Usage()),
    ({"usage": None, "timings": None}, Usage()),
    ({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}, Usage(9, None, 2)),
    ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}, Usage(9)),
    ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}}, Usage(9)),
    ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}, Usage(9, 0, source="usage")),
    ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8}}}, Usage(9, 8, source="usage")),
    (
        {"usage": {"input_tokens": 9, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 4}}},
        Usage(9, 4, 1, None, "usage"),
    ),
    ({"stats": {"input_tokens": 7, "total_output_tokens": 3, "tokens_per_second": 9.5}}, Usage(7, None, 3)),
    ({"usage": {"prompt_tokens": 7}, "stats": {"input_tokens": 1}}, Usage(7)),
    ({"timings": {"cache_n": 5, "prompt_n": 4, "prompt_ms": 1.5, "predicted_n": 2}}, Usage(9, 5, 2, 1.5, "timings")),
    (  # both: timings are preferred
        {
            "usage": {"prompt_tokens": 99, "completion_tokens": 98, "prompt_tokens_details": {"cached_tokens": 97}},
            "timings": {"cache_n": 0, "prompt_n": 4, "predicted_n": 2},
        },
        Usage(4, 0, 2, None, "timings"),
    ),
    # llama.cpp before cache_n: what was not evaluated was reused
    ({"usage": {"prompt_tokens": 9}, "timings": {"prompt_n": 2}}, Usage(9, 7, None, None, "timings")),
    ({"usage": {"prompt_tokens": 1}, "timings": {"prompt_n": 2}}, Usage(1, 0, None, None, "timings")),
    ({"timings": {"prompt_n": 2, "prompt_ms": 3}}, Usage(None, None, None, 3.0)),
    ({"timings": {"cache_n": 2}}, Usage(None, 2, None, None, "timings")),
    ({"usage": [], "timings": 3, "stats": "x"}, Usage()),
    ({"usage": {"prompt_tokens": "9", "completion_tokens": -1}}, Usage()),
]


@pytest.mark.parametrize(("doc", "usage"), OPENAI)
def test_openai(doc: dict[str, Any], usage: Usage) -> None:
    assert counts.openai(doc) == usage


@pytest.mark.parametrize(
    ("doc", "usage"),
    [
        ({"done": True}, Usage()),
        (
            {"prompt_eval_count": 20, "prompt_eval_duration": 1_500_000, "eval_count": 3},
            Usage(20, None, 3, 1.5),
        ),
        ({"prompt_eval_count": 20, "prompt_eval_cached_count": 0}, Usage(20, 0, source="usage")),
        ({"prompt_eval_count": 20, "prompt_eval_cached_count": 18}, Usage(20, 18, source="usage")),
    ],
)
def test_ollama(doc: dict[str, Any], usage: Usage) -> None:
    assert counts.ollama(doc) == usage


@pytest.mark.parametrize(
    ("doc", "usage"),
    [
        ({}, Usage()),
        ({"input_tokens": 0, "output_tokens": 0}, Usage(None, None, 0)),
        ({"input_tokens": 4, "output_tokens": 2}, Usage(4, None, 2)),
        ({"input_tokens": 4, "cache_read_input_tokens": 0}, Usage(4, 0, source="usage")),
        (
            {"input_tokens": 4, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 6, "output_tokens": 2},
            Usage(60, 50, 2, None, "usage"),
        ),
        ({"input_tokens": 0, "cache_read_input_tokens": 50}, Usage(50, 50, source="usage")),
        ({"input_tokens": 4, "cache_read_input_tokens": None}, Usage(4)),
    ],
)
def test_anthropic(doc: dict[str, Any], usage: Usage) -> None:
    assert counts.anthropic(doc) == usage


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), (12, 12), (12.0, 12), (12.5, None), (-1, None), (True, None), ("1", None), (None, None), (1e999, None)],
)
def test_count(value: Any, number: int | None) -> None:
    assert counts.count(value) == number
    assert counts.count(float("nan")) is None


def test_duration() -> None:
    assert counts.duration(1_500_000, 1e-6) == 1.5
    assert [counts.duration(value) for value in (-1, True, "1", None, float("nan"), 1e999, 10**400)] == [None] * 7


def test_a_newer_report_wins_and_keeps_what_it_does_not_say() -> None:
    assert counts.merge(Usage(9, 3, 1, 2.0, "usage"), Usage(10, None, 2)) == Usage(10, 3, 2, 2.0, "usage")
    assert counts.merge(Usage(9), Usage(9, 0, source="usage")) == Usage(9, 0, source="usage")


def test_timings_win_over_usage_that_comes_later() -> None:
    timed, told = Usage(9, 5, 1, 2.0, "timings"), Usage(99, 0, 98, None, "usage")
    assert counts.merge(timed, told) == timed
    assert counts.merge(told, timed) == timed
    assert counts.merge(timed, Usage(1, 2, 3, 4.0, "timings")) == Usage(1, 2, 3, 4.0, "timings")


usages = st.builds(
    Usage,
    prompt=st.none() | st.integers(0, 9),
    cached=st.none() | st.integers(0, 9),
    source=st.sampled_from(["usage", "timings"]),
).map(lambda usage: usage if usage.cached is not None else Usage(usage.prompt))


@given(usages, usages)
def test_a_source_belongs_to_a_count(old: Usage, new: Usage) -> None:
    both = counts.merge(old, new)
    assert (both.source == "none") is (both.cached is None)
    assert (both.cached, both.source) in ((old.cached, old.source), (new.cached, new.source))


def test_only_a_zero_without_timings_is_distrusted() -> None:
    assert counts.distrust_zero(Usage(9, 0, 1, None, "usage")) == Usage(9, None, 1, None, "none")
    for trusted in (Usage(9, 0, 1, None, "timings"), Usage(9, 3, 1, None, "usage"), Usage(9, 0, 1, None, "inferred"), Usage()):
        assert counts.distrust_zero(trusted) is trusted
