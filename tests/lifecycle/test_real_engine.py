"""On a real llama.cpp server: a prompt that is given up frees it, and metrics count what clients are told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.engine.gguf import Model
from tests.lifecycle.waiting import CHAT, until
from tests.support.clients import RawClient, events, fetch, post
from tests.support.engine import StartEngine, model_file, needs_engine, start_engine
from tests.support.process import GatewayProcess

pytestmark = needs_engine
__all__ = ["model_file", "start_engine"]

BATCH = 3.5  # seconds that a batch of 2,048 tokens of the `bench` model takes on a slow machine, after which a server looks up


@pytest.mark.parametrize("stream", [True, False])
async def test_a_prefill_that_is_given_up_frees_the_server(tmp_path: Path, start_engine: StartEngine, stream: bool) -> None:
    server = await asyncio.to_thread(start_engine, "-c", "16384", "-np", "1", "-b", "512", model=Model("bench"))
    text = " ".join(f"Row {n}: the pond is frozen and the roof of the greenhouse is open." for n in range(400))
    asked = {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "stream": stream}
    async with GatewayProcess(tmp_path, {"backends": {"b": {"url": server.url, "kind": "llamacpp"}}}) as gateway:
        async with RawClient(gateway.url) as client:
            await client.send(post(CHAT, asked))
            await asyncio.sleep(1.0)
            (slot,) = (await fetch(f"{server.url}/slots")).json()
            assert slot["is_processing"], "the prompt is too short for this test"
            client.rst()
        left = time.monotonic()
        await asyncio.sleep(2.0)  # looking more often than every two seconds would keep the server from noticing

        async def idle() -> bool:
            slot.update((await fetch(f"{server.url}/slots")).json()[0])
            return not slot["is_processing"]

        assert await until(idle, within=3 * BATCH, pause=2.0)
        assert time.monotonic() - left < 2.5 + 3 * BATCH
        whole = (await fetch(f"{server.url}{CHAT}/input_tokens", asked)).json()["input_tokens"]
        assert slot["n_prompt_tokens"] < whole / 2, "it has read the prompt to its end"
        metrics = await gateway.metrics()
        assert metrics.value("warmgate_requests_total", outcome="cancelled") == 1
        assert metrics.value("warmgate_inflight") == 0


SYSTEM = "You look after the garden, the greenhouse and the pond. " * 30
USER: list[dict[str, Any]] = [{"role": "user", "content": "Is the pond frozen?"}]
WITH_SYSTEM = [{"role": "system", "content": SYSTEM}, *USER]
FEW: dict[str, Any] = {"model": "tiny", "temperature": 0}


def of_timings(reply: Any) -> tuple[int, int]:
    return reply["timings"]["cache_n"], reply["timings"]["cache_n"] + reply["timings"]["prompt_n"]


def of_chat(reply: Any) -> tuple[int, int]:
    cached, prompt = reply["usage"]["prompt_tokens_details"]["cached_tokens"], reply["usage"]["prompt_tokens"]
    assert (cached, prompt) == of_timings(reply)
    return cached, prompt


def of_responses(reply: Any) -> tuple[int, int]:
    usage = reply["usage"]
    return usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]


def of_anthropic(reply: Any) -> tuple[int, int]:
    usage = reply["usage"]
    return usage["cache_read_input_tokens"], usage["cache_read_input_tokens"] + usage["input_tokens"]


def of_anthropic_stream(stream: list[Any]) -> tuple[int, int]:
    return of_anthropic(next(event["message"] for event in stream if event["type"] == "message_start"))


def of_responses_stream(stream: list[Any]) -> tuple[int, int]:
    return of_responses(stream[-1]["response"])


def of_chat_stream(stream: list[Any]) -> tuple[int, int]:
    return of_timings(next(chunk for chunk in reversed(stream) if chunk != "[DONE]" and "timings" in chunk))


ASKED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "/v1/chat/completions": ({"messages": WITH_SYSTEM, "max_tokens": 4}, of_chat, of_chat_stream),
    "/v1/completions": ({"prompt": SYSTEM + "Is", "max_tokens": 4}, of_chat, of_chat_stream),
    "/completion": ({"prompt": SYSTEM + "It", "n_predict": 4}, of_timings, of_chat_stream),
    "/v1/responses": ({"input": SYSTEM + "Was", "max_output_tokens": 4}, of_responses, of_responses_stream),
    "/v1/messages": ({"system": SYSTEM, "messages": USER, "max_tokens": 4}, of_anthropic, of_anthropic_stream),
}


async def test_cached_counts_are_those_of_the_metrics(tmp_path: Path, start_engine: StartEngine) -> None:
    """Each dialect cold or half warm, then warm, streamed and not: every number that a client sees is counted once."""
    server = await asyncio.to_thread(start_engine, "-c", "4096", "-np", "1", "-a", "tiny")
    async with GatewayProcess(tmp_path, {"backends": {"b": {"url": server.url, "kind": "llamacpp"}}}) as gateway:
        cached = prompt = 0
        for number, (path, (asked, of_document, of_stream)) in enumerate(ASKED.items()):
            seen = []
            for stream in (False, True):
                reply = await fetch(gateway.url + path, {**FEW, **asked, "stream": stream})
                assert reply.status == 200, reply.body
                seen.append(of_stream(events(reply.body)) if stream else of_document(reply.json()))
            assert seen[1][0] == seen[1][1] - 1, f"{path}: the second time all but one token is there already"
            cached, prompt = cached + sum(pair[0] for pair in seen), prompt + sum(pair[1] for pair in seen)

            async def counted(wanted: int = 2 * number + 2) -> bool:
                return (await gateway.metrics()).value("warmgate_requests_total", outcome="ok") == wanted

            assert await until(counted)
            metrics = await gateway.metrics()
            assert metrics.value("warmgate_prompt_tokens_total", report="reported") == prompt, path
            assert metrics.value("warmgate_prompt_tokens_cached_total", report="reported") == cached, path
        assert metrics.value("warmgate_prompt_tokens_total", report="unknown") == 0
        assert metrics.value("warmgate_completion_tokens_total") == 4 * 2 * len(ASKED)
