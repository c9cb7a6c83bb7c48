"""The doctor at a real llama.cpp server: in each mode of its slots it says what differs, and takes no slot from anyone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.doctor import running
from gateway.doctor.examine import canary_model, probe_model
from gateway.doctor.templates import TOOL
from gateway.engine.gguf import Model
from gateway.engine.server import EngineServer
from gateway.engine.templates import chat_template
from tests.doctor import looking
from tests.doctor.looking import config, named, names
from tests.support.clients import fetch
from tests.support.engine import StartEngine, needs_engine
from tests.support.process import GatewayProcess, free_port

pytestmark = needs_engine

MODES: dict[str, tuple[tuple[str, ...], set[str], str]] = {
    "default": ((), {"llamacpp-slots-emptied", "llamacpp-no-slot-files", "llamacpp-no-metrics"}, "`-np 4`"),
    "-np 2": (("-np", "2", "--metrics"), {"llamacpp-slots-kept", "llamacpp-no-slot-files"}, "Keep `-np`"),
    "-np 1": (("-np", "1", "--metrics"), {"llamacpp-one-slot", "llamacpp-no-slot-files"}, "`-np 2`"),
    "--slot-save-path": (("--slot-save-path", "HERE"), {"llamacpp-slots-emptied", "llamacpp-slot-files"}, "`-np 4`"),
    "-np 2 --slot-save-path": (
        ("-np", "2", "--slot-save-path", "HERE"),
        {"llamacpp-slots-kept", "llamacpp-slot-files"},
        "Keep",
    ),
}
"""Flags, findings, and part of what is to be done about the slots."""

SLOTS = ("slot", "metrics")


@pytest.mark.parametrize("mode", MODES)
async def test_modes(start_engine: StartEngine, tmp_path: Path, mode: str) -> None:
    flags, expected, fix = MODES[mode]
    server = start_engine("-c", "8192", *(str(tmp_path) if flag == "HERE" else flag for flag in flags))
    report = await looking.whole(server.url)
    found = {name for name in names(report.findings) if any(word in name for word in SLOTS)}
    assert found - {"llamacpp-no-metrics"} == expected - {"llamacpp-no-metrics"}
    assert ("llamacpp-no-metrics" in found) is ("--metrics" not in flags)
    assert fix in next(finding.fix for finding in report.findings if "-np" in finding.fix and "slot" in finding.name)
    assert "unanswered" not in names(report.findings)
    assert (report.fine, report.seconds < 5) == (True, True)
    assert not list(tmp_path.glob("*warmgate*")), "nothing is saved"


async def chat(server: EngineServer, text: str, **fields: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1, **fields}
    timings: dict[str, Any] = (await fetch(f"{server.url}/v1/chat/completions", body)).json()["timings"]
    return timings


@pytest.mark.parametrize("flags", [("-np", "2", "--cache-ram", "0"), ("-np", "1", "--cache-ram", "0")], ids=" ".join)
async def test_no_prompt_of_a_user_is_lost(start_engine: StartEngine, flags: tuple[str, ...]) -> None:
    server = start_engine("-c", "8192", *flags)
    await chat(server, "the pond and its ducks " * 50)
    first = await looking.whole(server.url)
    again = await looking.whole(server.url)
    assert names(first.findings) == names(again.findings)
    kept = await chat(server, "the pond and its ducks " * 50)
    assert kept["prompt_n"] <= 8, kept


DATES = {"llamacpp-template-date": "%d %b %Y", "llamacpp-template-clock": "%H:%M:%S"}


@pytest.mark.parametrize("name", DATES)
async def test_a_date_in_the_template(start_engine: StartEngine, name: str) -> None:
    template = "Today is {{ strftime_now('" + DATES[name] + "') }}.\n" + chat_template()
    server = start_engine("-c", "4096", "-np", "1", "--chat-template", template)
    report = await looking.whole(server.url)
    assert {found for found in names(report.findings) if found in DATES} == {name}
    if name == "llamacpp-template-clock":
        assert "gives two texts" in named(report.findings, name).seen
        assert not report.fine


@pytest.mark.parametrize("place", ["first", "last"])
async def test_where_the_tools_stand(start_engine: StartEngine, place: Any) -> None:
    server = start_engine("-c", "16384", "-np", "2", model=Model("tiny", tools=place))
    settings = await looking.whole(server.url)
    probed = await probe_model(alone(server.url), "tiny", direct=True)
    word = "before" if place == "first" else "behind"
    assert f"llamacpp-tools-{word}" in names(settings.findings)
    assert names(probed.findings) == {"probe-reuse", f"probe-tools-{word}"}
    assert probed.measured["counted"] is True
    assert probed.measured["outlasts_another"] is True
    assert probed.measured["prefill_rate"] > 100
    assert TOOL not in str(probed.data())


def alone(url: str, more: str = "") -> Any:
    return config(f"backends: {{ one: {{ url: '{url}' }} }}\nadmin: {{ listen: 127.0.0.1:{free_port()} }}\n{more}")


async def test_one_slot_and_no_cache_behind_it(start_engine: StartEngine) -> None:
    server = start_engine("-c", "8192", "-np", "1", "--cache-ram", "0")
    report = await probe_model(alone(server.url), "tiny", direct=True)
    assert "probe-evicted" in names(report.findings)
    assert not report.fine


async def test_a_sleeping_server_sleeps_on(start_engine: StartEngine) -> None:
    server = start_engine("-c", "4096", "--sleep-idle-seconds", "1")
    async with asyncio.timeout(20):
        while not server.get("/props")["is_sleeping"]:
            await asyncio.sleep(0.1)
    report = await looking.whole(server.url)
    assert "sleeping" in names(report.findings)
    assert server.get("/props")["is_sleeping"]


async def test_the_canary_at_a_real_server(engine: EngineServer) -> None:
    """Random weights repeat nothing, which is told; nothing crosses over."""
    report = await canary_model(alone(engine.url), "tiny", direct=True)
    assert report.measured | {"own": 0} == {"model": "tiny", "answers": 8, "own": 0, "crossed": 0}
    assert names(report.findings) <= {"canary-mute", "canary-clean"}
    assert report.fine


async def test_through_the_gateway(engine: EngineServer, tmp_path: Path) -> None:
    """The gateway knows what was asked, and has neither changed nor learned anything of it."""
    settings = {"backends": {"one": {"url": engine.url}}, "models": {"pond": {"targets": [f"one/{name_of(engine)}"]}}}
    async with GatewayProcess(tmp_path, settings) as gateway:
        given = config(gateway.config_file.read_text())
        began = time.monotonic()
        probed = await probe_model(given, "pond")
        sung = await canary_model(given, "pond")
        whole = await looking.diagnose(given)
        status = (await fetch(f"{gateway.admin}/status")).json()
        remembered = await running.ask(given)
    assert (probed.measured["through_gateway"], probed.measured["reused"], probed.measured["counted"]) == (True, True, True)
    assert (probed.fine, sung.fine, whole.fine) == (True, True, True)
    assert "not-running" not in names(whole.findings)
    assert sum(request["path"] == "/v1/chat/completions" for request in status["recent"]) == 7 + 8
    assert status["canonical"]["ledger"]["rows"] == 0
    assert isinstance(remembered, running.Running)
    assert [asked for asked in remembered.asked if asked.path == "/v1/chat/completions"] == [], "its own are no client's"
    assert time.monotonic() - began < 20


async def test_an_agent_whose_prompts_break(engine: EngineServer, tmp_path: Path) -> None:
    """Its system text begins with another number each time, in prose, which no rule takes out."""
    async with GatewayProcess(tmp_path, {"backends": {"one": {"url": engine.url}}}) as gateway:
        for count in (412, 388, 517, 290, 633):
            system = f"There are {count} reeds around the pond. " + "You look after a pond and its ducks. " * 60
            messages = [{"role": "system", "content": system}, {"role": "user", "content": "How are they?"}]
            asked = {"model": name_of(engine), "messages": messages, "max_tokens": 1}
            await fetch(f"{gateway.url}/v1/chat/completions", asked, ("User-Agent", "pond/1.0"))
        report = await looking.diagnose(config(gateway.config_file.read_text()))
        found = named(report.findings, "prompts-break")
        id = found.fix.partition("explain ")[2].partition("`")[0]
        explained = (await fetch(f"{gateway.admin}/requests/{id}/explain")).json()
    assert found.seen == "pond: 4 of 5 requests lost their prefix (system_changed 4)."
    assert explained["reason"] == "system_changed"
    assert not report.fine


def name_of(engine: EngineServer) -> str:
    return str(engine.get("/v1/models")["data"][0]["id"])
