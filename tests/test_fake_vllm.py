"""The simulated vLLM does what is known of the real one: blocks, reports, limits, metrics, tokens, sleep."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.blockcache import BlockCache, block_hashes
from tests.support.clients import RawClient, Response, events, fetch, post
from tests.support.fake_vllm import BLOCK, METRICS, FakeVllm
from tests.support.kvcache import common_prefix, tokenize
from tests.support.process import Metrics
from tests.support.replies import Reply

LONG = "You are a careful helper who answers in short sentences. " * 40
CHAT = "/v1/chat/completions"


def chat(user: str = "hi", *, system: str = LONG, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}], **more}


async def ask(vllm: FakeVllm, body: dict[str, Any], path: str = CHAT, status: int = 200) -> Response:
    response = await fetch(vllm.url + path, body)
    assert response.status == status, response.body
    return response


# the cache in blocks

tokens = st.lists(st.sampled_from("ab"), max_size=60)


async def run(cache: BlockCache, prompt: list[str], **more: Any) -> int:
    async with cache.lease(prompt, **more) as work:
        await work.prefill()
        return work.reused


@given(tokens, tokens, st.integers(1, 5))
def test_equal_hashes_are_equal_beginnings(one: list[str], other: list[str], size: int) -> None:
    same = common_prefix(list(block_hashes(one, size)), list(block_hashes(other, size)))  # type: ignore[arg-type]
    assert same == common_prefix(one, other) // size


@given(st.lists(tokens.filter(bool), min_size=1, max_size=6), st.integers(1, 5))
def test_what_was_computed_once_is_reused_in_whole_blocks_but_for_the_last_token(prompts: list[list[str]], size: int) -> None:
    async def go() -> None:
        cache = BlockCache(size)
        for at, prompt in enumerate(prompts):
            before = max((common_prefix(prompt, earlier) for earlier in prompts[:at]), default=0)
            assert await run(cache, prompt) == min(before, len(prompt) - 1) // size * size

    asyncio.run(go())


async def test_the_longest_unused_goes_first_and_the_tail_of_a_prompt_before_its_head() -> None:
    cache = BlockCache(1, blocks=4)
    await run(cache, list("abc"))
    await run(cache, list("xy"))  # no room for y: c goes, the tail of the oldest
    assert len(cache) == 4
    assert await run(cache, list("abcd")) == 2


async def test_what_is_in_use_does_not_go() -> None:
    cache = BlockCache(1, blocks=3)
    async with cache.lease(list("abc")) as work:
        await work.prefill()
        assert await run(cache, list("xyz")) == 0
        assert await run(cache, list("abcd")) == 3
    await run(cache, list("xyz"))
    assert await run(cache, list("abcd")) == 0


async def test_a_cache_that_is_cleared_under_a_request_works_on() -> None:
    cache = BlockCache(1, blocks=3)
    async with cache.lease(list("abc")) as work:
        await work.prefill()
        cache.clear()
    assert len(cache) == 0
    await run(cache, list("xyz"))
    await run(cache, list("abc"))
    assert await run(cache, list("abcd")) == 3


async def test_salts_do_not_share() -> None:
    cache = BlockCache(1)
    await run(cache, list("abc"), salt="one")
    assert await run(cache, list("abc")) == 0
    assert await run(cache, list("abc"), salt="one") == 2


# reuse, seen from outside


async def test_requests_reuse_whole_blocks_of_each_other() -> None:
    async with FakeVllm() as vllm:
        await asyncio.gather(*(ask(vllm, chat(f"question {n}")) for n in range(2)))
        await ask(vllm, chat("question 3"))
        await ask(vllm, chat(system="12:00 " + LONG))
        await ask(vllm, chat(system="12:00 " + LONG, cache_salt="mine"))
    third, moved, salted = vllm.served[2:]
    assert third.reused % BLOCK == 0
    assert third.total - 2 * BLOCK < third.reused < third.total
    assert moved.reused < BLOCK
    assert salted.reused == 0


async def test_a_conversation_goes_on_where_it_was() -> None:
    async with FakeVllm() as vllm:
        vllm.answer = lambda _: Reply("word " * 40)
        said = (await ask(vllm, chat())).json()["choices"][0]["message"]
        body = chat()
        body["messages"] += [said, {"role": "user", "content": "and then?"}]
        await ask(vllm, body)
    one, two = vllm.served
    assert two.reused > one.total


@pytest.mark.parametrize("stream", [False, True])
async def test_the_cached_count_needs_its_flag_and_a_hit(stream: bool) -> None:
    async def told(vllm: FakeVllm) -> list[Any]:
        found = []
        for _ in range(2):
            response = await ask(vllm, chat(stream=stream, stream_options={"include_usage": True} if stream else None))
            last = events(response.body)[-2] if stream else response.json()
            found.append((last["usage"].get("prompt_tokens_details") or {}).get("cached_tokens"))
        return found

    async with FakeVllm() as without, FakeVllm(details=True) as flagged, FakeVllm(details=True, caching=False) as uncached:
        assert await told(without) == [None, None]
        assert await told(flagged) == [None, flagged.served[1].reused]
        assert await told(uncached) == [None, None]
        assert without.served[1].reused == flagged.served[1].reused > 0 == uncached.served[1].reused


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat(max_tokens=0)),
        (CHAT, chat(max_completion_tokens=0)),
        ("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 0}),
        (CHAT, chat("word " * 9000)),
    ],
)
async def test_bad_requests(path: str, body: dict[str, Any]) -> None:
    async with FakeVllm() as vllm:
        assert (await ask(vllm, body, path, 400)).json()["error"]["type"] == "BadRequestError"
    assert vllm.served[0].outcome == "failed"


async def test_one_token_is_the_least() -> None:
    async with FakeVllm() as vllm:
        assert (await ask(vllm, chat(max_completion_tokens=1))).json()["usage"]["completion_tokens"] == 1


async def test_other_names_and_keys_are_refused_under_v1_only() -> None:
    async with FakeVllm(key="k") as vllm:
        await ask(vllm, chat(), status=401)
        assert (await fetch(f"{vllm.url}/v1/models")).status == 401
        assert (await fetch(f"{vllm.url}/metrics")).status == 200
        async with openai.AsyncOpenAI(base_url=f"{vllm.url}/v1", api_key="k", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["tiny"]
            with pytest.raises(openai.NotFoundError):
                await client.chat.completions.create(model="other", messages=[{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
async def test_the_other_apis_share_the_cache(path: str) -> None:
    user = [{"role": "user", "content": "hi"}]
    body = {"model": "tiny", "instructions": LONG, "input": user, "system": LONG, "messages": user, "max_tokens": 9}
    async with FakeVllm() as vllm:
        await ask(vllm, chat())
        assert (await ask(vllm, body, path)).json()["model"] == "tiny"
    assert vllm.served[1].reused > 0.9 * vllm.served[1].total


async def test_parts_of_a_message_are_one_message() -> None:
    async with FakeVllm() as vllm:
        await ask(vllm, {"model": "tiny", "messages": [{"role": "user", "content": "one two three " * 20}]})
        parts = [{"type": "text", "text": "one two three " * 10}] * 2
        await ask(vllm, {"model": "tiny", "messages": [{"role": "user", "content": parts}]})
    one, two = vllm.served
    assert one.total == two.total > two.reused > one.total - 2 * BLOCK


async def test_a_client_that_leaves_leaves_its_blocks() -> None:
    async with FakeVllm(seconds_per_token=0.0001) as vllm:
        body = chat(system=LONG * 4)
        async with RawClient(vllm.url) as client:
            await client.send(post(CHAT, body))
            async with asyncio.timeout(5):
                while len(vllm.cache) < 512 // BLOCK:
                    await asyncio.sleep(0.005)
            client.rst()
        async with asyncio.timeout(2):
            while vllm.served[0].outcome == "running":
                await asyncio.sleep(0.005)
        await ask(vllm, body)
    gone, again = vllm.served
    assert gone.outcome == "cancelled"
    assert 512 <= again.reused < again.total - BLOCK


# beside the answers


async def test_metrics_count_tokens() -> None:
    async with FakeVllm() as vllm:
        await ask(vllm, chat())
        await ask(vllm, chat(max_tokens=2))
        metrics = Metrics.parse((await fetch(f"{vllm.url}/metrics")).body.decode())
    one, two = vllm.served
    labels = {"model_name": "tiny", "engine": "0"}
    found = {name: metrics.value(name, **labels) for name in METRICS}
    assert found["vllm:prefix_cache_queries_total"] == found["vllm:prompt_tokens_total"] == one.total + two.total
    assert found["vllm:prefix_cache_hits_total"] == two.reused > 0
    assert found["vllm:generation_tokens_total"] == vllm.generated > 2
    assert found["vllm:num_requests_running"] == 0
    assert 0 < found["vllm:kv_cache_usage_perc"] < 1


async def test_tokenize_counts_what_a_chat_counts() -> None:
    async with FakeVllm() as vllm:
        await ask(vllm, chat())
        told = (await ask(vllm, chat(), "/tokenize")).json()
        assert told["count"] == len(told["tokens"]) == vllm.served[0].total
        bare = (await ask(vllm, {"model": "tiny", "prompt": LONG}, "/tokenize")).json()
    assert bare["count"] == len(tokenize(LONG))
    assert len(vllm.served) == 1


async def test_sleep_loses_the_cache_and_refuses_requests_until_it_wakes() -> None:
    async with FakeVllm(dev=True) as vllm:
        await ask(vllm, chat())
        await ask(vllm, {}, "/sleep?level=1")
        assert (await fetch(f"{vllm.url}/is_sleeping")).json() == {"is_sleeping": True}
        assert (await fetch(f"{vllm.url}/health")).status == 200
        await ask(vllm, chat(), status=503)
        await ask(vllm, {}, "/wake_up")
        await ask(vllm, chat())
    assert vllm.served[-1].reused == 0


async def test_development_paths_are_not_there_otherwise() -> None:
    async with FakeVllm() as vllm:
        await ask(vllm, {}, "/sleep", 404)
        assert (await fetch(f"{vllm.url}/is_sleeping")).status == 404


async def test_a_restart_and_a_reset_lose_the_cache() -> None:
    async with FakeVllm(dev=True) as vllm:
        for lose in (vllm.restart, lambda: ask(vllm, {}, "/reset_prefix_cache")):
            await ask(vllm, chat())
            await lose()
            await ask(vllm, chat())
            assert vllm.served[-1].reused == 0
            await ask(vllm, chat())
            assert vllm.served[-1].reused > 0
            await vllm.restart()
