"""Learned prefill rates and what is inferred from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.state.rates import ENOUGH, LEAST, Rate, Ratio


def took(a: float, b: float, cached: int, prompt: int) -> float:
    return a * (prompt - cached) + b * (prompt * prompt - cached * cached) / 2


def taught(a: float, b: float, *prompts: tuple[int, int]) -> Rate:
    rate = Rate()
    for cached, prompt in prompts:
        rate.learn(cached, prompt, took(a, b, cached, prompt))
    return rate


@given(st.floats(1e-5, 1e-2), st.floats(1e-9, 1e-6))
def test_time_by_depth_is_learned(a: float, b: float) -> None:
    rate = taught(a, b, (0, 500), (0, 4000), (3000, 3500), (0, 9000))
    for cached, prompt in ((0, 1000), (2000, 6000), (8000, 8100)):
        assert rate.seconds(cached, prompt) == pytest.approx(took(a, b, cached, prompt), rel=0.05)


def test_nothing_is_known_at_first() -> None:
    assert Rate().seconds(0, 1000) is None
    assert Rate().cached(1000, 1.0) is None


def test_short_prompts_teach_nothing() -> None:
    assert taught(1.0, 0.0, (0, LEAST - 1)).samples == 0


@given(st.integers(0, 4000))
def test_what_was_reused_is_inferred_from_the_time(cached: int) -> None:
    rate = taught(1e-3, 1e-7, (0, 1000), (0, 2000), (0, 4000))
    found = rate.cached(4000, took(1e-3, 1e-7, cached, 4000))
    assert found is not None
    assert abs(found - cached) <= 80


def test_too_few_samples_and_servers_that_report_infer_nothing() -> None:
    assert taught(1e-3, 0.0, *[(0, 1000)] * (ENOUGH - 1)).cached(1000, 0.5) is None
    rate = taught(1e-3, 0.0, *[(0, 1000)] * ENOUGH)
    assert rate.cached(1000, 0.5) == pytest.approx(500, abs=20)
    rate.told = True
    assert rate.cached(1000, 0.5) is None


def test_a_machine_that_became_slower_is_followed() -> None:
    rate = taught(1e-3, 0.0, *[(0, 1000)] * 20)
    for _ in range(200):
        rate.learn(0, 1000, 3.0)
    assert rate.seconds(0, 1000) == pytest.approx(3.0, rel=0.05)


def test_characters_for_each_token() -> None:
    ratio = Ratio()
    for _ in range(5):
        ratio.learn(1000, 3000)
    assert ratio.value == pytest.approx(1 / 3)
    ratio.learn(0, 100)
    assert ratio.value == pytest.approx(1 / 3)
