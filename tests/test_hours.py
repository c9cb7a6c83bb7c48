"""Cron windows and moments, on days on which clocks are changed too."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.hours import ALWAYS, Cron, parse_cron, parse_zone

BERLIN = "Europe/Berlin"
OFFICE = "* 8-19 * * 1-5"


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


@pytest.mark.parametrize(
    ("when", "inside"),
    [
        ("2026-11-30T08:00", True),  # a Monday
        ("2026-11-30T19:59:59", True),
        ("2026-11-30T07:59:59", False),
        ("2026-11-30T20:00", False),
        ("2026-11-29T12:00", False),  # a Sunday
    ],
)
def test_a_window_is_its_minutes_on_the_wall(when: str, inside: bool) -> None:
    assert Cron(OFFICE, BERLIN).contains(at(when)) is inside


def test_a_window_is_in_its_own_zone() -> None:
    noon_in_berlin = at("2026-11-30T08:30")
    assert Cron(OFFICE, BERLIN).contains(noon_in_berlin)
    assert not Cron(OFFICE, "UTC").contains(noon_in_berlin)
    assert not Cron(OFFICE, "America/New_York").contains(noon_in_berlin)


def test_an_hour_that_comes_twice_is_inside_twice() -> None:
    window = Cron("* 2 * * *", BERLIN)
    assert window.contains(at("2026-10-25T02:30", fold=0))
    assert window.contains(at("2026-10-25T02:30", fold=1))
    assert at("2026-10-25T02:30", fold=1) - at("2026-10-25T02:30", fold=0) == 3600


def test_a_moment_that_clocks_leave_out_comes_right_after_the_gap() -> None:
    found = Cron("30 2 * * *", BERLIN).next(at("2026-03-29T00:00"))
    assert found == at("2026-03-29T03:00")


def test_a_moment_in_an_hour_that_comes_twice_comes_once_and_never_before_now() -> None:
    cron, first, second = Cron("30 2 * * *", BERLIN), at("2026-10-25T02:30"), at("2026-10-25T02:30", fold=1)
    assert cron.next(at("2026-10-25T01:00")) == first
    assert cron.next(first) == at("2026-10-26T02:30")
    assert cron.next(second - 60) == at("2026-10-26T02:30")


def test_what_is_left_of_a_window() -> None:
    window = Cron(OFFICE, BERLIN)
    assert window.left(at("2026-11-30T19:30:30")) == 29 * 60 + 30
    assert window.left(at("2026-11-30T20:00")) == 0
    assert window.left(at("2026-11-30T08:00"), most=3600) == 3600
    assert Cron(ALWAYS, BERLIN).left(at("2026-11-30T08:00")) == 86_400


def test_weekdays_have_names() -> None:
    friday_evening = at("2026-11-27T21:00")
    assert Cron("30 7 * * mon-fri", BERLIN).next(friday_evening) == at("2026-11-30T07:30")


def test_a_moment_that_never_comes() -> None:
    assert Cron("0 0 30 2 1", "UTC").next(at("2026-11-30T00:00")) is not None  # Debian: the 30th or a Monday in February
    with pytest.raises(ValueError, match="day-of-month"):
        parse_cron("0 0 30 2 *")


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "cron"), ("8-19", "cron"), ("* * * * * *", "cron"), ("* 25 * * *", "hour"), ("61 * * * *", "minute"),
     ("* * * * funday", "day-of-week"), ("* 19-8 * * *", "hour")],
)  # fmt: skip
def test_a_wrong_expression_says_which_field(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_cron(text)


@pytest.mark.parametrize("name", ["Europe/Berlim", "../etc/passwd", "\x00", "Europe"])
def test_an_unknown_zone(name: str) -> None:
    with pytest.raises(ValueError, match="Europe/Berlin"):
        parse_zone(name)


def test_the_machines_own_zone() -> None:
    assert parse_zone("") == ""
    assert Cron(ALWAYS, "").contains(0.0)
    assert Cron(ALWAYS, "").always
    assert Cron("* * * * *", "").next(30.0) == 60.0


EXPRESSIONS = ["* * * * *", "*/7 1-4 * * *", "30 2 * * *", "15 2,3 * 3,10 *", "0 */6 * * 0", "59 23 28-31 * *"]
ZONES = ["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]


@given(
    text=st.sampled_from(EXPRESSIONS),
    zone=st.sampled_from(ZONES),
    wall=st.integers(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()), int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())),
)
def test_the_next_moment_is_later_and_nothing_is_skipped_without_a_change_of_clocks(text: str, zone: str, wall: int) -> None:
    cron = Cron(text, zone)
    found = cron.next(float(wall))
    assert found is not None
    assert found > wall
    tz = ZoneInfo(zone)
    steady = datetime.fromtimestamp(wall, tz).utcoffset() == datetime.fromtimestamp(found, tz).utcoffset()
    if steady and found - wall < 20_000:
        assert cron.contains(found)
        minute = (int(wall) // 60 + 1) * 60
        assert not any(cron.contains(float(at)) for at in range(minute, int(found), 60))
