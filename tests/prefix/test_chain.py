"""Chains: the same conversation in any spelling, conversations that go on, and changes at any place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.canonical.digests import said
from gateway.dialects.prompt_read import read
from gateway.prefix.chain import LONG, MESSAGE, STEP, Chain, build, common, own_digest, slid

SECRET = b"secret"
CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "write")]

texts = st.text(min_size=1, max_size=40)
talks = st.lists(st.tuples(st.sampled_from(("user", "assistant")), texts), min_size=1, max_size=8)


def of(
    system: str, talk: list[tuple[str, str]], path: str = CHAT, *, parts: bool = False, tools_first: bool = False, **more: Any
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
    return build(SECRET, prompt, "m", tools_first=tools_first)


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


def test_texts_above_a_million_have_fewer_nodes() -> None:
    chain = of("x" * (LONG + 1), [("user", "Hi")])
    assert LONG // 4096 <= len(chain.digests) <= LONG // 4096 + 3


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
    assert slid(before.messages, after.messages, 0) == gone
    assert slid(before.messages, of("S", [("user", "other")]).messages, 0) == 0


@given(texts, st.sampled_from(("user", "assistant", "tool")), st.booleans())
def test_the_short_way_to_a_messages_digest_ends_where_the_long_one_does(text: str, role: str, calls: bool) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    message = {"role": role, "content": text, **({"tool_calls": [call]} if calls else {})}
    prompt = read(CHAT, {"model": "m", "messages": [message]})
    assert prompt is not None
    assert own_digest(SECRET, prompt.messages[0]) == said(SECRET, prompt.messages[0])


def test_digests_say_nothing_without_the_secret() -> None:
    prompt = read(CHAT, {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    assert prompt is not None
    assert set(build(b"one", prompt, "m").digests).isdisjoint(build(b"other", prompt, "m").digests)
