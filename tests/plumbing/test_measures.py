"""Cases G01 to G08: what is counted, and that nobody can make the metrics grow."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import replace

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.plumbing.rig import ALL, CALLS, DOCUMENTS, STREAMS, Call, Changes, Rig, call_id
from tests.support.clients import fetch, request_bytes
from tests.support.connection import Step
from tests.support.replies import Reply, ToolCall, llamacpp
from tests.support.steps import chunk, full, ordinary, sleep, status, stream

RIG = {"config": {"heartbeat": {"after_headers": "0s", "before_headers": "0s"}}}

TTFT = "warmgate_time_to_first_token_seconds"
GAP = 0.5
each_call = pytest.mark.parametrize("call", ALL, ids=call_id)


# G01, G02: the first token is the first content


def before_content(call: Call) -> list[bytes]:
    """Everything that a server may send before it has said anything."""
    own = call.events(Reply(reasoning="", text="X"))
    begins = {
        "openai_chat": [b": queue 3\n\n", own[0], b'data: {"choices": []}\n\n', b'data: {"choices": null}\n\n'],
        "openai_completions": [b": queue 3\n\n", b'data: {"choices": [{"index": 0, "text": ""}]}\n\n'],
        "openai_responses": [b": queue 3\n\n", *own[:4]],
        "anthropic": [own[0], b'event: ping\ndata: {"type": "ping"}\n\n', own[1]],
        "ollama_chat": [b'{"message":{"role":"assistant","content":""},"done":false}\n'],
        "ollama_generate": [b'{"response":"","done":false}\n'],
        "llamacpp": [b": queue 3\n\n", llamacpp.progress(100, 0, 50)],
    }
    return begins[call.name]


def rest(call: Call, reply: Reply) -> bytes:
    """The events of the reply without those that `before_content` has sent."""
    skipped = {"openai_chat": 1, "openai_responses": 2, "anthropic": 2}.get(call.name, 0)
    return b"".join(call.events(reply)[skipped:])


FIRSTS = {
    "content": Reply(text="Hello there"),
    "reasoning": Reply(reasoning="Let me see", text="Hello"),
    "tool_call": Reply(text="", tool_calls=(ToolCall("search", {"q": "x"}),)),
}
SILENT_ABOUT = {"openai_completions": ("content",), "llamacpp": ("content",), "ollama_generate": ("content", "reasoning")}
"""What an API cannot say."""


@pytest.mark.parametrize("first", FIRSTS)
async def test_the_first_token(rig: Rig, first: str) -> None:
    """All dialects at once, because each takes its time."""
    calls = [call for call in STREAMS[:-1] if first in SILENT_ABOUT.get(call.name, FIRSTS)]
    for call in calls:
        head = status(200, ("Content-Type", call.shape.content_type), ("Transfer-Encoding", "chunked"))
        early: list[Step] = [chunk(event) for event in before_content(call)]
        late = chunk(rest(call, FIRSTS[first]))
        rig.upstream(call).once(call.path, head, *early, sleep(GAP), late, sleep(GAP), chunk(b""))
    async with rig.expects(*["ok"] * len(calls)) as changes:
        await asyncio.gather(*(rig.ask(call, ("X-Request-Id", f"{first}-{call.name}")) for call in calls))
    for call in calls:
        record = await rig.record(f"{first}-{call.name}")
        assert record["first"] == first, call.name
        assert GAP * 0.98 <= record["ttft"] <= GAP * 1.8, call.name
        assert record["ttfb"] < GAP / 2, call.name
        assert record["duration"] >= 2 * GAP * 0.98, call.name
    assert changes.value(f"{TTFT}_count") == len(calls)
    assert len(calls) * GAP * 0.98 <= changes.value(f"{TTFT}_sum") <= len(calls) * GAP * 1.8


@pytest.mark.parametrize("call", DOCUMENTS, ids=call_id)
async def test_no_first_token_without_a_stream(rig: Rig, call: Call) -> None:
    rig.upstream(call).once(call.path, *call.answer())
    async with rig.expects("ok") as changes:
        await rig.ask(call)
    assert changes.value(f"{TTFT}_count") == 0
    assert changes.value("warmgate_completion_tokens_total") == 4


@pytest.mark.parametrize("call", STREAMS[:-1], ids=call_id)
async def test_no_first_token_in_a_stream_that_says_nothing(rig: Rig, call: Call) -> None:
    rig.upstream(call).once(call.path, *stream(before_content(call), content_type=call.shape.content_type))
    async with rig.expects("upstream_error") as changes:
        await rig.ask(call)
    assert changes.value(f"{TTFT}_count") == 0


# G03, G04: reported, reported 0, not reported


def cached(changes: Changes) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    return (
        changes.by("warmgate_cache_reports_total", "source"),
        changes.by("warmgate_prompt_tokens_total", "report"),
        changes.by("warmgate_prompt_tokens_cached_total", "report"),
    )


@each_call
async def test_not_reported_is_no_miss(rig: Rig, call: Call) -> None:
    if call.name == "llamacpp":  # its own API always tells
        return
    rig.upstream(call).once(call.path, *call.answer(Reply(prompt=1000, cached=None)))
    async with rig.expects("ok") as changes:
        await rig.ask(call)
    assert cached(changes) == ({"none": 1}, {"unknown": 1000}, {})
    assert changes.by(f"{TTFT}_count", "cache") == ({"unknown": 1} if call.streaming else {})


@each_call
@pytest.mark.parametrize(("reused", "kind"), [(0, "miss"), (500, "partial"), (900, "hit"), (1000, "hit")])
async def test_reported(rig: Rig, call: Call, reused: int, kind: str) -> None:
    rig.upstream(call).once(call.path, *call.answer(Reply(prompt=1000, cached=reused)))
    async with rig.expects("ok") as changes:
        await rig.ask(call)
    source = "timings" if call.name == "llamacpp" else "usage"
    assert cached(changes) == ({source: 1}, {"reported": 1000}, {"reported": reused} if reused else {})
    assert changes.by(f"{TTFT}_count", "cache") == ({kind: 1} if call.streaming else {})


@pytest.mark.parametrize("streaming", [True, False])
async def test_timings_are_read_where_there_is_no_usage(rig: Rig, streaming: bool) -> None:
    call = replace(CALLS["openai_chat"], streaming=streaming)
    rig.llama.once(call.path, *call.answer(Reply(prompt=1000, cached=900, usage=False, timings=True)))
    async with rig.expects("ok") as changes:
        await rig.ask(call)
    assert cached(changes) == ({"timings": 1}, {"reported": 1000}, {"reported": 900})


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_zero_that_a_server_writes_without_looking(rig: Rig, streaming: bool) -> None:
    call = replace(CALLS["openai_responses"], streaming=streaming, backend="ollama", model="gem")
    rig.ollama.once(call.path, *call.answer(Reply(prompt=1000, cached=0)))
    async with rig.expects("ok") as changes:
        await rig.ask(call)
    assert cached(changes) == ({"none": 1}, {"unknown": 1000}, {})


# G05, G06: labels are bounded


async def test_random_paths_and_models_add_no_labels(rig: Rig) -> None:
    for call in CALLS.values():
        rig.upstream(call).on(call.path, ordinary())
        await rig.ask(call)
        await rig.ask(call, model="zz-unknown")
    await fetch(f"{rig.gateway.url}/files/x.php")
    before = await labels(rig)
    dice = random.Random(7)
    async with rig.client() as client:
        for number in range(1000):
            name = f"zz-{dice.randrange(16**6):06x}"
            kind = number % 5
            if kind == 0:
                request = request_bytes("GET", f"/files/{name}.php?{name}")
            elif kind == 1:
                request = request_bytes("POST", "/v1/embeddings", orjson.dumps({"model": name}))
            elif kind == 2:
                request = request_bytes("PUT", f"/{name}/{name}", b"{}", ("User-Agent", name), ("X-Session-Id", name))
            else:
                call = dice.choice(STREAMS)
                request = call.raw(("X-Request-Id", name), ("X-Api-Key", name), model=name, stream=kind == 3)
            await client.send(request)
            await (await client.response()).read()
    after = await labels(rig)
    for label, values in after.items():
        assert len(values - before[label]) <= 1, label


async def labels(rig: Rig) -> defaultdict[str, set[str]]:
    """Values of each label, except the numbers of histogram buckets."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, series in await rig.gateway.metrics():
        for label, value in series:
            if label != "le":
                found[label].add(value)
        found["__name__"].add(name)
    return found


# G07, G08: the exposition


async def test_the_exposition(rig: Rig) -> None:
    for call in ALL:
        rig.upstream(call).once(call.path, *call.answer())
        await rig.ask(call)
    response = await fetch(f"{rig.gateway.admin}/metrics")
    assert response.header("Content-Type").startswith("text/plain; version=0.0.4")
    text = response.body.decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families) > 15
    for family in families:
        assert family.name.startswith("warmgate_")
        assert family.documentation, family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        assert family.samples or f"# TYPE {family.name}" in text
        for sample in family.samples:
            if family.type == "counter":
                assert sample.name.endswith("_total")
            if family.type == "histogram":
                assert family.name.endswith(("_seconds", "_ratio")), family.name
            assert not sample.name.endswith("_created")


async def test_no_prompt_on_any_page(rig: Rig) -> None:
    secret = "zebra-crossing-at-noon"
    for call in ALL:
        rig.upstream(call).once(call.path, *call.answer(Reply(text=secret)))
        content = {"messages": [{"role": "system", "content": secret}, {"role": "user", "content": secret}]}
        await rig.ask(call, **(content if "messages" in call.content else {"prompt": secret, "input": secret}))
        rig.upstream(call).once(call.path, *full(orjson.dumps({"error": {"message": secret, "type": "x"}}), 500))
        await rig.ask(call, prompt=secret)
    for page in ("/metrics", "/status", "/healthz", "/readyz", "/requests", "/gateway/debug/prefixes"):
        assert secret not in (await fetch(f"{rig.gateway.admin}{page}")).body.decode(), page
    assert secret not in rig.gateway.log


async def test_in_flight_and_queue(rig: Rig) -> None:
    call = CALLS["openai_chat"]
    rig.llama.once(call.path, sleep(0.3), *call.answer())
    asking = asyncio.create_task(rig.ask(call))
    await rig.last(call.path)
    assert (await rig.gateway.metrics()).value("warmgate_inflight", backend="llama") == 1
    await asking
