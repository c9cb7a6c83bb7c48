"""LM Studio: what is kept is loaded explicitly, lives through its hours, and stays ejected when somebody ejects it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.events import KeepAliveOverridden, ModelUnloaded
from tests.residency.house import MONDAY, House, house
from tests.support.clients import fetch
from tests.support.clock import ManualClock
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_server import Refused
from tests.support.lmstudio_instances import LmModel

HOUR = 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MONDAY + 9 * HOUR)


@pytest.fixture
def studio(clock: ManualClock) -> FakeLmStudio:
    return FakeLmStudio(LmModel("local-a"), LmModel("local-b"), clock=clock)


def open_house(clock: ManualClock, studio: FakeLmStudio, **keep: Any) -> Any:
    return house(clock, {"box": ("lmstudio", studio)}, {"local-a": {"targets": ["box/local-a"], "keep": keep}})


def names(studio: FakeLmStudio) -> list[str]:
    return [instance.id for instance in studio.instances.loaded]


async def test_a_resident_model_is_loaded_once_and_for_good(clock: ManualClock, studio: FakeLmStudio) -> None:
    async with open_house(clock, studio, resident=True, num_ctx=16384) as found:
        await found.through(5 * HOUR)
        assert studio.instances.loads == [("local-a", "asked")]
        assert studio.instances.unloads == []
        assert [instance.context for instance in studio.instances.loaded] == [16384]


async def test_one_that_a_request_loaded_is_not_loaded_twice(clock: ManualClock, studio: FakeLmStudio) -> None:
    async with open_house(clock, studio, resident=True) as found:
        await fetch(studio.url + "/v1/chat/completions", {"model": "local-a", "messages": [{"role": "user", "content": "hi"}]})
        await found.through(HOUR / 2)
        assert names(studio) == ["local-a"]


@pytest.mark.parametrize("asked", [None, 60])
async def test_what_a_request_loads_outlives_the_hours(clock: ManualClock, studio: FakeLmStudio, asked: int | None) -> None:
    async with open_house(clock, studio, resident=True, hours="* 8-17 * * *", zone="UTC") as found:
        await found.look()
        await found.chat("local-a", **({"ttl": asked} if asked is not None else {}))
        [instance] = studio.instances.loaded
        assert instance.ttl == 9 * HOUR
        assert len(found.events(KeepAliveOverridden)) == (asked is not None)
        await found.through(8.9 * HOUR, every=600)
        assert studio.instances.unloads == []


async def test_nothing_is_kept_outside_the_hours(clock: ManualClock, studio: FakeLmStudio) -> None:
    async with open_house(clock, studio, resident=True, hours="* 8-11 * * *", zone="UTC") as found:
        await found.through(HOUR)
        assert names(studio) == ["local-a"]
        await found.through(3 * HOUR)
        assert names(studio) == []
        assert [one.cause for one in found.events(ModelUnloaded)] == ["release"]
        assert await found.through(12 * HOUR, every=600) == []


async def test_an_ejected_model_stays_out_until_it_is_used(clock: ManualClock, studio: FakeLmStudio) -> None:
    async with open_house(clock, studio, resident=True) as found:
        await found.step()
        await fetch(studio.url + "/api/v1/models/unload", {"instance_id": "local-a"})
        assert await found.through(2 * HOUR) == []
        assert [one.cause for one in found.events(ModelUnloaded)] == ["client"]
        await found.chat("local-a")
        await found.step(60)
        assert names(studio) == ["local-a"]


async def test_a_server_without_the_load_api_is_named_and_not_asked_all_the_time(
    clock: ManualClock, studio: FakeLmStudio
) -> None:
    async with open_house(clock, studio, resident=True) as found:
        await found.look()

        def refused(*_: Any) -> Any:
            raise Refused(404, "Unexpected endpoint or method. (POST /api/v1/models/load)")

        studio.instances.load = refused  # type: ignore[method-assign]
        tried = len(await found.through(HOUR))
        assert 2 <= tried <= 8
        await _says(found, "load")


async def _says(found: House, word: str) -> None:
    [row] = [row for row in found.gateway.residency.rows() if row["keep"] == "local-a"]
    assert word in row["problem"]
