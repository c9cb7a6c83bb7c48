"""What `--probe` and `--canary` say of servers that reuse, count and mix up in different ways."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.contract.bodies import CHAT
from gateway.doctor import canary, measure
from gateway.doctor.base import Finding
from gateway.doctor.examine import canary_model, probe_model
from gateway.doctor.target import NoTarget
from tests.doctor.looking import config, names
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_server import FakeServer
from tests.support.fake_vllm import FakeVllm
from tests.support.lmstudio_instances import LmModel
from tests.support.ollama_runners import Model
from tests.support.process import free_port
from tests.support.replies import Reply

SLOW = 0.0003
"""Seconds a token, so that times prove something."""

ROOM = 32_768


def alone(url: str) -> Any:
    return config(f"backends: {{ one: {{ url: '{url}' }} }}\nadmin: {{ listen: 127.0.0.1:{free_port()} }}")


PROBED: dict[str, tuple[Any, set[str]]] = {
    "tools behind": (lambda: FakeOllama(Model("tiny", num_ctx=ROOM), parallel=2), {"probe-reuse", "probe-tools-behind"}),
    "tools before": (
        lambda: FakeOllama(Model("tiny", num_ctx=ROOM, tools_first=True), parallel=2),
        {"probe-reuse", "probe-tools-before"},
    ),
    "one slot": (
        lambda: FakeOllama(Model("tiny", num_ctx=ROOM, tools_first=True)),
        {"probe-reuse", "probe-tools-before", "probe-evicted"},
    ),
    "not counted, by time": (
        lambda: FakeLmStudio(LmModel("tiny", context=ROOM), seconds_per_token=SLOW), {"probe-reuse", "probe-uncounted"}
    ),
    "not counted, too quick": (
        lambda: FakeLmStudio(LmModel("tiny", context=ROOM)), {"probe-unclear", "probe-uncounted"}
    ),
    "not reused": (
        lambda: FakeVllm(caching=False, max_model_len=ROOM, seconds_per_token=SLOW), {"probe-no-reuse", "probe-uncounted"}
    ),
    "blocks": (lambda: FakeOmlx("tiny", context=ROOM), {"probe-reuse", "probe-tools-behind"}),
}  # fmt: skip
"""Server, findings."""


@pytest.mark.parametrize("name", PROBED)
async def test_probe(name: str) -> None:
    start, expected = PROBED[name]
    async with start() as fake:
        report = await probe_model(alone(fake.url), "tiny")
        asked = [served for served in fake.served if served.path == CHAT]
    assert names(report.findings) == expected
    assert report.fine is expected.isdisjoint({"probe-no-reuse", "probe-evicted"})
    assert len(asked) == 7
    assert all(served.body["max_tokens"] == 1 for served in asked)


def test_every_finding_of_a_probe_is_seen_somewhere() -> None:
    assert set().union(*(expected for _, expected in PROBED.values())) == {check.name for check in measure.CHECKS}


def measured(*cached: int | None, seconds: float = 1.0, blind: bool = False) -> measure.Measured:
    """cached: of cold, again, back and others; prompts of 1,000 tokens that all took as long."""
    return measure.Measured("tiny", False, blind, *(measure.Asked(seconds, 1000, count, None) for count in cached))


def test_three_states_of_a_count() -> None:
    """Some say nothing where nothing was reused, and some say 0 whatever was."""
    assert measured(None, 990, None, 600).counted, "only told where something was reused"
    assert measured(0, 0, 0, 0).counted
    assert not measured(0, 0, 0, 0, blind=True).counted
    assert not measured(None, None, None, None).counted
    assert measured(0, 0, 0, 0).reused(measured(0, 0, 0, 0).again) is False
    quick = measured(0, 0, 0, 0, blind=True, seconds=0.01)
    assert quick.reused(quick.again) is None
    assert measured(0, 990, 990, 600).rate == 1000


# canary


def last_number(ask: Any) -> str:
    text = str(ask.messages[-1]["content"])
    return text.rpartition("conversation is ")[2].partition(".")[0]


def honest(fake: FakeServer) -> None:
    fake.answer = lambda ask: Reply(text=f"It is {last_number(ask)}.")


def late(fake: FakeServer) -> None:
    """Each answer is the one to the prompt before."""
    told = [""]

    def answer(ask: Any) -> Reply:
        told.append(last_number(ask))
        return Reply(text=f"It is {told[-2]}.")

    fake.answer = answer


def crowded(fake: FakeServer) -> None:
    """Only who asks while others do gets another's number."""
    seen: list[str] = []

    def answer(ask: Any) -> Reply:
        seen.append(last_number(ask))
        at_once = len(seen) > canary.IN_TURN * 2
        return Reply(text=next((number for number in seen if number != seen[-1]), "") if at_once else seen[-1])

    fake.answer = answer


def silent(fake: FakeServer) -> None:
    fake.answer = lambda ask: Reply(text="I would rather not.")


SUNG = {
    "canary-clean": (honest, "8 of 8 answers of tiny:latest show their own number"),
    "canary-crossed": (late, "show another conversation's number"),
    "canary-mute": (silent, "None of 8 answers"),
}


@pytest.mark.parametrize("name", SUNG)
async def test_canary(name: str) -> None:
    behave, told = SUNG[name]
    async with FakeOllama() as fake:
        behave(fake)
        report = await canary_model(alone(fake.url), "tiny")
    (found,) = report.findings
    assert (found.name, report.fine) == (name, name != "canary-crossed")
    assert told in found.seen


async def test_what_crosses_over_only_at_the_same_time() -> None:
    async with FakeOllama() as fake:
        crowded(fake)
        report = await canary_model(alone(fake.url), "tiny")
    (found,) = report.findings
    assert isinstance(found, Finding)
    assert (found.name, report.measured["crossed"]) == ("canary-crossed", 4)
    assert found.seen.endswith("(at once).")


def test_every_finding_of_a_canary_is_seen_somewhere() -> None:
    assert set(SUNG) == {check.name for check in canary.CHECKS}


# who is asked


async def test_a_model_that_nobody_has() -> None:
    async with FakeOllama() as fake:
        with pytest.raises(NoTarget, match=r"No server has the model nobody; there are: tiny:latest\."):
            await probe_model(alone(fake.url), "nobody")
        assert fake.served == []
