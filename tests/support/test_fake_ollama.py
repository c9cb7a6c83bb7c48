"""The simulated Ollama does what is known of the real one: reuse, residency, reloads, cutting, errors, reports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clients import RawClient, Response, events, fetch, lines, post
from tests.support.clock import ManualClock
from tests.support.fake_ollama import FakeOllama
from tests.support.kvcache import KVCache, common_prefix, tokenize
from tests.support.ollama_asks import keep_alive_seconds
from tests.support.ollama_runners import FOREVER, Model, OllamaError
from tests.support.replies import Reply, ToolCall

LONG = "You are a careful helper who answers in short sentences. " * 40


def chat(user: str = "hi", *, system: str = LONG, model: str = "tiny", **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"model": model, "messages": messages, "stream": False, **more}


async def ask(ollama: FakeOllama, body: dict[str, Any], path: str = "/api/chat") -> Response:
    response = await fetch(ollama.url + path, body)
    assert response.status == 200, response.body
    return response


async def ps(ollama: FakeOllama) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await fetch(f"{ollama.url}/api/ps")).json()["models"]
    return rows


def reloads(ollama: FakeOllama) -> int:
    return sum(why == "reload" for _, why in ollama.runners.loads)


# tokens and slots


@given(st.text())
def test_tokens_join_to_the_text(text: str) -> None:
    assert "".join(tokenize(text)) == text
    assert all(1 <= len(token) <= 4 for token in tokenize(text))


@given(st.lists(st.sampled_from("ab")), st.lists(st.sampled_from("ab")))
def test_the_common_prefix_is_common_and_no_longer(one: list[str], other: list[str]) -> None:
    shared = common_prefix(one, other)
    assert one[:shared] == other[:shared]
    assert one[shared : shared + 1] != other[shared : shared + 1] or shared in (len(one), len(other))


async def run(cache: KVCache, text: str) -> tuple[int, int, int]:
    """(slot, reused, total) of one prompt."""
    async with cache.lease(tokenize(text)) as lease:
        await lease.prefill()
        return lease.slot.number, lease.reused, len(lease.prompt)


async def test_slots_are_chosen_by_prefix_and_then_by_age() -> None:
    cache = KVCache(2)
    one, two, three = ("alpha " * 50, "bravo " * 50, "candy " * 50)
    slot_one, _, total = await run(cache, one)
    slot_two, reused, _ = await run(cache, two)
    assert (slot_one != slot_two, reused) == (True, 0)
    assert await run(cache, one) == (slot_one, total - 1, total)
    assert await run(cache, three) == (slot_two, 0, total)  # the least recently used one
    assert (await run(cache, two))[:2] == (slot_one, 0)


async def test_a_short_common_prefix_does_not_choose_a_slot() -> None:
    cache = KVCache(2)
    await run(cache, "Hello " + "alpha " * 50)
    assert (await run(cache, "Hello " + "bravo " * 50))[:2] == (1, 0)


async def test_a_full_cache_waits_for_a_slot() -> None:
    cache = KVCache(1)
    async with cache.lease(["a"]):
        waiting = asyncio.create_task(run(cache, "b"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
    assert await waiting == (0, 0, 1)


# reuse, seen from outside


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
async def test_the_same_prompt_again_is_reused_but_for_one_token(path: str) -> None:
    async with FakeOllama() as ollama:
        await ask(ollama, chat(), path)
        await ask(ollama, chat(), path)
        first, second = ollama.served
    assert (first.reused, second.reused) == (0, second.total - 1)
    assert first.total == second.total > 400


async def test_where_a_prompt_changes_decides_what_is_reused() -> None:
    async with FakeOllama() as ollama:
        await ask(ollama, chat())
        await ask(ollama, chat("another question"))
        await ask(ollama, chat(system="12:00 " + LONG))
        tail, head = ollama.served[1:]
    assert tail.reused > 0.95 * tail.total
    assert head.reused < 10  # the role tag


async def test_a_conversation_goes_on_where_it_was() -> None:
    async with FakeOllama() as ollama:
        first = (await ask(ollama, chat())).json()["message"]
        body = chat()
        body["messages"] += [first, {"role": "user", "content": "and then?"}]
        await ask(ollama, body)
        one, two = ollama.served
    assert two.reused > one.total  # the answer is in the cache too


async def test_tools_and_the_think_flag_are_part_of_the_prefix() -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in "ab"]
    async with FakeOllama(Model("tiny", thinking=True, tools_first=True)) as ollama:
        await ask(ollama, chat(tools=tools))
        await ask(ollama, chat(tools=tools[::-1]))
        await ask(ollama, chat(tools=tools[::-1], think=False))
        await ask(ollama, chat(tools=tools[::-1], think=False))
    shares = [served.reused / served.total for served in ollama.served]
    assert max(shares[:3]) < 0.1 < 0.9 < shares[3]


async def test_a_client_that_leaves_frees_the_slot_and_leaves_what_was_computed() -> None:
    async with FakeOllama(seconds_per_token=0.0001) as ollama:  # 512 tokens a batch: about 0.05 s each
        body = chat(system=LONG * 4)
        async with RawClient(ollama.url) as client:
            await client.send(post("/api/chat", body))
            async with asyncio.timeout(5):
                while not ollama.runners.loaded or len(ollama.runners.loaded[0].cache.slots[0].tokens) < 512:
                    await asyncio.sleep(0.005)
            client.rst()
        async with asyncio.timeout(2):
            while ollama.served[0].outcome == "running":
                await asyncio.sleep(0.005)
        await ask(ollama, body)
        gone, again = ollama.served
    assert gone.outcome == "cancelled"
    assert 0 < again.reused < again.total - 512
    assert again.reused % 512 == 0


async def test_a_restart_forgets_everything_but_the_port() -> None:
    async with FakeOllama() as ollama:
        await ask(ollama, chat())
        await ollama.restart()
        assert await ps(ollama) == []
        await ask(ollama, chat())
    assert ollama.served[1].reused == 0


# keep_alive


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(300, 300), (0.5, 0.5), (0, 0), (-1, FOREVER), ("10m", 600), ("1h30m", 5400), ("-1m", FOREVER), ("0", 0), (None, None)],
)
def test_keep_alive_is_read_as_go_reads_it(value: Any, seconds: float | None) -> None:
    assert keep_alive_seconds(value) == seconds


@pytest.mark.parametrize("value", ["300", "-1", "", "5 m", "m", True, [1]])
async def test_other_keep_alives_are_refused(value: Any) -> None:
    with pytest.raises(OllamaError):
        keep_alive_seconds(value)
    async with FakeOllama() as ollama:
        assert (await fetch(f"{ollama.url}/api/chat", chat(keep_alive=value))).status == 400


async def test_a_model_expires_and_its_cache_with_it() -> None:
    clock = ManualClock()
    async with FakeOllama(clock=clock) as ollama:
        await ask(ollama, chat())
        clock.advance(299)
        assert len(await ps(ollama)) == 1
        await ask(ollama, chat())  # starts the five minutes again
        clock.advance(299)
        assert len(await ps(ollama)) == 1
        clock.advance(2)
        assert await ps(ollama) == []
        await ask(ollama, chat())
    assert [served.reused > 0 for served in ollama.served] == [False, True, False]
    assert ollama.runners.unloads == [("tiny", "expired")]


async def test_keep_alive_stays_until_a_native_request_changes_it() -> None:
    clock = ManualClock()
    async with FakeOllama(clock=clock) as ollama:
        await ask(ollama, {"model": "tiny", "keep_alive": -1}, "/api/generate")
        await ask(ollama, chat())
        await ask(ollama, chat(keep_alive=1), "/v1/chat/completions")  # an unknown field there
        clock.advance(30 * 86400)
        [row] = await ps(ollama)
        assert row["expires_at"].startswith(("2318", "2319"))
        await ask(ollama, chat(keep_alive="5m"))
        clock.advance(301)
        assert await ps(ollama) == []


async def test_empty_requests_load_and_unload_and_run_nothing() -> None:
    async with FakeOllama() as ollama:
        loaded = (await ask(ollama, {"model": "tiny", "messages": []})).json()
        assert (loaded["done"], loaded["done_reason"], "prompt_eval_count" in loaded) == (True, "load", False)
        assert [row["name"] for row in await ps(ollama)] == ["tiny:latest"]
        unloaded = (await ask(ollama, {"model": "tiny:latest", "keep_alive": 0}, "/api/generate")).json()
        assert (unloaded["done_reason"], await ps(ollama)) == ("unload", [])
        assert [served.total for served in ollama.served] == [0, 0]
        refused = await fetch(f"{ollama.url}/v1/chat/completions", {"model": "tiny", "messages": []})
        assert (refused.status, refused.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_ping_touches_no_slot_and_zero_unloads_after_an_answer() -> None:
    async with FakeOllama() as ollama:
        await ask(ollama, chat())
        await ask(ollama, {"model": "tiny", "keep_alive": -1}, "/api/generate")
        await ask(ollama, chat(keep_alive=0))
        assert ollama.served[-1].reused == ollama.served[-1].total - 1
        assert await ps(ollama) == []


# loading


@pytest.mark.parametrize(
    ("change", "times"),
    [
        ({"options": {"num_ctx": 8192}}, 1),
        ({"options": {"num_batch": 64}}, 1),
        ({"shift": False}, 1),
        ({"options": {"num_ctx": 4096, "num_gpu": -1}}, 0),  # what it has anyway
        ({"options": {"temperature": 0, "num_predict": 3, "seed": 1}}, 0),
        ({"format": "json"}, 0),
    ],
)
async def test_changed_load_options_reload_and_drop_the_cache(change: dict[str, Any], times: int) -> None:
    async with FakeOllama() as ollama:
        await ask(ollama, chat())
        answer = (await ask(ollama, chat(**change))).json()
        assert reloads(ollama) == times
        assert ollama.served[1].reused == (0 if times else ollama.served[1].total - 1)
        assert (answer["load_duration"] > 1e9) is bool(times)


async def test_v1_and_native_with_another_num_ctx_thrash() -> None:
    async with FakeOllama() as ollama:
        for _ in range(2):
            await ask(ollama, chat(options={"num_ctx": 8192}))
            await ask(ollama, chat(), "/v1/chat/completions")
        assert (reloads(ollama), sum(served.reused for served in ollama.served)) == (3, 0)
    async with FakeOllama(Model("tiny", num_ctx=8192)) as ollama:
        await ask(ollama, chat(options={"num_ctx": 8192}))
        await ask(ollama, chat(), "/v1/chat/completions")
        assert reloads(ollama) == 0


async def test_shift_is_no_load_option_before_0_30_9_but_disabled_reuse_before_0_30_8() -> None:
    for version, reused in (("0.30.8", True), ("0.30.7", False)):
        async with FakeOllama(version=version) as ollama:
            await ask(ollama, chat())
            await ask(ollama, chat(shift=False))
            assert (reloads(ollama), ollama.served[1].reused > 0) == (0, reused)


async def test_one_model_too_many_pushes_out_the_one_with_the_shortest_life() -> None:
    async with FakeOllama(Model("a"), Model("b"), Model("c"), max_loaded=2) as ollama:
        await ask(ollama, chat(model="a", keep_alive=-1))
        await ask(ollama, chat(model="b"))
        await ask(ollama, chat(model="c"))
        assert [row["name"] for row in await ps(ollama)] == ["a:latest", "c:latest"]
        assert ollama.runners.unloads == [("b", "evicted")]
        await ask(ollama, chat(model="c", keep_alive=-1))
        await ask(ollama, chat(model="b"))  # even "forever" gives way
        assert len(await ps(ollama)) == 2


async def test_a_reload_waits_for_the_request_that_runs() -> None:
    async with FakeOllama(seconds_per_token=0.0002) as ollama:
        running = asyncio.create_task(ask(ollama, chat()))
        await asyncio.sleep(0.03)
        await ask(ollama, {"model": "tiny", "options": {"num_ctx": 8192}}, "/api/generate")
        assert [served.outcome for served in ollama.served] == ["done", "done"]
        await running


async def test_a_full_load_queue_answers_503() -> None:
    async with FakeOllama(Model("a"), Model("b"), max_queue=1, load_seconds=0.1) as ollama:
        first = asyncio.create_task(ask(ollama, chat(model="a")))
        await asyncio.sleep(0.03)
        busy = await fetch(f"{ollama.url}/v1/messages", {**chat(model="b"), "max_tokens": 1})
        assert (busy.status, busy.json()["error"]["type"]) == (503, "overloaded_error")
        await first


async def test_ps_tells_memory_and_what_spilled_out_of_it() -> None:
    async with FakeOllama(Model("tiny", weights=1000, kv_bytes=1), vram=3000) as ollama:
        await ask(ollama, chat(options={"num_ctx": 1500}))
        [row] = await ps(ollama)
        assert (row["size"], row["size_vram"], row["context_length"]) == (2500, 2500, 1500)
        await ask(ollama, chat(options={"num_ctx": 4000}))
        [row] = await ps(ollama)
        assert (row["size"], row["size_vram"]) == (5000, 3000)


# cutting


async def test_an_over_long_chat_loses_its_oldest_messages_but_keeps_the_system_text() -> None:
    turns = [{"role": ("user", "assistant")[n % 2], "content": f"turn {n} " + "word " * 30} for n in range(21)]
    body = {"model": "tiny", "stream": False, "messages": [{"role": "system", "content": "Be brief."}, *turns]}
    async with FakeOllama(context_length=512) as ollama:
        await ask(ollama, body)
        assert ollama.served[0].total <= 512
        await ask(ollama, body | {"messages": [*body["messages"], *turns[-2:][::-1]]})  # type: ignore[misc]
        system = tokenize("<|system|>\nBe brief.<|end|>\n")
        assert len(system) <= ollama.served[1].reused < len(system) + 20 < 200
        refused = await fetch(f"{ollama.url}/api/chat", body | {"truncate": False})
        assert refused.status == 400


async def test_an_over_long_prompt_keeps_its_head_and_its_tail_or_is_refused() -> None:
    text = "".join(f"{n} " for n in range(1000))
    body = {"model": "tiny", "prompt": text, "raw": True, "stream": False}
    async with FakeOllama(context_length=100) as ollama:
        await ask(ollama, body, "/api/generate")
        held = ollama.runners.loaded[0].cache.slots[0].tokens[:100]
        assert held == tokenize(text)[:4] + tokenize(text)[-96:]
        assert (await fetch(f"{ollama.url}/api/generate", body | {"shift": False})).status == 400


async def test_the_modelfile_comes_in_where_ollama_puts_it() -> None:
    model = Model("tiny", system="Own.", messages=({"role": "user", "content": "before"},))
    async with FakeOllama(model) as ollama:
        for messages, expected in (
            ([{"role": "user", "content": "x"}], "<|user|>\nbefore<|end|>\n<|system|>\nOwn.<|end|>\n<|user|>\nx"),
            ([{"role": "system", "content": "S"}], "<|user|>\nbefore<|end|>\n<|system|>\nS<|end|>\n<|assistant|>"),
        ):
            response = await ask(ollama, {"model": "tiny", "messages": messages, "_debug_render_only": True})
            assert response.json()["_debug_info"]["rendered_template"].startswith(expected)
        shown = (await fetch(f"{ollama.url}/api/show", {"model": "tiny"})).json()
        assert (shown["system"], shown["messages"]) == ("Own.", [{"role": "user", "content": "before"}])


async def test_content_parts_on_v1_become_messages() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    async with FakeOllama() as ollama:
        body = {"model": "tiny", "messages": [{"role": "user", "content": parts}], "_debug_render_only": True}
        shown = (await ask(ollama, body, "/v1/chat/completions")).json()["_debug_info"]["rendered_template"]
    assert shown == "<|user|>\none<|end|>\n<|user|>\ntwo<|end|>\n<|assistant|>\n"


# reports


async def reports(version: str) -> dict[str, Any]:
    """What each API reports about a prompt that is asked for the second time."""
    async with FakeOllama(version=version) as ollama:
        await ask(ollama, chat())
        native = (await ask(ollama, chat())).json()
        openai = (await ask(ollama, chat(), "/v1/chat/completions")).json()["usage"]
        system = {"model": "tiny", "max_tokens": 9, "system": LONG, "messages": [{"role": "user", "content": "hi"}]}
        claude = (await ask(ollama, system, "/v1/messages")).json()["usage"]
        asked = {"model": "tiny", "instructions": LONG, "input": "hi"}
        answers = (await ask(ollama, asked, "/v1/responses")).json()["usage"]
        assert {served.total for served in ollama.served} == {ollama.served[0].total}  # all APIs, one prompt
        return {"native": native, "openai": openai, "claude": claude, "responses": answers, "total": ollama.served[0].total}


async def test_new_versions_report_cached_tokens_everywhere() -> None:
    told = await reports("0.33.1")
    total = told["total"]
    assert (told["native"]["prompt_eval_count"], told["native"]["prompt_eval_cached_count"]) == (total, total - 1)
    assert (told["openai"]["prompt_tokens"], told["openai"]["prompt_tokens_details"]) == (total, {"cached_tokens": total - 1})
    assert (told["claude"]["input_tokens"], told["claude"]["cache_read_input_tokens"]) == (1, total - 1)
    assert told["responses"]["input_tokens_details"] == {"cached_tokens": total - 1}


async def test_old_versions_report_none_and_responses_a_zero_that_means_nothing() -> None:
    told = await reports("0.33.0-rc2")
    assert "prompt_eval_cached_count" not in told["native"]
    assert told["native"]["prompt_eval_duration"] == 500_000  # of the one token that was evaluated
    assert "prompt_tokens_details" not in told["openai"]
    assert "cache_read_input_tokens" not in told["claude"]
    assert told["responses"]["input_tokens_details"] == {"cached_tokens": 0}
    assert (await reports("0.30.0"))["native"]["prompt_eval_count"] == 1


async def test_streams_end_as_each_api_ends_them() -> None:
    reply = Reply("Some words.", "Thinking.", (ToolCall("look", {"at": 1}),))
    async with FakeOllama(Model("tiny", thinking=True)) as ollama:
        ollama.answer = lambda _: reply
        native = lines((await ask(ollama, {**chat(), "stream": True})).body)
        openai = events((await ask(ollama, {**chat(), "stream": True}, "/v1/chat/completions")).body)
        claude = events((await ask(ollama, {**chat(), "stream": True, "max_tokens": 99}, "/v1/messages")).body)
    assert native[0]["message"]["thinking"] == "Thinking."
    assert (native[-1]["done"], native[-1]["message"]["tool_calls"][0]["function"]["name"]) == (True, "look")
    assert openai[-1] == "[DONE]"
    assert not any("usage" in event for event in openai[:-1])
    assert any("reasoning" in choice["delta"] for event in openai[:-1] for choice in event["choices"])
    assert claude[0]["message"]["usage"]["input_tokens"] != claude[-2]["usage"]["input_tokens"]  # a guess, then the count


async def test_the_token_limit_counts_and_zero_is_none() -> None:
    async with FakeOllama() as ollama:
        one = (await ask(ollama, chat(options={"num_predict": 1}))).json()
        none = (await ask(ollama, chat(options={"num_predict": 0}))).json()
        ignored = (await ask(ollama, chat(max_completion_tokens=1), "/v1/chat/completions")).json()
    assert (one["message"]["content"], one["done_reason"], one["eval_count"]) == ("Hell", "length", 1)
    assert (none["message"]["content"], none["done_reason"]) == ("Hello there, my friend.", "stop")
    assert ignored["choices"][0]["finish_reason"] == "stop"


# errors, lists, downloads


async def test_errors_have_the_shape_of_their_api() -> None:
    async with FakeOllama(Model("tiny", tools=False), Model("vectors", embedding=True)) as ollama:
        url, missing = ollama.url, chat(model="nobody")
        native = await fetch(f"{url}/api/chat", missing)
        openai = await fetch(f"{url}/v1/chat/completions", missing)
        claude = await fetch(f"{url}/v1/messages", {**missing, "max_tokens": 1})
        assert {native.status, openai.status, claude.status} == {404}
        assert native.json() == {"error": "model 'nobody' not found"}
        assert openai.json()["error"]["type"] == "not_found_error"
        assert (claude.json()["type"], claude.json()["error"]["type"]) == ("error", "not_found_error")
        for body in (chat(think=True), chat(tools=[{}]), chat(model="vectors")):
            assert (await fetch(f"{url}/api/chat", body)).status == 400
        lenient = {**chat(), "max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 1024}}
        assert (await fetch(f"{url}/v1/messages", lenient)).status == 200
        assert (await fetch(f"{url}/v1/messages", chat())).status == 400  # max_tokens is required
        nowhere = await fetch(f"{url}/metrics")
        assert (nowhere.status, nowhere.body) == (404, b"404 page not found")


async def test_models_are_listed_pulled_embedded_and_deleted() -> None:
    async with FakeOllama(Model("tiny", num_ctx=2048)) as ollama:
        url = ollama.url
        assert (await fetch(f"{url}/")).body == b"Ollama is running"
        assert (await fetch(f"{url}/api/version")).json() == {"version": "0.33.3"}
        assert (await fetch(f"{url}/api/show", {"model": "tiny"})).json()["parameters"].split() == ["num_ctx", "2048"]
        progress = lines((await fetch(f"{url}/api/pull", {"model": "new"})).body)
        assert (progress[0]["status"], progress[-1]) == ("pulling manifest", {"status": "success"})
        assert [row["name"] for row in (await fetch(f"{url}/api/tags")).json()["models"]] == ["tiny:latest", "new:latest"]
        assert len((await fetch(f"{url}/v1/models")).json()["data"]) == 2
        one = (await fetch(f"{url}/api/embed", {"model": "new", "input": ["a", "b"], "keep_alive": -1})).json()["embeddings"]
        two = (await fetch(f"{url}/api/embed", {"model": "new", "input": "b"})).json()["embeddings"]
        assert one[1] == two[0] != one[0]
        assert (await fetch(f"{url}/api/delete", {"model": "new"}, method="DELETE")).status == 200
        assert await ps(ollama) == []
        assert (await fetch(f"{url}/api/delete", {"model": "new"}, method="DELETE")).status == 404
