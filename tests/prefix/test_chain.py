"""Chains: the same conversation in any spelling, conversations that go on, and changes at any place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.prompt_read import read
from gateway.prefix.chain import LONG, LONG_STEP, MESSAGE, STEP, Chain, build, common, slid
from gateway.prefix.nodes import Nodes

SECRET = b"secret"
CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "write")]

texts = st.text(min_size=1, max_size=40)
talks = st.lists(st.tuples(st.sampled_from(("user", "assistant")), texts), min_size=1, max_size=8)


def of(
    system: str,
    talk: list[tuple[str, str]],
    path: str = CHAT,
    *,
    parts: bool = False,
    tools_first: bool = False,
    nodes: Nodes | None = None,
    **more: Any,
) -> Chain:
    def content(text: str) -> Any:
        return [{"type": "text", "text": text}] if parts else text

    messages = [{"role": role, "content": content(text)} for role, text in talk]
    if path == "/v1/messages":
        body: dict[str, Any] = {"system": content(system), "messages": messages}
    else:
        body = {"messages": [{"role": "system", "content": content(system)}, *messages]}
    prompt = read(path, {"model": "m", **body, **more})
    assert prompt is not None
    return build(SECRET, prompt, "m", tools_first=tools_first, nodes=nodes)


@given(texts, talks)
def test_spelling_makes_no_difference(system: str, talk: list[tuple[str, str]]) -> None:
    plain = of(system, talk)
    assert of(system, talk, parts=True) == plain
    assert of(system, talk, "/v1/messages") == plain
    assert of(system, talk, "/v1/messages", parts=True) == plain
    assert of(system, talk, "/api/chat") == plain


def test_cache_markers_and_reasoning_make_no_difference() -> None:
    talk = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": "Yes?", "reasoning_content": "They greet me."},
    ]
    prompt = read(CHAT, {"model": "m", "messages": [{"role": "system", "content": "S"}, *talk]})
    assert prompt is not None
    assert build(SECRET, prompt, "m").digests == of("S", [("user", "Hi"), ("assistant", "Yes?")]).digests


@given(texts, talks, talks)
def test_a_conversation_that_goes_on_extends_its_chain(
    system: str, talk: list[tuple[str, str]], more: list[tuple[str, str]]
) -> None:
    before, after = of(system, talk, tools=TOOLS), of(system, [*talk, *more], tools=TOOLS)
    assert after.digests[: len(before.digests)] == before.digests
    assert after.sizes[: len(before.sizes)] == before.sizes
    assert common(before, after) == len(before.digests)
    assert common(after, before) == len(before.digests)


@given(st.integers(0, 5999), st.booleans())
def test_a_change_breaks_the_chain_at_most_a_step_before_it(at: int, in_system: bool) -> None:
    text = "".join(chr(97 + number % 26) for number in range(6000))
    changed = text[:at] + "#" + text[at + 1 :]
    if in_system:
        one, other = of(text, [("user", "Hi")]), of(changed, [("user", "Hi")])
        start = 0
    else:
        one, other = of("S", [("user", text), ("user", "x")]), of("S", [("user", changed), ("user", "x")])
        start = 1 + MESSAGE
    shared = one.size_at(common(one, other)) - start
    assert at - STEP < shared <= at or (at < STEP and shared == 0)


def test_long_texts_have_fewer_nodes_behind_their_beginning() -> None:
    chain = of("x" * (LONG + 10 * LONG_STEP), [("user", "Hi")])
    assert len(chain.digests) == LONG // STEP - 1 + 10 + 1 + 1  # none at the end of the text; the system text; the message
    assert max(b - a for a, b in zip(chain.sizes, chain.sizes[1:], strict=False)) <= LONG_STEP + MESSAGE


@given(st.lists(st.tuples(st.sampled_from(("user", "assistant")), st.sampled_from("abcd"))), st.booleans())
def test_nodes_that_are_remembered_are_those_that_would_be_made(talk: list[tuple[str, str]], parts: bool) -> None:
    nodes = Nodes(SECRET, most=4)
    for turns in range(len(talk) + 1):
        made = of("S", talk[:turns], parts=parts, tools=TOOLS)
        assert of("S", talk[:turns], nodes=nodes, tools=TOOLS) == made


def test_a_short_text_before_a_long_one_is_part_of_all_nodes_behind_it() -> None:
    def chain(first: str) -> Chain:
        content = [{"type": "text", "text": text} for text in (first, "x" * 5000)]
        prompt = read(CHAT, {"model": "m", "messages": [{"role": "user", "content": content}]})
        assert prompt is not None
        return build(SECRET, prompt, "m")

    assert common(chain("one"), chain("one")) == 5
    assert common(chain("one"), chain("two")) == 0


@pytest.mark.parametrize("size", [10, 5000])
def test_the_result_of_a_tool_is_known_in_any_spelling_and_any_change_in_it(size: int) -> None:
    def chain(content: Any, name: str = "t1") -> Chain:
        result = {"type": "tool_result", "tool_use_id": name, "content": content}
        prompt = read("/v1/messages", {"model": "m", "messages": [{"role": "user", "content": [result]}]})
        assert prompt is not None
        return build(SECRET, prompt, "m")

    text = "x" * size
    assert chain(text) == chain([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])
    assert chain(text).digests[-1] != chain(text[:-1] + "y").digests[-1]
    assert chain(text).digests[-1] != chain([{"type": "text", "text": text}, {"type": "image", "source": {}}]).digests[-1]


@pytest.mark.parametrize(
    "change",
    [{"reasoning_effort": "high"}, {"chat_template_kwargs": {"enable_thinking": False}}, {"tools": TOOLS}],
    ids=["effort", "template", "tools"],
)
def test_what_the_template_renders_ahead_changes_all(change: dict[str, Any]) -> None:
    talk = [("user", "Hi")]
    assert common(of("S", talk), of("S", talk, tools_first=True, **change)) == 0


def test_the_order_of_the_template_decides_what_a_change_leaves() -> None:
    talk = [("user", "Hi")]
    for first, kind in ((True, "system"), (False, "tools")):
        one = of("S" * 50, talk, tools=TOOLS, tools_first=first)
        other = of(
            "S" * 50 if kind == "tools" else "T" * 50, talk, tools=TOOLS if kind == "system" else TOOLS[::-1], tools_first=first
        )
        part = one.part_at(common(one, other))
        assert part is not None
        assert (part.kind, common(one, other)) == (kind, 1)


def test_an_image_is_known_by_its_content() -> None:
    def chain(data: str) -> Chain:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        prompt = read(
            CHAT, {"model": "m", "messages": [{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}]}
        )
        assert prompt is not None
        return build(SECRET, prompt, "m")

    assert common(chain("AAAA"), chain("AAAA")) == 1
    assert common(chain("AAAA"), chain("BBBB")) == 0
    assert chain("A" * 100_000).size < 3000


@given(st.integers(1, 5), st.integers(1, 5))
def test_a_window_that_slides_is_recognised(gone: int, kept: int) -> None:
    talk = [("user", f"message {number}") for number in range(gone + kept)]
    before, after = of("S", talk), of("S", [*talk[gone:], ("user", "new")])
    assert slid(before.said, after.said, 0) == gone
    assert slid(before.said, of("S", [("user", "other")]).said, 0) == 0


def test_digests_say_nothing_without_the_secret() -> None:
    prompt = read(CHAT, {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    assert prompt is not None
    assert set(build(b"one", prompt, "m").digests).isdisjoint(build(b"other", prompt, "m").digests)
