"""The suite always comes to an end, and says so when it cannot begin."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from gateway.contract import PROBES, Probe, examine, suite
from gateway.contract.base import ok
from gateway.contract.server import Server
from gateway.contract.suite import NotExamined
from tests.contract.bent import Bent, straight
from tests.contract.findings import LONG, finding, named, talkative
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_server import FakeServer
from tests.support.fake_vllm import FakeVllm
from tests.support.process import free_port
from tests.support.replies import Reply
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply, never, raw, rst

CHAT = "/v1/chat/completions"


def probe(name: str = "chat", seconds: float = 0.3) -> Probe:
    async def ask(server: Server) -> Any:
        await server.answer(CHAT, "hi", 1)
        return ok("answered")

    return Probe(name, "", "", ask, seconds=seconds)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((never(),), "no answer in 0.3 s"),
        ((raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nslow"), never()), "no answer in 0.3 s"),
        ((rst(),), "the connection failed"),
        ((raw(b"nonsense\r\n\r\n"), rst()), "the connection failed"),
        (json_reply({"error": {"message": "out of memory"}}), "/v1/chat/completions answers 200"),
        (json_reply({"error": "no such endpoint"}, 404), "/v1/chat/completions answers 404"),
    ],
)
async def test_whatever_the_server_does_there_is_a_finding(steps: Any, told: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, *steps)
        report = await asyncio.wait_for(examine(upstream.url, probes=[probe(), probe("after")]), 5.0)
    assert [row.name for row in report.rows] == ["chat", "after"]
    assert all(detail.startswith(told) for detail in named(report, "differs").values()), named(report, "differs")
    assert len(named(report, "differs")) == 2


async def test_what_cannot_be_read_differs() -> None:
    async def ask(server: Server) -> Any:
        return ok((await server.get("/v1/models")).doc["data"][0]["nothing"])

    async with ScriptedUpstream() as upstream:
        report = await examine(upstream.url, probes=[Probe("odd", "", "", ask)])
    assert named(report, "differs") == {"odd": "the reply could not be read: KeyError: 'nothing'"}


async def test_an_endless_reply_is_cut() -> None:
    async with ScriptedUpstream() as upstream:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        upstream.on(CHAT, raw(head), *[raw(b" " * 2**20)] * 12, never())
        report = await examine(upstream.url, probes=[probe(seconds=10.0)])
    assert finding(report, "chat").detail == "it answers with more than 8 MiB"


async def test_when_the_time_is_used_up_the_rest_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "BUDGET", -1.0)
    async with FakeOllama() as ollama:
        report = await examine(ollama.url)
        assert ollama.served == []
    assert {row.finding.detail for row in report.rows} == {"the time for all probes was used up"}


@pytest.mark.parametrize("fake", [FakeVllm(key="k"), FakeLmStudio(key="k"), FakeOmlx(key="k")])
async def test_a_key_is_asked_for_and_used(fake: FakeServer) -> None:
    async with fake:
        with pytest.raises(NotExamined, match="API key"):
            await examine(fake.url)
        report = await examine(fake.url, key="k", only=["stream-*", "error-*", "models-*"])
    assert (named(report, "differs"), report.fine) == ({}, True)


async def test_where_there_is_nothing_to_examine() -> None:
    with pytest.raises(NotExamined, match=r"cannot be reached\. http://\*\*\*: connection refused"):
        await examine(f"http://127.0.0.1:{free_port()}")
    async with FakeOmlx() as omlx:
        omlx.ready = False
        with pytest.raises(NotExamined, match="still loading"):
            await examine(omlx.url)
    async with FakeOllama() as ollama:
        ollama.models.clear()
        with pytest.raises(NotExamined, match="lists no model"):
            await examine(ollama.url)


async def test_probes_that_change_things_run_on_request_only() -> None:
    mutating = {probe.name for probe in PROBES if probe.mutating}
    assert mutating == {"slots-restore", *(f"residency-{kind}" for kind in ("ollama", "lmstudio", "omlx", "vllm"))}
    async with FakeOmlx() as omlx:
        names = [{row.name for row in (await examine(omlx.url, **how)).rows} for how in ({}, {"only": ["resid*", "kind"]})]
        assert [found & mutating for found in names] == [set(), set()]
        assert [row.name for row in (await examine(omlx.url, only=["residency-omlx"])).rows] == ["residency-omlx"]


@pytest.mark.parametrize("fake", [FakeVllm(), FakeOllama(), FakeOmlx()])
async def test_a_server_of_which_nothing_is_known(fake: FakeServer) -> None:
    """As a plain OpenAI-shaped one, each differs in nothing but that it is known."""
    async with talkative(fake):
        report = await examine(fake.url, kind="openai")
    assert set(named(report, "differs")) == {"kind"}
    assert len(named(report, "ok")) > 15


# a client that leaves


class Deaf(FakeServer):
    """Mixed in: finishes what it has begun, whether or not anybody is there."""

    async def respond(self, request: web.Request) -> web.StreamResponse:
        return await asyncio.shield(super().respond(request))  # type: ignore[misc]

    async def write_one(self, response: web.StreamResponse, event: bytes) -> None:
        try:
            await response.write(event)
        except ConnectionError:
            pass
        await asyncio.sleep(self.gap)


class DeafOllama(Deaf, FakeOllama):
    pass


class DeafVllm(Deaf, FakeVllm):
    pass


async def leave(fake: FakeServer) -> Any:
    async with fake:
        fake.answer = lambda ask: Reply(text=LONG)
        return finding(await examine(fake.url, only=["leave-stream"]), "leave-stream")


async def test_a_server_that_does_not_notice_differs() -> None:
    found = await leave(DeafOllama(gap=0.012))
    assert found.result == "differs"
    assert found.measured["seconds"] > 2.0
    assert (await leave(FakeOllama(gap=0.012))).result == "ok"


async def test_vllm_tells_what_is_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.contract.limits.GRACE", 0.1)

    found = await leave(DeafVllm(gap=0.012))
    assert (found.result, found.detail.endswith("still being worked on")) == ("differs", True)
    assert "nothing was left running" in (await leave(FakeVllm(gap=0.012))).detail


async def test_an_answer_that_is_over_proves_nothing() -> None:
    async with FakeOllama() as ollama, Bent(ollama.url, "", straight) as whole:
        found = finding(await examine(whole.url, only=["leave-stream"]), "leave-stream")
    assert (found.result, found.detail) == ("skipped", "the answer was over before it could be left")
