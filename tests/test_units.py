from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0), ("0s", 0.0), ("250ms", 0.25), ("0.5ms", 0.0005), ("30s", 30.0), (" 30s ", 30.0), ("1.5h", 5400.0),
        ("5m", 300.0), ("1h30m", 5400.0), ("2d", 172800.0), ("1w1d1h1m1s1ms", 694861.001), ("1m1.001s", 61.001),
    ],
)  # fmt: skip
def test_durations_are_read(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "30",
        "1",
        "s",
        "-1s",
        "1h 30m",
        "30m1h",
        "5m5m",
        "1:30",
        "1e3s",
        "1,5s",
        ".5s",
        "1.s",
        "30S",
        "٣s",
        "inf",
        "9" * 400 + "s",
    ],
)
def test_other_durations_are_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match="write a number and a unit"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"), (0.0005, "0.5ms"), (0.25, "250ms"), (0.9999999, "1s"), (1.5, "1.5s"), (30.0, "30s"), (90.0, "1m30s"),
        (59.9999999, "1m"), (3600.0, "1h"), (90061.001, "1d1h1m1.001s"), (1e-9, "0s"),
    ],
)  # fmt: skip
def test_durations_are_shown_short(seconds: float, text: str) -> None:
    assert units.show_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**15))
def test_a_shown_duration_reads_back_to_the_microsecond(micros: int) -> None:
    seconds = micros / 10**6
    assert units.parse_duration(units.show_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0), ("1024", 1024), ("512kB", 512_000), ("512 KB", 512_000), ("64MiB", 64 * 2**20), ("64mib", 64 * 2**20),
        ("1.5KiB", 1536), ("0.3KiB", 307), ("20GiB", 20 * 2**30), ("1TB", 10**12), ("2TiB", 2**41), ("7B", 7),
        ("999999999999999999", 999999999999999999),
    ],
)  # fmt: skip
def test_sizes_are_read(text: str, count: int) -> None:
    assert units.parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "MiB", "64M", "64Mi", "64iB", "-1", "1e6", "1.5", "64 MiB/s", "٣kB", "9" * 400, "9" * 400 + "kB"]
)
def test_other_sizes_are_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match="write bytes, or a number and a unit"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (1, "1"), (1023, "1023"), (1024, "1KiB"), (2**26, "64MiB"), (3 * 2**39, "1536GiB")]
)
def test_sizes_are_shown_without_rounding(count: int, text: str) -> None:
    assert units.show_size(count) == text


@given(st.integers(min_value=0, max_value=10**17))
def test_a_shown_size_reads_back(count: int) -> None:
    assert units.parse_size(units.show_size(count)) == count


@given(st.integers(min_value=0, max_value=10**5), st.sampled_from([2**10, 2**20, 2**30, 2**40]))
def test_a_shown_multiple_reads_back(count: int, unit: int) -> None:
    assert units.parse_size(units.show_size(count * unit)) == count * unit


@given(st.text(alphabet="0123456789. smhdwkKMGTiBb", max_size=12))
def test_text_is_read_or_refused_and_never_anything_else(text: str) -> None:
    for parse in (units.parse_duration, units.parse_size):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            if not str(error).startswith("not a "):
                raise


@pytest.mark.parametrize("pattern", [units.DURATION_PATTERN, units.SIZE_PATTERN])
def test_patterns_are_anchored_so_that_a_schema_can_use_them(pattern: str) -> None:
    assert [text for text in ("", "x1s", "1sx", "x1B", "1Bx") if re.search(pattern, text)] == []
