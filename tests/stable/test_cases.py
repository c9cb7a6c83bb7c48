"""The public cases of tests/canonical through the real process: what the server receives, and the tokens that it reuses.

Each is played with a template that puts tools behind the system text and with one that puts them first, streamed and not.
REUSE says at which text of the second prompt reuse ends in the default configuration; elsewhere the answer is reused too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.stable.seen import Seen, direct_reuse, extends
from tests.stable.stand import MODELS, SAID, SCRIPTED, Stand
from tests.support.kvcache import tokenize

CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "canonical" / "cases.json").read_text(encoding="utf-8"))
}
PASSED_THROUGH = {"C01", "C03", "C04", "C06", "C08", "C10", "C14"}
"""Nothing in them moves: what the client sent goes out, byte for byte."""

REUSE = {
    "A09": "## ext: memory",  # headed sections stay in the order in which they were sent
    "A17": "[see context]",  # the memory moves from here on
    "A23": "tense",
    "B06": 'read","desc',
    "B10": "\\r",
    "C04": "<|end|>\n<|assistant|>\n1. Empty it.",
    "C06": "[... 4 rows",
    "C08": "m3<|end|>",
    "C10": "deep",
}
"""Where reuse ends, for the cases that do less than the ideal by default."""

BETTER_THAN_DIRECT = {"A01", "A02", "A04", "A06", "A07", "A09", "A11", "A13", "A17", "A19", "A25", "B01", "B03", "B04", "C12"}
"""Cases in which a server that nobody stands in front of reuses less."""

each_case = pytest.mark.parametrize("name", sorted(CASES))


def said(case: dict[str, Any]) -> tuple[str, list[Any]]:
    """What the model answers to request 1: the last assistant message of request 2, so that it is recognised there."""
    followed = [message for message in case["req2"]["body"]["messages"] if message["role"] == "assistant"]
    last = followed[-1] if followed else {"content": SAID}
    return last["content"], [call["function"] for call in last.get("tool_calls", [])]


async def play(stand: Stand, name: str, model: str, *, stream: bool) -> tuple[Seen, Seen, Seen, Seen]:
    """Both requests as the client sent them and as the server received them."""
    case = CASES[name]
    text, _ = said(case)
    stand.says(text, "Let me look at the shelf map." if model == "thinking" else "")
    sent, seen = [], []
    for request in (case["req1"], case["req2"]):
        body = {**request["body"], "model": model, "stream": stream}
        sent.append(Seen(request["path"], orjson.dumps(body)))
        await stand.ask(request["path"], body)
        seen.append(stand.seen)
        if name == "A25" and len(sent) == 1:  # the client tries another model in between
            await stand.ask(request["path"], {**body, "model": "local-b"})
    return (*sent, *seen)  # type: ignore[return-value]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])
@pytest.mark.parametrize("model", ["local-a", "tools-first"])
@each_case
async def test_what_the_server_receives_and_reuses(stand: Stand, name: str, model: str, stream: bool) -> None:
    expected, kind = CASES[name]["expected"], MODELS[model]
    sent1, sent2, seen1, seen2 = await play(stand, name, model, stream=stream)
    for sent, seen in ((sent1, seen1), (sent2, seen2)):
        assert not [words for words in expected.get("system_lacks", []) if words in seen.system]
        assert not [words for words in expected.get("system_keeps", []) if words not in seen.system]
        assert seen.messages(notes=False) == sent.messages(notes=False)
        assert [message["role"] for message in seen.body["messages"]] == [m["role"] for m in sent.body["messages"]]
        assert [type(message["content"]) for message in seen.body["messages"]] == [
            type(message["content"]) for message in sent.body["messages"]
        ]
        assert seen.body.keys() - {"stream_options"} == sent.body.keys()  # streams are asked for their counts
    if name != "A23":
        assert not [words for words in expected.get("tail_has", []) if words not in seen2.users[-1]]

    reused, answer = stand.served.reused, said(CASES[name])[0]
    if name == "A02":
        assert seen1.raw == seen2.raw
        assert reused == stand.served.total - 1
    elif name == "A11":  # another conversation with the same system text
        assert (seen1.system, seen1.tools) == (seen2.system, seen2.tools)
        assert reused >= seen2.tokens(kind, "<|user|>")
    elif name in REUSE:
        assert seen2.tokens(kind, REUSE[name]) <= reused < stand.served.total
    else:
        assert extends(seen1, seen2)
        assert reused >= seen1.tokens(kind) + len(tokenize(answer))
    direct = direct_reuse(sent1, answer, sent2, kind)
    assert reused > direct if name in BETTER_THAN_DIRECT else reused >= direct


@pytest.mark.parametrize("name", sorted(PASSED_THROUGH | {"A15", "A23", "B10"}))
async def test_what_needs_no_edit_goes_out_byte_for_byte(stand: Stand, name: str) -> None:
    for request in (CASES[name]["req1"], CASES[name]["req2"]):
        body = {**request["body"], "model": SCRIPTED, "stream_options": {"include_usage": True}}
        raw = json.dumps(body, indent=1).encode()
        await stand.ask(request["path"], None, raw=raw)
        assert stand.scripted.asked(request["path"])[-1].body == raw


@pytest.mark.parametrize("name", sorted(CASES.keys() - PASSED_THROUGH))
async def test_texts_of_users_and_unknown_fields_stay(stand: Stand, name: str) -> None:
    """Number spellings, key order and unknown fields of the client survive the edit."""
    for request in (CASES[name]["req1"], CASES[name]["req2"]):
        head = b'{"x_unknown": {"n": 1.10, "big": 12345678901234567890123, "e": 1e5, "b": [null, true]}, '
        raw = head + json.dumps({**request["body"], "model": SCRIPTED, "stream": False}).encode()[1:]
        await stand.ask(request["path"], None, raw=raw)
        seen, sent = Seen(request["path"], stand.scripted.asked(request["path"])[-1].body), Seen(request["path"], raw)
        assert seen.raw.startswith(head)
        assert seen.messages(notes=False) == sent.messages(notes=False)


@pytest.mark.parametrize("name", ["A02", "A15"])
async def test_quotations_of_users_stay(stand: Stand, name: str) -> None:
    sent1, sent2, seen1, seen2 = await play(stand, name, "local-a", stream=True)
    assert (seen1.users, seen2.users) == (sent1.users, sent2.users)


async def test_a09_reordered_sections_are_reported(stand: Stand) -> None:
    before = await stand.gateway.metrics()
    await play(stand, "A09", "local-a", stream=True)
    after = await stand.gateway.metrics()
    found = {"rule": "learned", "action": "observe"}
    assert after.value("warmgate_canonical_edits_total", **found) > before.value("warmgate_canonical_edits_total", **found)


async def test_a17_nothing_stands_between_a_call_and_its_result(stand: Stand) -> None:
    """Within the loop the clock's first note stands; the memory that changed is told, and from then on the prefix is stable."""
    case = CASES["A17"]
    _, _, _, seen2 = await play(stand, "A17", "tools-first", stream=True)
    assert "Minute: 10:15" in seen2.users[0]
    assert "Tray 4 counted today." in seen2.users[0]
    assert [role for role, _, _ in seen2.messages()] == ["user", "assistant", "tool"]
    body = json.loads(json.dumps({**case["req2"]["body"], "model": "tools-first"}))
    body["messages"][0]["content"] = body["messages"][0]["content"].replace("10:16", "10:17") + "\n- Tray 5 is empty."
    body["messages"] += [{"role": "assistant", "content": SAID}, {"role": "user", "content": "And tray 5?"}]
    stand.says(SAID)
    await stand.ask(case["req2"]["path"], body)
    assert extends(seen2, stand.seen)
    assert "Tray 5 is empty." in stand.seen.users[-1]
    assert stand.served.reused >= seen2.tokens(MODELS["tools-first"])


async def test_a19_numbered_lists_keep_their_order(stand: Stand) -> None:
    request = json.loads(json.dumps(CASES["A19"]["req2"]))
    await stand.ask(request["path"], {**CASES["A19"]["req1"]["body"], "stream": False})
    message = request["body"]["messages"][0]
    for number, fact in enumerate(("Gears are metric", "Mira labels trays by week", "Tovik borrows the fan"), 1):
        message["content"] = message["content"].replace(f"- {fact}", f"{number}. {fact}")
    await stand.ask(request["path"], request["body"])
    assert "1. Gears are metric\n2. Mira labels trays by week\n3. Tovik borrows the fan" in stand.seen.system + stand.seen.notes


async def test_b01_tools_come_in_one_order(stand: Stand) -> None:
    _, _, seen1, seen2 = await play(stand, "B01", "local-a", stream=True)
    assert seen1.tool_names == seen2.tool_names == ["alpha", "mu", "zeta"]


async def test_b06_a_tool_that_left_stays_away(stand: Stand) -> None:
    _, _, seen1, seen2 = await play(stand, "B06", "local-a", stream=True)
    assert seen1.tool_names == ["bash", "grep", "plan_exit", "read"]
    assert seen2.tool_names == ["bash", "grep", "read"]


@pytest.mark.parametrize("name", ["C01", "C03"])
async def test_dropped_reasoning_is_not_put_back(stand: Stand, name: str) -> None:
    """The server has the reasoning in its cache, the client dropped it: reuse ends where the answer began."""
    _, sent2, seen1, seen2 = await play(stand, name, "thinking", stream=False)
    assert {**seen2.body, "model": "thinking"} == sent2.body
    assert stand.served.reused == seen1.tokens(MODELS["thinking"])


async def test_c10_arguments_stay_the_string_that_was_sent(stand: Stand) -> None:
    _, sent2, _, seen2 = await play(stand, "C10", "local-a", stream=True)
    arguments = [
        message["tool_calls"][0]["function"]["arguments"] for message in (sent2.body["messages"][2], seen2.body["messages"][2])
    ]
    assert arguments == ['{"deep":true,"path":"4"}'] * 2


async def test_c12_roles_alternate(stand: Stand) -> None:
    _, _, _, seen2 = await play(stand, "C12", "local-a", stream=True)
    assert [message["role"] for message in seen2.body["messages"]] == ["system", "user", "assistant", "user"]
    assert len(seen2.body["messages"][-1]["content"]) == 1
