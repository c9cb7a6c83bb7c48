"""`/requests` and what it says of one request, in front of a real App on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.clients import fetch
from tests.support.front import CHAT, TOKEN, Front, answer, front
from tests.support.steps import json_reply, wait


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Front]:
    async with front(tmp_path) as running:
        yield running


async def ids(gateway: Front, query: str = "") -> list[str]:
    reply = await gateway.ask(f"/requests{query}")
    assert reply.status == 200
    return [row["id"] for row in reply.json()["requests"]]


async def test_the_newest_come_first_and_are_without_text(gateway: Front) -> None:
    for id in ("one", "two", "three"):
        await gateway.chat(id, system="You are Pelle, whom nobody knows.")
    reply = await gateway.ask("/requests")
    assert (reply.status, reply.header("Content-Type")) == (200, "application/json; charset=utf-8")
    rows = reply.json()["requests"]
    assert [row["id"] for row in rows] == ["three", "two", "one"]
    first = rows[0]
    assert (first["model"], first["backend"], first["status"], first["outcome"]) == ("tiny", "local", 200, "ok")
    assert (first["prompt"], first["cached"], first["cached_source"]) == (1000, 900, "usage")
    assert first["client"] == {"agent": "agent/1", "address": "127.0.0.1"}
    assert b"nobody knows" not in reply.body


async def test_not_reported_is_not_zero(gateway: Front) -> None:
    gateway.upstream.on(CHAT, *json_reply(answer(cached=None)))
    await gateway.chat("silent")
    gateway.upstream.on(CHAT, *json_reply(answer(cached=0)))
    await gateway.chat("nothing")
    nothing, silent = (await gateway.ask("/requests")).json()["requests"]
    assert (nothing["cached"], nothing["cached_source"]) == (0, "usage")
    assert (silent["cached"], silent["cached_source"]) == (None, "none")


async def test_filters_let_through_what_fits(gateway: Front) -> None:
    await gateway.chat("small", model="tiny")
    await gateway.chat("large", model="huge")
    gateway.upstream.on(CHAT, *json_reply({"error": {"message": "no"}}, 400))
    await gateway.chat("refused", model="huge")
    assert await ids(gateway, "?limit=2") == ["refused", "large"]
    assert await ids(gateway, "?model=huge") == ["refused", "large"]
    assert await ids(gateway, "?model=huge&outcome=ok&reason=") == ["large"]
    assert await ids(gateway, "?model=tiny&outcome=ok") == ["large", "small"], "the name in metrics is one too"
    assert await ids(gateway, "?backend=elsewhere") == []
    assert await ids(gateway, "?kind=side") == []
    times = {row["id"]: row["time"] for row in (await gateway.ask("/requests")).json()["requests"]}
    assert await ids(gateway, f"?since={times['large']!r}") == ["refused", "large"]
    assert await ids(gateway, f"?since={times['refused'] + 100!r}") == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "from 1 to 1000"),
        ("limit=1001", "from 1 to 1000"),
        ("limit=many", "`limit` is a number"),
        ("since=nan", "seconds since 1970"),
        ("since=1e999", "seconds since 1970"),
        ("reason=bad_luck", "`reason` is one of first_seen, system_changed"),
        ("outcome=fine", "`outcome` is one of ok"),
        ("kind=both", "`kind` is one of main, side"),
        ("colour=red", "Filters are limit, since, model, backend, reason, outcome, kind."),
    ],
)
async def test_a_filter_that_cannot_match_is_refused(gateway: Front, query: str, words: str) -> None:
    reply = await gateway.ask(f"/requests?{query}")
    assert (reply.status, reply.json()["error"]["code"]) == (400, "invalid_filter")
    assert words in reply.json()["error"]["message"]


DETAILS = ("overhead", "retries", "slot", "waited_for", "costs", "reasons")


async def test_one_request_has_the_gateways_own_times_and_why_it_went_where_it_did(gateway: Front) -> None:
    await gateway.chat("one")
    row = (await gateway.ask("/requests/one")).json()
    assert (row["id"], row["retries"]) == ("one", 0)
    assert row["overhead"]
    assert (row["slot"], row["waited_for"]) == (None, None)
    assert row["reasons"]
    assert all(isinstance(cost, float) for cost in row["costs"].values())
    assert {key: value for key, value in row.items() if key not in DETAILS} == (
        (await gateway.ask("/requests")).json()["requests"][0]
    )


async def test_ids_may_have_any_printable_character(gateway: Front) -> None:
    for id in ("a/b", "{x}", "a b?c#d%20", "<b>[red]x[/red]"):
        await gateway.chat(id)
        assert (await gateway.ask(f"/requests/{quote(id, safe='')}")).json()["id"] == id


@pytest.mark.parametrize("path", ["/requests/none", "/requests/none/explain"])
async def test_an_unknown_id_is_told_in_a_sentence(gateway: Front, path: str) -> None:
    reply = await gateway.ask(path)
    assert (reply.status, reply.json()["error"]["code"]) == (404, "unknown_request")
    assert "unknown, or it has been forgotten" in reply.json()["error"]["message"]


async def test_a_request_that_was_forgotten_is_told_so(gateway: Front) -> None:
    await gateway.chat("old")
    gateway.app.gateway.log.resize(1)
    await gateway.chat("new")
    assert (await gateway.ask("/requests/new")).status == 200
    assert (await gateway.ask("/requests/old")).json()["error"]["code"] == "unknown_request"


async def test_a_request_that_runs_is_told_so(gateway: Front) -> None:
    go_on = asyncio.Event()
    gateway.upstream.on(CHAT, wait(go_on), *json_reply(answer()))
    running = asyncio.create_task(gateway.chat("slow"))
    await gateway.upstream.wait_for(CHAT)
    reply = await gateway.ask("/requests/slow/explain")
    assert (reply.status, reply.json()["error"]["code"]) == (404, "still_running")
    go_on.set()
    assert (await running).status == 200


async def test_what_has_no_prompt_cannot_be_explained(gateway: Front) -> None:
    gateway.upstream.on("/v1/embeddings", *json_reply({"data": []}))
    body = {"model": "tiny", "input": "text"}
    await fetch(f"{gateway.url}/v1/embeddings", body, ("X-Request-Id", "vector"))
    assert (await gateway.ask("/requests/vector")).status == 200
    reply = await gateway.ask("/requests/vector/explain")
    assert (reply.status, reply.json()["error"]["code"]) == (404, "not_explained")


@pytest.mark.parametrize("path", ["/requests", "/requests/x", "/requests/x/explain", "/events"])
async def test_they_are_behind_the_token_and_the_host_list(gateway: Front, path: str) -> None:
    assert (await fetch(gateway.admin + path)).status == 401
    assert (await fetch(gateway.admin + path, {}, TOKEN)).status == 405
    rebound = await fetch(gateway.admin.replace("127.0.0.1", "localhost") + path)
    assert rebound.status == 401


async def test_a_request_is_explained(gateway: Front) -> None:
    await gateway.chat("first")
    reply = await gateway.ask("/requests/first/explain")
    assert reply.status == 200
    found = reply.json()
    assert (found["id"], found["reason"], found["compared_with"]) == ("first", "first_seen", None)
    assert {"reason", "sentence", "compared_with", "sections", "difference", "lost", "detector", "fix"} <= found.keys()
