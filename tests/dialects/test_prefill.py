"""The body that has a server read a head alone."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.prefill import MAKERS, STUB, prefill
from gateway.dialects.prompt_read import read
from gateway.prefix.chain import build, common

SYSTEM = "You mind a lighthouse. " * 100
TOOL = {"type": "function", "function": {"name": "lamp", "parameters": {"type": "object", "properties": {"on": {}}}}}
PATHS = sorted(MAKERS)


def body(path: str, question: str = "Is the lamp lit?", *, tools: bool = True, system: str = SYSTEM) -> dict[str, Any]:
    """A question as a client of this API asks it, with all sorts of settings."""
    asked: dict[str, Any] = {"model": "tiny", "temperature": 0.2, "stream": True, "seed": 4, "stop": ["x"]}
    if tools:
        asked["tools"] = [TOOL]
    if path == "/v1/messages":
        return {**asked, "system": [{"type": "text", "text": system}], "messages": [user(question)], "max_tokens": 900}
    if path.endswith("/responses"):
        return {**asked, "instructions": system, "input": question, "max_output_tokens": 900}
    if path == "/api/generate":
        return {"model": "tiny", "system": system, "prompt": question, "options": {"num_ctx": 8192, "num_predict": 50}}
    told = [{"role": "system", "content": system}, user(question)]
    if path == "/api/chat":
        return {**asked, "messages": told, "options": {"num_ctx": 8192, "num_predict": 50}, "keep_alive": "1h"}
    return {**asked, "messages": told, "max_tokens": 900, "max_completion_tokens": 900, "n": 2, "logprobs": True}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def made(path: str, asked: dict[str, Any]) -> dict[str, Any]:
    found = prefill(path, asked)
    assert found is not None
    parsed: dict[str, Any] = orjson.loads(found)
    return parsed


@pytest.mark.parametrize("path", PATHS)
def test_it_has_the_head_in_common_with_the_conversation_and_nothing_more(path: str) -> None:
    asked = body(path)
    before, after = read(path, asked), read(path, made(path, asked))
    assert before is not None
    assert after is not None
    mine, theirs = build(b"s", before, "tiny"), build(b"s", after, "tiny")
    assert common(mine, theirs) == mine.head == theirs.head > 2
    assert [text.text for message in after.messages for text in message.texts] == [STUB]


@pytest.mark.parametrize("path", PATHS)
def test_one_token_and_no_stream(path: str) -> None:
    sent = made(path, body(path))
    limits = {name: sent[name] for name in sent if name.startswith("max_")} or {"num_predict": sent["options"]["num_predict"]}
    assert list(limits.values()) == [1]
    assert sent["stream"] is False


@pytest.mark.parametrize("path", PATHS)
def test_how_an_answer_is_drawn_is_left_out(path: str) -> None:
    assert not {"temperature", "seed", "stop", "n", "logprobs", "max_completion_tokens"} & made(path, body(path)).keys()


def test_what_reaches_the_template_is_kept() -> None:
    flags = {
        "chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low", "tool_choice": "auto",
        "response_format": {"type": "json_object"}, "lora": [{"id": 0, "scale": 1.0}], "parallel_tool_calls": True,
    }  # fmt: skip
    sent = made("/v1/chat/completions", {**body("/v1/chat/completions"), **flags})
    assert {name: sent.get(name) for name in flags} == flags


def test_options_that_load_a_model_anew_are_kept_and_so_is_its_life() -> None:
    sent = made("/api/chat", body("/api/chat"))
    assert (sent["options"], sent["keep_alive"]) == ({"num_ctx": 8192, "num_predict": 1}, "1h")


def test_tools_alone_are_a_head() -> None:
    asked = body("/v1/chat/completions")
    del asked["messages"][0]
    assert made("/v1/chat/completions", asked)["messages"] == [user(STUB)]


def test_system_messages_behind_the_first_other_one_are_conversation() -> None:
    first, later = {"role": "developer", "content": "A"}, {"role": "system", "content": "B"}
    sent = made("/v1/chat/completions", {"messages": [first, user("hi"), later, user("ho")]})
    assert sent["messages"] == [first, user(STUB)]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat/completions", {"messages": [user("no head")]}),
        ("/v1/chat/completions", {"messages": "text"}),
        ("/v1/chat/completions", {"messages": [user("a"), "b"], "tools": [TOOL]}),
        ("/v1/messages", {"messages": [user("no head")], "max_tokens": 5}),
        ("/v1/responses", {"input": "no head"}),
        ("/v1/responses", {"instructions": "A", "input": "x", "previous_response_id": "resp_1"}),
        ("/v1/responses", {"instructions": "A", "input": 7}),
        ("/api/generate", {"system": "A", "prompt": "x", "raw": True}),
        ("/api/generate", {"system": "A", "prompt": "x", "context": [1, 2]}),
        ("/completion", {"prompt": "raw text"}),
        ("/v1/completions", {"prompt": "raw text"}),
        ("/v1/embeddings", {"input": "x"}),
    ],
)
def test_without_a_head_of_its_own_there_is_nothing_to_read(path: str, asked: dict[str, Any]) -> None:
    assert prefill(path, asked) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["messages", "system", "tools", "input", "instructions", "prompt", "options", "context", "text"])


@given(st.sampled_from([*PATHS, "/completion"]), st.dictionaries(FIELDS, JSON, max_size=5))
def test_no_body_makes_it_fail_and_none_is_changed(path: str, asked: dict[str, Any]) -> None:
    before = copy.deepcopy(asked)
    found = prefill(path, asked)
    assert found is None or orjson.loads(found)["stream"] is False
    assert asked == before
