"""The simulated LM Studio does what is known of the real one: instances, time to live, both REST APIs, 200 for errors."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from tests.support.clients import RawClient, Response, events, fetch, post
from tests.support.clock import ManualClock
from tests.support.fake_lmstudio import FakeLmStudio
from tests.support.lmstudio_instances import JIT_TTL, LmModel
from tests.support.replies import Reply, ToolCall

LONG = "You are a careful helper who answers in short sentences. " * 40
OPENAI = "/v1/chat/completions"
V0 = "/api/v0/chat/completions"
V1 = "/api/v1/chat"
TWO = (LmModel("a"), LmModel("b"))


def chat(user: str = "hi", *, model: str = "tiny", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "system", "content": LONG}, {"role": "user", "content": user}], **more}


async def ask(studio: FakeLmStudio, body: dict[str, Any], path: str = OPENAI, status: int = 200) -> Response:
    response = await fetch(studio.url + path, body)
    assert response.status == status, response.body
    return response


async def loaded(studio: FakeLmStudio) -> dict[str, int]:
    """Names and contexts of the loaded instances, as REST v1 tells them."""
    rows = (await fetch(f"{studio.url}/api/v1/models")).json()["models"]
    return {found["id"]: found["config"]["context_length"] for row in rows for found in row["loaded_instances"]}


def kinds(body: bytes) -> list[str]:
    """The types of v1 events, repeated ones once; each stands in `event:` and in the data."""
    named = [line[7:].decode() for line in body.splitlines() if line.startswith(b"event: ")]
    assert named == [event["type"] for event in events(body)]
    return list(dict.fromkeys(named))


# residency


async def test_loading_with_context_and_duplicates() -> None:
    async with FakeLmStudio(*TWO) as studio:
        told = (
            await ask(studio, {"model": "a", "context_length": 9000, "echo_load_config": True}, "/api/v1/models/load")
        ).json()
        assert (told["instance_id"], told["status"], told["load_config"]["context_length"]) == ("a", "loaded", 9000)
        again = (await ask(studio, {"model": "a", "context_length": 10**9}, "/api/v1/models/load")).json()
        assert (again["instance_id"], "load_config" in again) == ("a:2", False)
        assert await loaded(studio) == {"a": 9000, "a:2": 131_072}
        assert (await ask(studio, chat(model="a:2"))).json()["model"] == "a:2"
        await ask(studio, {"instance_id": "a"}, "/api/v1/models/unload")
        assert (await ask(studio, chat(model="a"))).json()["model"] == "a:2"
        assert await loaded(studio) == {"a:2": 131_072}
        await ask(studio, {"instance_id": "a"}, "/api/v1/models/unload", 404)
        await ask(studio, {"model": "zz"}, "/api/v1/models/load", 404)
        await ask(studio, {"model": "a", "context_length": "x"}, "/api/v1/models/load", 400)


async def test_a_request_loads_its_model_which_lives_from_the_last_request_on() -> None:
    clock = ManualClock()
    async with FakeLmStudio(clock=clock) as studio:
        await ask(studio, chat())
        for _ in range(2):
            clock.advance(JIT_TTL - 1)
            assert await loaded(studio) == {"tiny": 4096}
            await ask(studio, chat())
        clock.advance(JIT_TTL)
        assert await loaded(studio) == {}
        await ask(studio, chat())
    assert studio.instances.unloads == [("tiny", "expired")]
    assert [served.reused > 0 for served in studio.served] == [False, True, True, False]


@pytest.mark.parametrize("path", [OPENAI, V0])
async def test_the_request_that_loads_a_model_says_how_long_it_lives(path: str) -> None:
    clock = ManualClock()
    async with FakeLmStudio(clock=clock) as studio:
        await ask(studio, chat(ttl=60), path)
        await ask(studio, chat(ttl=600), path)  # it is loaded already
        clock.advance(60)
        assert await loaded(studio) == {}


async def test_what_is_loaded_explicitly_stays_unless_it_says_otherwise() -> None:
    clock = ManualClock()
    async with FakeLmStudio(*TWO, clock=clock) as studio:
        await ask(studio, {"model": "a"}, "/api/v1/models/load")
        await ask(studio, {"model": "b", "ttl": 60}, "/api/v1/models/load")
        clock.advance(60)
        assert await loaded(studio) == {"a": 4096}


async def test_of_the_models_that_requests_load_one_stays() -> None:
    async with FakeLmStudio(*TWO, LmModel("c")) as studio:
        await ask(studio, {"model": "c"}, "/api/v1/models/load")
        await ask(studio, chat(model="a"))
        await ask(studio, chat(model="b"))
        assert set(await loaded(studio)) == {"c", "b"}
    assert studio.instances.unloads == [("a", "evicted")]
    async with FakeLmStudio(*TWO, auto_evict=False) as studio:
        for model in "ab":
            await ask(studio, chat(model=model))
        assert set(await loaded(studio)) == {"a", "b"}


@pytest.mark.parametrize("path", [OPENAI, V1])
async def test_a_model_may_be_evicted_under_a_request(path: str) -> None:
    async with FakeLmStudio(*TWO, gap=0.02) as studio, RawClient(studio.url) as client:
        body = chat(model="a", stream=True) if path == OPENAI else {"model": "a", "input": "hi", "stream": True}
        await client.send(post(path, body))
        response = await client.response()
        async with asyncio.timeout(2):
            while not studio.served[0].total:
                await asyncio.sleep(0.005)
        await ask(studio, chat(model="b"))
        data = await response.read()
    assert b"Model unloaded" in data
    assert b"[DONE]" not in data
    assert studio.served[0].outcome == "failed"


async def test_two_requests_at_once_load_once() -> None:
    async with FakeLmStudio(load_seconds=0.02) as studio:
        await asyncio.gather(*(ask(studio, chat(str(n))) for n in range(2)))
    assert studio.instances.loads == [("tiny", "jit")]


async def test_without_loading_on_demand_only_what_is_loaded_is_listed_and_answers() -> None:
    async with FakeLmStudio(*TWO, jit=False) as studio:
        await ask(studio, {"model": "b"}, "/api/v1/models/load")
        rows = (await fetch(f"{studio.url}/v1/models")).json()["data"]
        assert [row["id"] for row in rows] == ["b"]
        await ask(studio, chat(model="b"))
        await ask(studio, chat(model="a"), status=404)


async def test_a_restart_forgets_everything() -> None:
    async with FakeLmStudio() as studio:
        await ask(studio, chat())
        await studio.restart()
        assert await loaded(studio) == {}


# REST v0


async def test_v0_lists_states_and_adds_figures() -> None:
    async with FakeLmStudio(*TWO) as studio:
        document = (await ask(studio, chat(model="b", max_tokens=2), V0)).json()
        last = events((await ask(studio, chat(model="b", stream=True), V0)).body)[-2]
        rows = (await fetch(f"{studio.url}/api/v0/models")).json()["data"]
        assert (await fetch(f"{studio.url}/api/v0/models/b")).json() == rows[1]
        assert (await fetch(f"{studio.url}/api/v0/models/zz")).status == 404
    assert [(row["id"], row["state"], row.get("loaded_context_length")) for row in rows] == [
        ("a", "not-loaded", None),
        ("b", "loaded", 4096),
    ]
    assert document["stats"]["stop_reason"] == "maxPredictedTokensReached"
    assert document["model_info"]["context_length"] == 4096
    assert last["stats"]["stop_reason"] == "eosFound"
    assert last["stats"]["time_to_first_token"] < 0.1 * document["stats"]["time_to_first_token"]  # all there is to tell a hit


async def test_v0_completions() -> None:
    async with FakeLmStudio() as studio:
        document = (await ask(studio, {"model": "tiny", "prompt": "a b c"}, "/api/v0/completions")).json()
    assert document["choices"][0]["text"] == Reply().text
    assert document["stats"]


# REST v1


async def test_v1_streams_events_and_ends_with_the_document() -> None:
    async with FakeLmStudio(LmModel("tiny", thinking=True)) as studio:
        studio.answer = lambda _: Reply("Good day.", "Let me think.", (ToolCall("look", {"at": "it"}),))
        first = (await ask(studio, {"model": "tiny", "input": "hi", "stream": True}, V1)).body
        again = (await ask(studio, {"model": "tiny", "input": "hi", "stream": True}, V1)).body
        whole = (await ask(studio, {"model": "tiny", "input": "hi"}, V1)).json()
    processing = ["prompt_processing.start", "prompt_processing.progress", "prompt_processing.end"]
    reasoning = ["reasoning.start", "reasoning.delta", "reasoning.end"]
    calls = ["tool_call.start", "tool_call.arguments", "tool_call.success"]
    rest = [*processing, *reasoning, *calls, "message.start", "message.delta", "message.end", "chat.end"]
    assert kinds(first) == ["chat.start", "model_load.start", "model_load.progress", "model_load.end", *rest]
    assert kinds(again) == ["chat.start", *rest]
    first_end, again_end = events(first)[-1]["result"], events(again)[-1]["result"]
    assert ["model_load_time_seconds" in end["stats"] for end in (first_end, again_end)] == [True, False]
    assert [item["type"] for item in whole["output"]] == ["reasoning", "tool_call", "message"]
    assert whole["output"] == again_end["output"]
    assert whole["stats"]["input_tokens"] == studio.served[2].total
    assert whole["stats"]["reasoning_output_tokens"] > 0
    assert "cached" not in str(whole)


async def test_v1_goes_on_where_a_response_ended() -> None:
    async with FakeLmStudio() as studio:
        one = (await ask(studio, {"model": "tiny", "system_prompt": LONG, "input": "hi"}, V1)).json()
        more = {"model": "tiny", "input": "and then?", "previous_response_id": one["response_id"]}
        two = (await ask(studio, {**more, "store": False}, V1)).json()
        await ask(studio, {**more, "previous_response_id": "resp_x"}, V1, 404)
    assert "response_id" not in two
    assert studio.served[1].reused > studio.served[0].total > 400


@pytest.mark.parametrize(
    "body",
    [{"model": "tiny"}, {"input": "hi"}, {"model": "tiny", "input": "hi", "reasoning": "on"}, {"model": "a:9", "input": "x"}],
)
async def test_v1_errors_have_a_type(body: dict[str, Any]) -> None:
    async with FakeLmStudio() as studio:
        response = await fetch(studio.url + V1, body)
        assert response.status in (400, 404)
        assert response.json()["error"]["type"] in ("invalid_request", "model_not_found")


async def test_v1_tells_an_error_that_comes_after_the_stream_began() -> None:
    async with FakeLmStudio(LmModel("tiny", context=20)) as studio:
        body = (await ask(studio, {"model": "tiny", "input": LONG, "stream": True}, V1)).body
    assert kinds(body)[-1] == "error"
    assert studio.served[0].outcome == "failed"


# OpenAI's and Anthropic's APIs


async def test_no_reply_tells_what_was_reused() -> None:
    bodies = {
        OPENAI: chat(),
        "/v1/completions": {"model": "tiny", "prompt": LONG},
        "/v1/responses": {"model": "tiny", "instructions": LONG, "input": "hi"},
        "/v1/messages": {"model": "tiny", "system": LONG, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    }
    async with FakeLmStudio() as studio:
        for path, body in bodies.items():
            for _ in range(2):
                response = await ask(studio, body, path)
                assert b"cache" not in response.body
    assert all(served.reused == served.total - 1 for served in studio.served[1::2])


async def test_responses_go_on_by_their_id() -> None:
    async with (
        FakeLmStudio() as studio,
        openai.AsyncOpenAI(base_url=f"{studio.url}/v1", api_key="none", max_retries=0) as client,
    ):
        one = await client.responses.create(model="tiny", instructions=LONG, input="hi")
        two = await client.responses.create(model="tiny", input="and then?", previous_response_id=one.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="tiny", input="x", previous_response_id="resp_x")
    assert one.id != two.id
    assert studio.served[1].reused > studio.served[0].total


async def test_embeddings_load_their_model() -> None:
    async with FakeLmStudio(LmModel("e", embedding=True)) as studio:
        found = (await ask(studio, {"model": "e", "input": ["a", "b", "a"]}, "/v1/embeddings")).json()["data"]
        assert await loaded(studio) == {"e": 4096}
        await ask(studio, chat(model="e"), status=400)
    assert found[0]["embedding"] == found[2]["embedding"] != found[1]["embedding"]


async def test_parallel_requests_use_slots_of_their_own() -> None:
    async with FakeLmStudio(parallel=2, gap=0.01) as studio:
        await asyncio.gather(*(ask(studio, chat(str(n), stream=True)) for n in range(2)))
    assert {served.slot for served in studio.served} == {0, 1}


# its manners


@pytest.mark.parametrize("path", ["/", "/health", "/api/tags", "/models", "/chat/completions", "/props"])
async def test_unknown_paths_are_answered_with_200_and_an_error(path: str) -> None:
    async with FakeLmStudio() as studio:
        response = await fetch(studio.url + path)
    assert response.status == 200
    assert path in response.json()["error"]


async def test_before_0_4_there_is_no_v1() -> None:
    async with FakeLmStudio(version="0.3.28") as studio:
        for path in ("/api/v1/models/load", V1, "/v1/messages", "/v1/responses"):
            assert "Unexpected endpoint" in (await ask(studio, {}, path)).json()["error"]
        assert (await fetch(f"{studio.url}/api/v0/models")).json()["data"][0]["state"] == "not-loaded"


async def test_a_token_is_asked_for_if_it_is_set() -> None:
    async with FakeLmStudio(key="k") as studio:
        await ask(studio, chat(), status=401)
        assert (await fetch(f"{studio.url}/v1/models", None, ("Authorization", "Bearer k"))).status == 200
