"""LM Studio's own APIs through the gateway: what its clients ask for, by the server's names and by the gateway's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests.support import personas
from tests.support.clients import Response, events, fetch
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.lmstudio_instances import LmModel
from tests.support.process import GatewayProcess
from tests.support.scripted import ScriptedUpstream

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": False}


@dataclass(frozen=True, slots=True)
class Stand:
    studio: FakeLmStudio
    other: ScriptedUpstream
    gateway: GatewayProcess

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> Response:
        response = await fetch(self.gateway.url + path, body)
        assert response.status == 200, response.body
        return response

    async def loaded(self) -> dict[str, int]:
        """Instances with their context, as the server tells them."""
        rows = (await fetch(f"{self.studio.url}/api/v1/models")).json()["models"]
        return {found["id"]: found["config"]["context_length"] for row in rows for found in row["loaded_instances"]}


@pytest_asyncio.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    """`coder` is a name of the gateway's for `a`; the server of the other kind comes first in the configuration."""
    async with FakeLmStudio(LmModel("a"), LmModel("b")) as studio, ScriptedUpstream(personas.openai("else")) as other:
        config = {
            "identity": "lmstudio",
            "passthrough": "all",
            "backends": {"other": {"kind": "openai", "url": other.url}, "studio": {"kind": "lmstudio", "url": studio.url}},
            "models": {"coder": {"aliases": ["gpt-*"], "targets": ["studio/a"]}},
        }
        async with GatewayProcess(tmp_path, config) as gateway:
            yield Stand(studio, other, gateway)


async def test_both_lists_have_what_its_own_have_and_the_names_of_the_configuration(stand: Stand) -> None:
    for path, rows, name in (("/api/v1/models", "models", "key"), ("/api/v0/models", "data", "id")):
        own = {row[name]: row for row in (await fetch(stand.studio.url + path)).json()[rows]}
        told = {row[name]: row for row in (await stand.ask(path)).json()[rows]}
        assert {"a", "b", "coder"} == set(told)
        assert told["a"] == own["a"]
        assert told["coder"] == {**own["a"], name: "coder"}
    assert (await stand.ask("/api/v0/models/b")).json()["id"] == "b"


async def test_loading_and_unloading(stand: Stand) -> None:
    told = await stand.ask("/api/v1/models/load", {"model": "coder", "context_length": 9000, "echo_load_config": True})
    assert (told.json()["instance_id"], told.json()["load_config"]["context_length"]) == ("a", 9000)
    assert await stand.loaded() == {"a": 9000}
    await stand.ask("/api/v1/models/load", {"model": "b", "context_length": 4096})
    await stand.ask("/api/v1/models/unload", {"instance_id": "a"})
    assert await stand.loaded() == {"b": 4096}
    assert not [request for request in stand.other.requests if request.method == "POST"]


async def test_time_to_live_and_statistics_of_v0(stand: Stand) -> None:
    told = (await stand.ask("/api/v0/chat/completions", {**CHAT, "model": "gpt-4o", "ttl": 300})).json()
    assert {"tokens_per_second", "time_to_first_token"} <= set(told["stats"])
    assert [found.ttl for found in stand.studio.instances.loaded] == [300]
    metrics = (await fetch(f"{stand.gateway.admin}/metrics")).body.decode()
    assert 'warmgate_prompt_tokens_total{backend="studio",model="coder",report="unknown"}' in metrics


async def test_events_of_v1(stand: Stand) -> None:
    body = {"model": "coder", "input": "hi", "stream": True}
    told = await stand.ask("/api/v1/chat", body)
    kinds = [event["type"] for event in events(told.body)]
    assert (kinds[0], kinds[-1]) == ("chat.start", "chat.end")
    assert told.header("X-Accel-Buffering") == "no"
    assert stand.studio.served[-1].path == "/api/v1/chat"
