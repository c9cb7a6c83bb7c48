"""The simulated oMLX does what is known of the real one: models in and out of memory, blocks, disk, reports, signs of life."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest

from tests.support.clients import RawClient, Response, events, fetch, post
from tests.support.clock import ManualClock
from tests.support.fake_omlx import BLOCK, FakeOmlx
from tests.support.replies import Reply

LONG = "You are a careful helper who answers in short sentences. " * 60
CHAT = "/v1/chat/completions"


def chat(user: str = "hi", *, model: str = "tiny", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "system", "content": LONG}, {"role": "user", "content": user}], **more}


async def ask(omlx: FakeOmlx, body: dict[str, Any], path: str = CHAT, status: int = 200) -> Response:
    response = await fetch(omlx.url + path, body)
    assert response.status == status, response.body
    return response


async def loaded(omlx: FakeOmlx) -> list[str]:
    rows = (await fetch(f"{omlx.url}/v1/models/status")).json()["models"]
    return [row["id"] for row in rows if row["loaded"]]


# reuse


async def test_reuse_is_in_blocks_of_256_and_told() -> None:
    async with FakeOmlx() as omlx:
        usage = [(await ask(omlx, chat(f"question {n}"))).json()["usage"] for n in range(2)]
    one, two = omlx.served
    assert (one.reused, two.reused % BLOCK) == (0, 0)
    assert two.total - 2 * BLOCK < two.reused
    assert [counts["prompt_tokens_details"]["cached_tokens"] for counts in usage] == [0, two.reused]
    assert usage[1]["prompt_tokens"] == two.total


async def test_a_stream_counts_only_if_asked() -> None:
    async with FakeOmlx() as omlx:
        omlx.answer = lambda _: Reply(reasoning="Well.")
        plain = events((await ask(omlx, chat(stream=True))).body)[:-1]
        asked = events((await ask(omlx, chat(stream=True, stream_options={"include_usage": True}))).body)[:-1]
    assert not any("usage" in event for event in plain)
    assert asked[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == omlx.served[1].reused > 0
    assert any("reasoning_content" in choice["delta"] for event in asked for choice in event["choices"])


async def test_what_was_just_computed_is_found_a_little_later() -> None:
    async with FakeOmlx(settle=0.2) as omlx:
        await asyncio.gather(ask(omlx, chat("one")), ask(omlx, chat("two")))
        await ask(omlx, chat("three"))
        await asyncio.sleep(0.25)
        await ask(omlx, chat("four"))
    assert [served.reused > 0 for served in omlx.served] == [False, False, False, True]


@pytest.mark.parametrize(("version", "tells"), [("0.5.3", False), ("0.5.4", True)])
async def test_anthropics_usage_tells_it_since_0_5_4(version: str, tells: bool) -> None:
    async with FakeOmlx(version=version) as omlx:
        await ask(omlx, chat())
        async with anthropic.AsyncAnthropic(base_url=omlx.url, api_key="none", max_retries=0) as client:
            message = await client.messages.create(
                model="tiny", max_tokens=9, system=LONG, messages=[{"role": "user", "content": "hi"}]
            )
    again = omlx.served[1]
    assert again.reused > 0
    assert message.usage.cache_read_input_tokens == (again.reused if tells else None)


@pytest.mark.parametrize(("ssd", "kept"), [(False, False), (True, True)])
async def test_what_is_on_disk_survives_unloading_and_restarts(ssd: bool, kept: bool) -> None:
    async with FakeOmlx(ssd=ssd) as omlx:
        await ask(omlx, chat())
        await ask(omlx, {}, "/v1/models/tiny/unload")
        await ask(omlx, chat())
        await omlx.restart()
        assert await loaded(omlx) == []
        await ask(omlx, chat())
    assert [served.reused > 0 for served in omlx.served] == [False, kept, kept]


async def test_models_do_not_share_their_caches() -> None:
    async with FakeOmlx("a", "b") as omlx:
        await ask(omlx, chat(model="a"))
        await ask(omlx, chat(model="b"))
    assert omlx.served[1].reused == 0


# residency


async def test_load_status_and_unload() -> None:
    async with FakeOmlx("org/a", "b", too_large=["b"]) as omlx:
        assert (await ask(omlx, {}, "/v1/models/org/a/load")).json()["message"] == "Loaded org/a"
        assert (await ask(omlx, {}, "/v1/models/org/a/load")).json()["message"] == "Already loaded: org/a"
        assert await loaded(omlx) == omlx.loads == ["org/a"]
        await ask(omlx, {}, "/v1/models/zz/load", 404)
        await ask(omlx, {}, "/v1/models/b/load", 507)
        await ask(omlx, {}, "/v1/models/b/unload", 400)
        await ask(omlx, {}, "/v1/models/zz/unload", 404)
        await ask(omlx, {}, "/v1/models/org/a/unload")
        assert await loaded(omlx) == []
        health = (await fetch(f"{omlx.url}/health")).json()
    assert (health["status"], health["engine_pool"]["loaded_count"]) == ("healthy", 0)


async def test_the_longest_unused_model_goes_unless_it_is_pinned() -> None:
    clock = ManualClock()
    async with FakeOmlx("a", "b", "c", "d", pinned=["a"], clock=clock) as omlx:
        for name in "abcd":
            await ask(omlx, chat(model=name))
            clock.advance(1)
        assert await loaded(omlx) == ["a", "d"]
    assert omlx.unloads == ["b", "c"]


async def test_without_room_a_load_fails() -> None:
    async with FakeOmlx("a", "b", "c", pinned=["a", "b"]) as omlx:
        for name in "ab":
            await ask(omlx, chat(model=name))
        assert b"Insufficient memory" in (await ask(omlx, chat(model="c"), status=507)).body


async def test_time_to_live_starts_again_with_each_request() -> None:
    clock = ManualClock()
    async with FakeOmlx("a", "b", pinned=["b"], ttl=60, clock=clock) as omlx:
        for name in "ab":
            await ask(omlx, chat(model=name))
        for _ in range(2):
            clock.advance(59)
            assert await loaded(omlx) == ["a", "b"]
            await ask(omlx, chat(model="a"))
        clock.advance(60)
        assert await loaded(omlx) == ["b"]
        await ask(omlx, chat(model="a"))
    assert omlx.served[-1].reused == 0


# the rest


async def test_it_is_loading_while_pinned_models_are() -> None:
    async with FakeOmlx() as omlx:
        omlx.ready = False
        response = await fetch(f"{omlx.url}/health")
    assert (response.status, response.json()["status"]) == (503, "loading")


async def test_a_key_is_asked_for_everywhere_but_on_health() -> None:
    async with FakeOmlx(key="k") as omlx:
        assert (await fetch(f"{omlx.url}/health")).status == 200
        for path in ("/v1/models", "/v1/models/status"):
            assert (await fetch(omlx.url + path)).status == 401
        await ask(omlx, chat(), status=401)
        async with RawClient(omlx.url) as client:
            await client.send(post(CHAT, chat(), ("Authorization", "Bearer k")))
            assert (await client.response()).status == 200


@pytest.mark.parametrize(("path", "kind"), [(CHAT, None), ("/v1/messages", "error")])
async def test_errors_have_the_shape_of_the_api(path: str, kind: str | None) -> None:
    async with FakeOmlx(context=50) as omlx:
        body = (await ask(omlx, chat(max_tokens=9), path, 400)).json()
        assert (body.get("type"), body["error"]["type"]) == (kind, "invalid_request_error")
        await ask(omlx, chat(model="zz"), path, 404)
    assert [served.outcome for served in omlx.served] == ["failed", "failed"]


@pytest.mark.parametrize("stream", [False, True])
async def test_signs_of_life_during_a_prefill(stream: bool) -> None:
    async with FakeOmlx(keepalive=0.02, seconds_per_token=0.0002) as omlx:
        body = (await ask(omlx, chat(stream=stream))).body
        assert body.startswith(b": keep-alive\n\n" if stream else b" ")
        said = "".join(event["choices"][0]["delta"].get("content") or "" for event in events(body)[:-1]) if stream else ""
    assert said == (Reply().text if stream else "")
    assert stream or body.lstrip().startswith(b"{")


async def test_a_client_that_leaves_during_a_prefill_ends_it() -> None:
    async with FakeOmlx(keepalive=0.01, seconds_per_token=0.0005) as omlx:  # 512 tokens at a time: 0.26 s
        async with RawClient(omlx.url) as client:
            await client.send(post(CHAT, chat(stream=True)))
            await client.response()
            client.rst()
        async with asyncio.timeout(2):
            while omlx.served[0].outcome == "running":
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.4)
        assert len(omlx.caches["tiny"]) == 0
    assert omlx.served[0].outcome == "cancelled"
