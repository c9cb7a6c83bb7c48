"""Bodies of every dialect read as prompts: which texts are system, who speaks, what may carry a note."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.prompt import Text
from gateway.dialects.prompt_read import READERS, read

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hello"}


def test_leading_system_and_developer_messages_are_system_text_and_later_ones_are_conversation() -> None:
    messages = [
        {"role": "system", "content": "one"},
        {"role": "developer", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]},
        USER,
        {"role": "system", "content": "four"},
    ]
    prompt = read(CHAT, {"model": "m", "messages": messages, "reasoning_effort": "low", "temperature": 1})
    assert prompt is not None
    assert prompt.system == (
        Text(("messages", 0, "content"), "one"),
        Text(("messages", 1, "content", 0, "text"), "two"),
        Text(("messages", 1, "content", 1, "text"), "three"),
    )
    assert [message.role for message in prompt.messages] == ["user", "other"]
    assert prompt.messages[0].texts == (Text(("messages", 2, "content"), "Hello"),)
    assert prompt.parameters == {"reasoning_effort": "low"}
    assert prompt.newest_user == 0


def test_unknown_parts_and_images_have_no_text_and_no_note_without_text() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    messages = [
        {"role": "user", "content": [image, {"type": "text", "text": "What?"}, {"type": "x"}]},
        {"role": "user", "content": [image]},
    ]
    prompt = read(CHAT, {"messages": messages})
    assert prompt is not None
    assert [message.notable for message in prompt.messages] == [True, False]
    assert prompt.messages[0].texts == (Text(("messages", 0, "content", 1, "text"), "What?"),)
    assert prompt.newest_user == 0


def test_anthropic_tool_results_make_a_tool_message() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "12"}]}
    body = {
        "model": "m",
        "system": [{"type": "text", "text": "one", "cache_control": {}}, {"type": "text", "text": "two"}],
        "messages": [
            USER,
            {"role": "assistant", "content": [{"type": "tool_use"}]},
            {"role": "user", "content": [result, {"type": "text", "text": "x"}]},
        ],
    }
    prompt = read("/v1/messages", body)
    assert prompt is not None
    assert [text.path for text in prompt.system] == [("system", 0, "text"), ("system", 1, "text")]
    assert [(message.role, message.notable) for message in prompt.messages] == [
        ("user", True),
        ("assistant", False),
        ("tool", False),
    ]


def test_responses_input_as_string_and_as_items() -> None:
    prompt = read("/v1/responses", {"instructions": "one", "input": "Hello"})
    assert prompt is not None
    assert (prompt.system[0].path, prompt.messages[0].texts[0].path) == (("instructions",), ("input",))
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "two"}]},
        {"role": "user", "content": "Hello"},
        {"type": "function_call", "name": "x", "arguments": "{}"},
        {"type": "function_call_output", "output": "12"},
    ]
    prompt = read("/v1/responses", {"instructions": "one", "input": items})
    assert prompt is not None
    assert [text.text for text in prompt.system] == ["one", "two"]
    assert [message.role for message in prompt.messages] == ["user", "other", "other"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "Hello"}),
        ("/completion", {"prompt": "Hello"}),
        ("/infill", {"input_prefix": "x"}),
        ("/api/generate", {"prompt": "Hello", "system": "x", "raw": True}),
        ("/api/generate", {"prompt": "Hello", "suffix": "x"}),
        ("/api/generate", {"prompt": "", "system": "x"}),
        (CHAT, {}),
        (CHAT, {"messages": "Hello"}),
        (CHAT, {"messages": [1]}),
        (CHAT, {"messages": [{"content": "x"}]}),
        ("/v1/messages", {"messages": {}}),
        ("/v1/responses", {"input": None}),
        ("/v1/responses", {"input": [1]}),
    ],
)
def test_no_structure_no_prompt(path: str, body: dict[str, Any]) -> None:
    assert read(path, body) is None


@pytest.mark.parametrize("path", sorted(READERS))
def test_odd_shapes_never_raise(path: str) -> None:
    for odd in (
        None,
        1,
        "x",
        [],
        {},
        [None],
        [{"role": "user"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": [None, 1]}],
    ):
        for key in ("messages", "system", "instructions", "input", "prompt", "tools", "model"):
            read(path, {"messages": [USER], "input": "x", "prompt": "x", key: odd})


def test_generate_keeps_what_the_server_remembers_apart() -> None:
    prompt = read("/api/generate", {"model": "m", "prompt": "Hello", "system": "one", "context": [1, 2], "images": ["x"]})
    assert prompt is not None
    assert prompt.parameters == {"context": [1, 2]}
    assert prompt.messages[0].data["images"] == ["x"]
