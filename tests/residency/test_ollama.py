"""Ollama: how long a model stays, with which options it is loaded, and who may unload it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.events import KeepAliveOverridden, ModelLoaded, ModelUnloaded
from tests.residency.house import MONDAY, House, house
from tests.support.clients import fetch
from tests.support.clock import ManualClock
from tests.support.fake_ollama import FakeOllama
from tests.support.ollama_runners import Model

HOUR = 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MONDAY + 9 * HOUR)


@pytest.fixture
def ollama(clock: ManualClock) -> FakeOllama:
    return FakeOllama(Model("local-a"), Model("local-b"), Model("local-c"), clock=clock)


async def open_house(clock: ManualClock, ollama: FakeOllama, **keep: Any) -> Any:
    return house(clock, {"box": ("ollama", ollama)}, {"local-a": {"targets": ["box/local-a"], "keep": keep}} if keep else {})


@pytest_asyncio.fixture
async def kept(clock: ManualClock, ollama: FakeOllama) -> AsyncIterator[House]:
    """local-a is kept for two hours after each request."""
    async with await open_house(clock, ollama, keep_alive="2h") as found:
        await found.look()
        yield found


def left(ollama: FakeOllama, model: str = "local-a") -> float | None:
    """Seconds until the model goes; None if it is not there."""
    runners = {runner.model.name: runner for runner in ollama.runners.loaded}
    return runners[model].expires - ollama.clock.wall() if model in runners else None


def empties(ollama: FakeOllama) -> list[dict[str, Any]]:
    """Requests that only load or renew."""
    return [dict(one.body) for one in ollama.served if one.path == "/api/generate" and not one.body.get("prompt")]


# D01: keep_alive in an OpenAI-style request is accepted and ignored


async def test_what_v1_cannot_say_is_said_by_a_native_call_right_after(kept: House, ollama: FakeOllama) -> None:
    await kept.chat("local-a", keep_alive="2h")
    assert left(ollama) == 300.0
    await kept.step(0.5)
    [ping] = empties(ollama)
    assert ping == {"model": "local-a:latest", "keep_alive": 7200}
    await kept.chat("local-a")
    await kept.step(301)
    assert len(empties(ollama)) == 1, "it stays so for what comes after"
    assert left(ollama) == 7200.0 - 301


async def test_the_keeper_itself_pings_within_a_second(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, keep_alive="2h") as found:
        await found.look()
        found.app.supervisor.start("residency", found.app.keeper.run)
        await found.chat("local-a")
        await found.look()
        for _ in range(50):
            if empties(ollama):
                break
            await asyncio.sleep(0.02)
        assert left(ollama) == 7200.0


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/completions", "/v1/responses"])
async def test_the_same_on_every_path_that_cannot_say_it(kept: House, ollama: FakeOllama, path: str) -> None:
    talk = [{"role": "user", "content": "hi"}]
    bodies: dict[str, dict[str, Any]] = {
        "/v1/messages": {"max_tokens": 8, "messages": talk},
        "/v1/completions": {"prompt": "hi"},
        "/v1/responses": {"input": "hi"},
    }
    await kept.ask(path, {"model": "local-a", **bodies[path]})
    await kept.step()
    assert left(ollama) == 7200.0


# D03: a client library always sends keep_alive 5m, or 0


@pytest.mark.parametrize("asked", [0, "5m", "0s", 60, 0.5])
async def test_a_shorter_keep_alive_is_raised_to_the_floor(kept: House, ollama: FakeOllama, asked: Any) -> None:
    await kept.chat("local-a", path="/api/chat", keep_alive=asked)
    assert ollama.served[-1].body["keep_alive"] == 7200
    assert left(ollama) == 7200.0
    assert len(kept.events(KeepAliveOverridden)) == 1
    assert await kept.step(1) == []


async def test_generate_and_embed_too(kept: House, ollama: FakeOllama) -> None:
    await kept.ask("/api/generate", {"model": "local-a", "prompt": "hi", "stream": False, "keep_alive": 0})
    assert left(ollama) == 7200.0
    await kept.ask("/api/embed", {"model": "local-a", "input": "gear", "keep_alive": "5m"})
    assert left(ollama) == 7200.0
    assert len(kept.events(KeepAliveOverridden)) == 2


@pytest.mark.parametrize(("asked", "seconds"), [("3h", 10800.0), (-1, math.inf)])
async def test_a_longer_one_is_the_clients(kept: House, ollama: FakeOllama, asked: Any, seconds: float) -> None:
    await kept.chat("local-a", path="/api/chat", keep_alive=asked)
    assert ollama.served[-1].body["keep_alive"] == asked
    assert await kept.step(1) == []
    assert kept.events(KeepAliveOverridden) == []


async def test_one_that_the_server_refuses_is_left_for_it_to_refuse(kept: House, ollama: FakeOllama) -> None:
    body = {"model": "local-a", "messages": [{"role": "user", "content": "hi"}], "keep_alive": "300"}
    response = await fetch(kept.url + "/api/chat", body)
    assert response.status == 400


async def test_a_pin_of_somebody_else_is_not_fought(kept: House, ollama: FakeOllama) -> None:
    await fetch(ollama.url + "/api/generate", {"model": "local-a", "keep_alive": -1})
    await kept.look()
    await kept.chat("local-a", path="/api/chat")
    await kept.chat("local-a")
    assert await kept.through(4 * HOUR) == []
    assert (left(ollama) or 0) > 10**9


async def test_a_model_without_a_policy_is_left_alone(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama) as found:
        await found.look()
        await found.chat("local-b", path="/api/chat", keep_alive=0)
        assert left(ollama, "local-b") is None
        assert ollama.served[-1].body["keep_alive"] == 0
        await found.chat("local-b", path="/api/chat")
        assert "keep_alive" not in ollama.served[-1].body


# D05: clients with and without options take turns


async def test_options_of_the_loaded_model_are_the_same_for_all_native_clients(kept: House, ollama: FakeOllama) -> None:
    for _ in range(3):
        await kept.chat("local-a", path="/api/chat", options={"num_ctx": 32000, "use_mlock": True, "top_p": 0.9})
        await kept.chat("local-a", path="/api/chat")
        await kept.ask("/api/embed", {"model": "local-a", "input": "gear"})
        await kept.ask("/api/generate", {"model": "local-a", "prompt": "hi", "stream": False, "options": {"num_ctx": 8192}})
        await kept.step(30)
    loads = [why for name, why in ollama.runners.loads]
    assert loads == ["load"]
    for one in ollama.served:
        assert one.body["options"]["num_ctx"] == 32000
        assert one.body["options"]["use_mlock"] is True
    assert "top_p" not in ollama.served[1].body["options"]


async def test_a_client_with_a_larger_context_costs_one_reload(kept: House, ollama: FakeOllama) -> None:
    for _ in range(3):
        for options in ({"num_ctx": 4096}, {}, {"num_ctx": 16384, "num_gpu": 20}):
            await kept.chat("local-a", path="/api/chat", options=options)
    assert [why for _, why in ollama.runners.loads] == ["load", "reload"]


async def test_a_ping_carries_the_options_of_the_traffic(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True, keep_alive="30m") as found:
        await found.step()
        await found.chat("local-a", path="/api/chat", options={"num_ctx": 16384})
        await found.through(3 * HOUR)
        assert [why for _, why in ollama.runners.loads] == ["load", "reload"]
        assert empties(ollama)[-1]["options"] == {"num_ctx": 16384}


async def test_the_policys_context_is_the_least(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True, num_ctx=65536) as found:
        await found.step()
        await found.chat("local-a", path="/api/chat", options={"num_ctx": 4096})
        await found.chat("local-a", path="/api/chat")
        assert [runner.num_ctx for runner in ollama.runners.loaded] == [65536]
        assert [why for _, why in ollama.runners.loads] == ["load"]


async def test_where_v1_shares_the_model_nothing_is_rewritten(kept: House, ollama: FakeOllama) -> None:
    await kept.chat("local-a")
    await kept.chat("local-a", path="/api/chat", options={"num_ctx": 16384})
    await kept.step()
    await kept.chat("local-a", path="/api/chat")
    assert "options" not in ollama.served[-1].body


# D02 and siblings: unloading is respected


async def test_ollama_stop_through_the_gateway_is_respected(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.step()
        assert left(ollama) == 1800.0
        await found.ask("/api/generate", {"model": "local-a", "keep_alive": 0})
        assert left(ollama) is None
        assert await found.through(2 * HOUR) == []
        assert left(ollama) is None
        await found.chat("local-a", path="/api/chat")
        await found.through(2 * HOUR)
        assert left(ollama) is not None, "somebody used it, so it is kept again"
        assert [one.cause for one in found.events(ModelUnloaded)] == ["client"]


async def test_ollama_stop_past_the_gateway_is_respected(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.step()
        await fetch(ollama.url + "/api/generate", {"model": "local-a", "keep_alive": 0})
        assert await found.through(2 * HOUR) == []
        assert left(ollama) is None
        assert [one.cause for one in found.events(ModelUnloaded)] == ["client"]


async def test_a_server_that_was_restarted_is_loaded_again(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.step()
        await ollama.stop()
        await found.step(30)
        ollama.forget()
        await ollama.start()
        await found.step(30)
        assert left(ollama) == 1800.0
        assert [one.cause for one in found.events(ModelLoaded)][-1] == "keep"


# residency


async def test_a_resident_model_is_loaded_and_stays(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True, keep_alive="30m") as found:
        await found.through(5 * HOUR)
        assert ollama.runners.loads == [("local-a", "load")]
        assert ollama.runners.unloads == []
        assert len(empties(ollama)) < 5 * HOUR / (15 * 60)


async def test_two_kept_models_do_not_push_each_other_out(clock: ManualClock) -> None:
    ollama = FakeOllama(Model("local-a"), Model("local-b"), clock=clock, max_loaded=1)
    models = {name: {"targets": [f"box/{name}"], "keep": {"resident": True}} for name in ("local-a", "local-b")}
    async with house(clock, {"box": ("ollama", ollama)}, models) as found:
        await found.look()
        for _ in range(60):
            await found.chat("local-a", path="/api/chat")
            await found.step(60)
        assert ollama.runners.loads == [("local-a", "load")], "one in use is never pushed out"
        rows = {row["model"]: row for row in found.gateway.residency.rows()}
        assert rows["local-b:latest"]["waits_for"] == "local-a:latest"


async def test_a_model_that_does_not_exist_is_tried_less_and_less_often(clock: ManualClock, ollama: FakeOllama) -> None:
    models = {"ghost": {"targets": ["box/local-a"], "keep": {"resident": True}}}
    async with house(clock, {"box": ("ollama", ollama)}, models) as found:
        await found.look()
        ollama.models.pop("local-a:latest")
        done = [*await found.app.keeper.step()]
        for _ in range(60):
            clock.advance(60)
            done += await found.app.keeper.step()
        assert 2 <= len(done) <= 9
        row = next(row for row in found.gateway.residency.rows() if row["keep"] == "ghost")
        assert "404" in row["problem"]


# warmgate release


async def test_a_release_unloads_now_and_holds_until_the_model_is_used(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.step()
        told = await fetch(f"{found.admin}/release/local-a", {})
        assert told.json() == {"status": "released", "model": "local-a", "unloaded": ["box/local-a:latest"]}
        assert left(ollama) is None
        assert await found.through(2 * HOUR) == []
        assert [one.cause for one in found.events(ModelUnloaded)] == ["release"]
        await found.chat("local-a", path="/api/chat")
        await found.through(HOUR)
        assert left(ollama) is not None


async def test_a_release_for_a_time_outlasts_requests(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.step()
        assert (await fetch(f"{found.admin}/release/local-a?for=2h", {})).status == 200
        await found.chat("local-a", path="/api/chat", keep_alive="1m")
        assert left(ollama) == 60.0, "the client's own word counts meanwhile"
        assert await found.through(HOUR) == []
        assert left(ollama) is None
        await found.through(1.5 * HOUR)
        assert left(ollama) is not None


@pytest.mark.parametrize(
    ("path", "status", "word"), [("nobody", 404, "local-a"), ("local-a?for=soon", 400, "30s"), ("local-b", 200, "released")]
)
async def test_what_can_be_released(clock: ManualClock, ollama: FakeOllama, path: str, status: int, word: str) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.look()
        told = await fetch(f"{found.admin}/release/{path}", {})
        assert (told.status, word in told.body.decode()) == (status, True)


async def test_a_server_that_refuses_to_unload_is_told(clock: ManualClock, ollama: FakeOllama) -> None:
    async with await open_house(clock, ollama, resident=True) as found:
        await found.step()
        ollama.models.pop("local-a:latest")
        told = await fetch(f"{found.admin}/release/local-a", {})
        assert (told.status, "404" in told.body.decode()) == (502, True)
