"""OpenAI text completions."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.shapes import sse
from gateway.values import Usage
from tests.dialects.tapping import see, tap


def chunk(text: Any, finish: str | None = None) -> dict[str, Any]:
    return {"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": finish}]}


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_is_no_first_token(text: Any) -> None:
    assert see("openai_completions", chunk(text), {"choices": [], "usage": {"prompt_tokens": 1}}).first is None


def test_a_stream() -> None:
    last = chunk("", "length") | {"timings": {"cache_n": 4, "prompt_n": 1, "predicted_n": 2}}
    seen = see("openai_completions", chunk(""), chunk("a"), last)
    assert (seen.first, seen.visible, seen.stopped, seen.finished) == ("content", True, True, False)
    assert seen.usage == Usage(5, 4, 2, None, "timings")


def test_progress_is_no_first_token() -> None:
    assert see("openai_completions", chunk("x") | {"prompt_progress": {"total": 9, "cache": 0}}).first is None


def test_the_usage_chunk_is_hidden() -> None:
    counted = sse({"choices": [], "usage": {"prompt_tokens": 3}})
    stream = sse(chunk("a")) + counted + b"data: [DONE]\n\n"
    out, seen = tap("openai_completions", stream, hide=True)
    assert out == stream.replace(counted, b"")
    assert (seen.usage, seen.finished) == (Usage(3), True)
