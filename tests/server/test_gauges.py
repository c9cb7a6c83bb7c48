"""What /metrics tells of states that no event announces: slots, holds, models that ought to be loaded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.routing.board import Held, Slot
from gateway.server.gauges import PINS, STATES, look, state
from gateway.state.trust import BROKEN, LEAST
from gateway.values import ModelInfo, Probe
from tests.state.llama import talk
from tests.state.test_board import backend, known
from tests.support.front import front

HELD = Held(talk("ada"), 100, 0.0, 0.0)


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        (Slot(0), "empty"),
        (Slot(0, held=HELD), "warm"),
        (Slot(0, held=HELD, flight=7), "busy"),
        (Slot(0, held=HELD, draining=True), "draining"),
        (Slot(0, held=HELD, flight=7, foreign=True), "foreign"),
    ],
)
def test_what_a_slot_does(slot: Slot, expected: str) -> None:
    assert state(slot) == expected
    assert expected in STATES


async def test_a_scrape_is_remembered_and_shows_what_waits(tmp_path: Path) -> None:
    async with front(tmp_path) as gateway:
        assert (await gateway.ask("/status")).json()["scraped"] is None
        shown = (await gateway.ask("/metrics")).body.decode()
        assert abs((await gateway.ask("/status")).json()["scraped"] - time.time()) < 10
    assert 'warmgate_waiting{backend="local"} 0.0' in shown
    assert 'warmgate_snapshots_disabled{backend="local"} 0.0' in shown
    assert "warmgate_slots{" not in shown  # it is no llama.cpp server
    assert "warmgate_pin_disabled{" not in shown


async def test_slots_of_a_server_that_has_some_and_models_that_are_kept(tmp_path: Path) -> None:
    models = {"tiny": {"targets": ["local/tiny"], "keep": {"resident": True}}}
    backends = {"local": {"kind": "llamacpp", "url": "http://127.0.0.1:9"}}
    async with front(tmp_path, models=models, backends=backends) as running:
        gateway = running.app.gateway
        tiny = ModelInfo("tiny", resident=False)
        config = gateway.now.config.backends["local"]
        gateway.fleet.saw("local", config, Probe("llamacpp", up=True, models=(tiny,), single_model=True, slots=3), 0.01)
        gateway.residency.wanted(gateway.fleet.view, {})
        look(gateway)
        shown = gateway.metrics.render().decode()
    assert 'warmgate_slots{backend="local",state="empty"} 3.0' in shown
    assert all(f'warmgate_pin_disabled{{backend="local",reason="{reason}"}} 0.0' in shown for reason in PINS)
    assert 'warmgate_model_kept{backend="local",model="tiny"} 1.0' in shown


def test_faults_for_which_pinning_is_given_up() -> None:
    fine = known()
    assert fine.seats.slots("llama")[1] == ""
    fine.seats.cannot_look("llama", "it tells nothing")
    assert fine.seats.slots("llama")[1] == "unreadable"
    broken = known()
    trust = broken.seats._engines.servers["llama"].trust
    for _ in range(BROKEN):
        trust.judge_pin(2 * LEAST, 0)
    assert broken.seats.slots("llama")[1] == "broken"
    foreign = known()
    foreign.seats._engines.servers["llama"].trust.saw_foreign(foreign.clock.now())
    assert foreign.seats.slots("llama")[1] == "foreign"
    unwanted = known(config=backend(pin="never"))
    unwanted.seats._engines.servers["llama"].trust.saw_foreign(unwanted.clock.now())
    assert unwanted.seats.slots("llama")[1] == ""
    assert [slot.number for slot in known(3, backend(slots=[1, 2])).seats.slots("llama")[0]] == [1, 2]
    assert {"unreadable", "broken", "foreign"} == set(PINS)
