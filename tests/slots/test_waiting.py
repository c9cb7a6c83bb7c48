"""Requests that are better sent a little later: reported troubles D07 (a model that would push out one at work) and E13 (a
prefix that is not published yet), and others of their kinds, on simulated servers behind the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.slots.players import CHAT, DIALECTS, MODEL, Dialect, Player
from tests.slots.scenes import Agent, Turn, at_once
from tests.slots.stand import RATE
from tests.support.clients import Piece, RawClient, fetch, post
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.fake_omlx import FakeOmlx
from tests.support.fake_server import FakeServer
from tests.support.fake_vllm import FakeVllm
from tests.support.lmstudio_instances import LmModel
from tests.support.ollama_asks import Ask
from tests.support.process import GatewayProcess
from tests.support.replies import Reply

STORY = "Tell a story."
BEAT = 0.25
GAP = 0.1
"""Seconds between two beats of the gateway, and between two events of a simulated answer."""


@dataclass(slots=True)
class Heard:
    """A streamed answer as its client saw it. began, first, ended: monotonic seconds; beats: events before its first word."""

    status: int = 0
    body: bytes = b""
    began: float = 0.0
    first: float = 0.0
    ended: float = 0.0
    beats: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)


async def listen(url: str, dialect: Dialect, model: str, words: str, heard: Heard) -> Heard:
    talk = Player(url, dialect).talk(Turn(Agent("pelle", 400), answer=64))
    body = {**dialect.body(talk), "model": model}
    body["messages"][-1] = {"role": "user", "content": words}
    heard.began = asyncio.get_running_loop().time()
    async with asyncio.timeout(30), RawClient(url) as client:
        await client.send(post(dialect.path, body))
        response = await client.response()
        heard.status = response.status
        async for piece in response.pieces():
            _note(heard, piece)
        heard.body, heard.ended = response.body, response.arrived[-1].at
        assert response.complete
    return heard


def _note(heard: Heard, piece: Piece) -> None:
    if heard.first:
        return
    if b"word" in piece.data:
        heard.first = piece.at
        heard.started.set()
    else:
        heard.beats += 1


def tell(ask: Ask) -> Reply:
    """A story of some seconds, or one word."""
    last = (ask.messages or [{}])[-1].get("content")
    return Reply(text="word " * (20 if last == STORY else 1), completion=20)


@asynccontextmanager
async def behind(directory: Path, kind: str, server: FakeServer, **keys: Any) -> AsyncIterator[GatewayProcess]:
    config = {
        "backends": {"local": {"kind": kind, "url": server.url, "prefill_rate": RATE, **keys}},
        "heartbeat": {"before_headers": f"{BEAT}s", "after_headers": f"{BEAT}s"},
    }
    async with GatewayProcess(directory, config) as gateway:
        yield gateway


# D07: a model that would push out one at work


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_d07_another_model_waits_until_the_stream_has_ended(dialect: Dialect, tmp_path: Path) -> None:
    async with FakeLmStudio(LmModel("local-a"), LmModel("local-b"), gap=GAP) as studio:
        studio.answer = tell
        async with behind(tmp_path, "lmstudio", studio) as gateway:
            story, other = Heard(), Heard()
            telling = asyncio.create_task(listen(gateway.url, dialect, "local-a", STORY, story))
            await story.started.wait()
            await asyncio.gather(telling, listen(gateway.url, dialect, "local-b", "hi", other))
            metrics = await gateway.metrics()
    assert [served.outcome for served in studio.served] == ["done", "done"], story.body
    assert story.body.count(b"word") == 20
    assert studio.served[1].at >= story.ended - GAP
    assert other.first - other.began > 1.0, "the story was over too soon for this test"
    assert other.beats >= 2
    assert metrics.value("warmgate_queue_seconds_sum", backend="local") > 1.0


async def test_d07_several_who_wait_for_the_other_model_go_together(tmp_path: Path) -> None:
    async with FakeLmStudio(LmModel("local-a"), LmModel("local-b"), gap=GAP) as studio:
        studio.answer = tell
        async with behind(tmp_path, "lmstudio", studio) as gateway:
            story, others = Heard(), [Heard() for _ in range(3)]
            telling = asyncio.create_task(listen(gateway.url, CHAT, "local-a", STORY, story))
            await story.started.wait()
            await asyncio.gather(
                telling, *(listen(gateway.url, CHAT, "local-b", f"hi {n}", one) for n, one in enumerate(others))
            )
    assert {served.outcome for served in studio.served} == {"done"}
    assert [why for _, why in studio.instances.unloads] == ["evicted"]


async def test_d07_two_models_that_are_loaded_answer_at_the_same_time(tmp_path: Path) -> None:
    async with FakeLmStudio(LmModel("local-a"), LmModel("local-b"), gap=GAP) as studio:
        studio.answer = tell
        for name in ("local-a", "local-b"):
            await fetch(f"{studio.url}/api/v1/models/load", {"model": name})
        async with behind(tmp_path, "lmstudio", studio) as gateway:
            story, other = Heard(), Heard()
            telling = asyncio.create_task(listen(gateway.url, CHAT, "local-a", STORY, story))
            await story.started.wait()
            await listen(gateway.url, CHAT, "local-b", "hi", other)
            assert not telling.done()
            await telling


# E13: a prefix that is not published yet


async def test_e13_two_at_once_share_what_is_published_late(tmp_path: Path) -> None:
    async with FakeOmlx(MODEL, settle=0.2, seconds_per_token=0.0002) as omlx, behind(tmp_path, "omlx", omlx) as gateway:
        played = await Player(gateway.url, CHAT).play(at_once("cy", agents=2, head=1500))
    _first, second = omlx.served
    assert second.reused > 0.8 * second.total, omlx.served
    assert second.at >= min(got.first for got in played.answers) - 0.05 + 0.2


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_e13_one_right_after_the_other_waits_for_it(dialect: Dialect, tmp_path: Path) -> None:
    async with FakeOmlx(MODEL, settle=0.2, seconds_per_token=0.0002) as omlx, behind(tmp_path, "omlx", omlx) as gateway:
        first, second = (Player(gateway.url, dialect) for _ in range(2))
        (one,) = at_once("cy", agents=1, head=1500)
        await first.play([one])
        await asyncio.sleep(0.05)
        await second.play([one])
    assert omlx.served[1].reused > 0.8 * omlx.served[1].total, omlx.served


async def test_e13_four_at_once_on_a_server_that_shares_while_it_reads(tmp_path: Path) -> None:
    async with FakeVllm(MODEL, seconds_per_token=0.0002) as vllm, behind(tmp_path, "vllm", vllm) as gateway:
        await Player(gateway.url, CHAT).play(at_once("cy", head=1500))
    total = sum(served.total for served in vllm.served)
    assert sum(served.evaluated for served in vllm.served) < 1.35 * total / 4, vllm.served
