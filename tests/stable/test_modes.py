"""Who is left alone, who is only observed, and how people see what was done: modes, headers, one log line, metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stable.seen import Seen
from tests.stable.stand import SCRIPTED, Stand, eventually
from tests.support.clients import fetch

STAND: dict[str, Any] = {
    "config": {
        "canonical": {"never": {"clients": ["curl/*", "*Bench*"], "models": ["local-b", "quiet-*"]}},
        "models": {"quiet-one": {"targets": ["ollama/local-a"], "aliases": ["hushed"]}},
    }
}

CHAT = "/v1/chat/completions"
LAB = "You are Pelle.\nNow: 2026-03-04 10:15:07\nWorking directory: /home/mira/lab\nStay calm."
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("zeta", "alpha")]


def body(model: str = SCRIPTED, **more: Any) -> dict[str, Any]:
    talk = [{"role": "system", "content": LAB}, {"role": "user", "content": "List the parts in tray 4."}]
    return {"model": model, "messages": talk, **more}


async def chat(
    stand: Stand, *headers: tuple[str, str], model: str = SCRIPTED, agent: str = "", **more: Any
) -> tuple[bytes, Seen, str]:
    """What the client sent, what the server received, and the header about edits."""
    raw = json.dumps(body(model, **more), indent=1).encode()
    response = await stand.ask(CHAT, None, *headers, agent=agent, raw=raw)
    seen = Seen(CHAT, stand.scripted.asked(CHAT)[-1].body) if model == SCRIPTED else stand.seen
    return raw, seen, response.header("X-Warmgate-Edits")


async def test_edits_are_counted_in_a_header_without_text(stand: Stand) -> None:
    _, seen, edits = await chat(stand, tools=TOOLS)
    assert edits == "tools=1, clock=1, place=1, note=1"
    assert seen.tool_names == ["alpha", "zeta"]
    assert "10:15:07" in seen.notes


@pytest.mark.parametrize("mode", ["off", "observe", " OFF ", "Observe"])
async def test_a_request_may_ask_to_be_left_alone(stand: Stand, mode: str) -> None:
    raw, seen, edits = await chat(stand, ("X-Warmgate-Mode", mode), tools=TOOLS)
    assert seen.raw == raw
    assert edits == ""


async def test_the_mode_is_not_passed_on(stand: Stand) -> None:
    await chat(stand, ("X-Warmgate-Mode", "off"))
    assert stand.scripted.asked(CHAT)[-1].header("X-Warmgate-Mode") == ""


async def test_observing_counts_what_would_have_changed(stand: Stand) -> None:
    before = await stand.gateway.metrics()
    await chat(stand, ("X-Warmgate-Mode", "observe"))
    after = await stand.gateway.metrics()
    for rule, action, grown in (
        ("clock", "observe", 1),
        ("place", "observe", 1),
        ("clock", "rewrite", 0),
        ("note", "rewrite", 0),
    ):
        name, labels = "warmgate_canonical_edits_total", {"rule": rule, "action": action}
        assert after.value(name, **labels) - before.value(name, **labels) == grown
    assert after.value("warmgate_volatile_found_total", detector="clock") > before.value(
        "warmgate_volatile_found_total", detector="clock"
    )


async def test_off_counts_nothing(stand: Stand) -> None:
    before = await stand.gateway.metrics()
    await chat(stand, ("X-Warmgate-Mode", "off"))
    after = await stand.gateway.metrics()
    for name in ("warmgate_canonical_edits_total", "warmgate_volatile_found_total", "warmgate_canonical_untouched_total"):
        assert after.value(name) == before.value(name)


async def test_rewriting_is_counted_by_rule(stand: Stand) -> None:
    before = await stand.gateway.metrics()
    await chat(stand, tools=TOOLS)
    after = await stand.gateway.metrics()
    for rule in ("tools", "clock", "place", "note"):
        labels = {"rule": rule, "action": "rewrite"}
        grown = after.value("warmgate_canonical_edits_total", **labels) - before.value(
            "warmgate_canonical_edits_total", **labels
        )
        assert grown == 1


SHAPES = {
    "/v1/chat/completions": ({"messages": [{"role": "user", "content": "hi"}]}, ["error", "message"]),
    "/v1/responses": ({"input": "hi"}, ["error", "message"]),
    "/v1/messages": ({"max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}, ["error", "message"]),
    "/api/chat": ({"messages": [{"role": "user", "content": "hi"}]}, ["error"]),
    "/api/generate": ({"prompt": "hi"}, ["error"]),
}


@pytest.mark.parametrize("path", SHAPES)
@pytest.mark.parametrize("mode", ["on", "", "rewrite, off", "rewrites"])
async def test_an_unknown_mode_is_told_in_the_callers_dialect(stand: Stand, path: str, mode: str) -> None:
    content, place = SHAPES[path]
    response = await stand.ask(path, {"model": "local-a", **content}, ("X-Warmgate-Mode", mode), status=400)
    said: Any = response.json()
    assert said.get("type") == ("error" if path == "/v1/messages" else None)
    for name in place:
        said = said[name]
    assert said == "X-Warmgate-Mode is one of rewrite, observe, off."
    assert not stand.fake.bodies


@pytest.mark.parametrize("agent", ["curl/8.1", "MyBench/2", "a Bench of agents"])
async def test_clients_that_are_never_touched(stand: Stand, agent: str) -> None:
    raw, seen, edits = await chat(stand, agent=agent)
    assert (seen.raw, edits) == (raw, "")
    _, seen, edits = await chat(stand, ("X-Warmgate-Mode", "rewrite"), agent=agent)  # unless they ask for it
    assert "clock=1" in edits


@pytest.mark.parametrize("model", ["local-b", "quiet-one", "hushed"])
async def test_models_that_are_never_touched(stand: Stand, model: str) -> None:
    """By the name that the client uses, and by the one that the configuration gives."""
    _, seen, edits = await chat(stand, model=model)
    assert seen.body["messages"] == body()["messages"]
    assert edits == ""


async def test_the_first_edit_for_a_client_prints_one_line(stand: Stand) -> None:
    for _ in range(3):
        await chat(stand, tools=TOOLS)
    lines = await eventually(lambda: stand.logged("are given a stable prefix"), "a line")
    await chat(stand, agent="another-client/2")
    lines = await eventually(
        lambda: (found := stand.logged("are given a stable prefix"))[1:] and found, "a line for another client"
    )
    assert len(lines) == 2
    first, second = (line["message"] for line in lines)
    assert stand.agent in first
    assert "tools 1x, clock 1x, place 1x, note 1x" in first
    for words in ("warmgate canon", "X-Warmgate-Edits", "canonical.never.clients", "X-Warmgate-Mode: off"):
        assert words in first
    assert "another-client/2" in second


async def test_no_prompt_text_is_logged(stand: Stand) -> None:
    await chat(stand, ("Authorization", "Bearer sesame-lab"), tools=TOOLS)
    await chat(stand, ("X-Warmgate-Mode", "observe"))
    for words in ("Pelle", "10:15:07", "/home/mira", "tray 4", "Stay calm", "sesame"):
        assert words not in stand.gateway.log


async def test_the_configured_mode(stand: Stand) -> None:
    """After a reload; a request may still ask for more or for less."""
    canonical = stand.gateway.config["canonical"]
    for mode, touched in (("observe", False), ("off", False), ("rewrite", True)):
        await reload(stand, {**canonical, "mode": mode})
        raw, seen, edits = await chat(stand)
        assert (seen.raw != raw) is touched
        assert bool(edits) is touched
        _, _, edits = await chat(stand, ("X-Warmgate-Mode", "rewrite"))
        assert "clock=1" in edits


async def test_rules_can_be_switched_off_and_added(stand: Stand) -> None:
    canonical = stand.gateway.config["canonical"]
    custom = [{"name": "calm", "pattern": "Stay calm", "action": "drop"}]
    await reload(stand, {**canonical, "rules": ["place"], "custom": custom})
    _, seen, edits = await chat(stand, tools=TOOLS)
    await reload(stand, canonical)
    assert edits == "place=1, calm=1, note=1"
    assert "10:15:07" in seen.system
    assert "Stay calm" not in seen.raw.decode()
    assert seen.tool_names == ["zeta", "alpha"]


async def reload(stand: Stand, canonical: dict[str, Any]) -> None:
    stand.gateway.write_config(canonical=canonical)
    response = await fetch(f"{stand.gateway.admin}/-/reload", {})
    assert response.status == 200, response.body
