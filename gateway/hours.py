"""Cron expressions as people write them: windows of minutes (`* 8-19 * * 1-5`) and moments (`30 7 * * mon-fri`), in a time
zone. Pure.

Five fields: minute, hour, day of the month, month, day of the week; read by cronsim, with Debian cron's rules. In a window each
minute that matches is inside, by the clock on the wall: in the night when clocks go back, an hour that comes twice is inside
twice; one that is left out in spring is never reached. A moment that clocks leave out comes right after the gap, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

ALWAYS = "* * * * *"

MOST_REPEATED = 200  # matching minutes in the hours that come twice

_ANY = datetime(2000, 1, 1, tzinfo=UTC)


def parse_cron(text: str) -> str:
    """The expression in one spelling. Raises ValueError with a sentence that says how to write it."""
    fields = text.split()
    if len(fields) != 5:
        raise ValueError("not a cron expression; write minute, hour, day, month and weekday such as '* 8-19 * * 1-5'")
    try:
        CronSim(text, _ANY)
    except CronSimError as error:
        what = str(error).removeprefix("Bad ")
        raise ValueError(f"its {what} is not right; write a cron expression such as '* 8-19 * * 1-5'") from error
    return " ".join(fields)


def parse_zone(text: str) -> str:
    """A time zone's name; empty: the machine's own. Raises ValueError."""
    try:
        _zone(text)
    except (ValueError, OSError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ValueError("not a time zone that is known here; write a name such as Europe/Berlin or UTC") from error
    return text


@dataclass(frozen=True, slots=True)
class Cron:
    """An expression in a zone, both of which have been parsed. Times are seconds since the epoch."""

    text: str = ALWAYS
    zone: str = ""
    _parsed: CronSim = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parsed", CronSim(self.text, _ANY))

    @property
    def always(self) -> bool:
        return self.text == ALWAYS

    def contains(self, wall: float) -> bool:
        """Whether this minute matches."""
        when, cron = self._local(wall), self._parsed
        return (
            when.minute in cron.minutes
            and when.hour in cron.hours
            and when.month in cron.months
            and bool(cron.match_day(when.date()))
        )

    def next(self, wall: float) -> float | None:
        """The first matching minute after this time; None if there is none within fifty years."""
        for found in islice(CronSim(self.text, self._local(wall)), MOST_REPEATED):
            if found.timestamp() > wall:  # in an hour that comes twice, the library's next one may be in the first of them
                return found.timestamp()
        return None

    def left(self, wall: float, most: float = 86_400.0) -> float:
        """Seconds until the first minute that does not match, at most so many; 0 if this one does not."""
        if self.always:
            return most
        at = wall
        while at - wall < most and self.contains(at):
            at += 60.0 - at % 60.0
        return min(at - wall, most)

    def _local(self, wall: float) -> datetime:
        return datetime.fromtimestamp(wall, _zone(self.zone))


def _zone(name: str) -> tzinfo | None:
    """None stands for the machine's own zone."""
    return ZoneInfo(name) if name else None
