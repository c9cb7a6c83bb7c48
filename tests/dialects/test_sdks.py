"""The official clients understand what the gateway says itself: errors, errors in the middle of a stream, heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest

from gateway.dialects import DIALECTS, ENDPOINTS
from tests.support.replies import SHAPES, Reply, ToolCall

REPLY = Reply(text="Hello there, my friend.", reasoning="Hm.", tool_calls=(ToolCall("ls", {"path": "/"}),), cached=3)
ASK: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
WORDS = (502, "upstream_died", "The server closed the connection.", "req_7")

Say = Callable[[Any], tuple[str, int]]
"""Reads a whole stream: (visible text, number of tool calls)."""


@contextmanager
def open_client(path: str, body: bytes, status: int = 200) -> Iterator[Any]:
    """An official client whose server gives this answer to everything."""
    media = SHAPES[path].content_type if status == 200 else "application/json"
    headers = {"content-type": media}
    if path.startswith("/api/"):
        transport = httpx.MockTransport(lambda request: httpx.Response(status, headers=headers, content=body))
        client: Any = ollama.Client("http://127.0.0.1:1", transport=transport)
        yield client
        client._client.close()
        return
    transport2 = httpx2.MockTransport(lambda request: httpx2.Response(status, headers=headers, content=body))
    maker: Any = anthropic.Anthropic if path == "/v1/messages" else openai.OpenAI
    with (
        httpx2.Client(transport=transport2) as http,
        maker(api_key="x", base_url="http://127.0.0.1:1", http_client=http, max_retries=0) as client,
    ):
        yield client


def chat(client: Any) -> tuple[str, int]:
    chunks = list(client.chat.completions.create(model="m", messages=ASK, stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    calls = {call.index for delta in deltas for call in delta.tool_calls or []}
    return "".join(delta.content or "" for delta in deltas), len(calls)


def chat_helper(client: Any) -> tuple[str, int]:
    with client.chat.completions.stream(model="m", messages=ASK) as stream:
        message = stream.get_final_completion().choices[0].message
    return message.content, len(message.tool_calls or [])


def completions(client: Any) -> tuple[str, int]:
    chunks = list(client.completions.create(model="m", prompt="hi", stream=True))
    return "".join(choice.text for chunk in chunks for choice in chunk.choices), 0


def responses(client: Any) -> tuple[str, int]:
    events = list(client.responses.create(model="m", input="hi", stream=True))
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    return text, sum(event.type == "response.function_call_arguments.done" for event in events)


def responses_helper(client: Any) -> tuple[str, int]:
    with client.responses.stream(model="m", input="hi") as stream:
        final = stream.get_final_response()
    return final.output_text, sum(item.type == "function_call" for item in final.output)


def messages(client: Any) -> tuple[str, int]:
    events = list(client.messages.create(model="m", max_tokens=9, messages=ASK, stream=True))
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    text = "".join(delta.text for delta in deltas if delta.type == "text_delta")
    return text, sum(event.type == "content_block_start" and event.content_block.type == "tool_use" for event in events)


def messages_helper(client: Any) -> tuple[str, int]:
    with client.messages.stream(model="m", max_tokens=9, messages=ASK) as stream:
        content = stream.get_final_message().content
    text = "".join(block.text for block in content if block.type == "text")
    return text, sum(block.type == "tool_use" for block in content)


def ollama_chat(client: Any) -> tuple[str, int]:
    parts = list(client.chat(model="m", messages=ASK, stream=True))
    return "".join(part.message.content or "" for part in parts), sum(len(part.message.tool_calls or []) for part in parts)


def ollama_generate(client: Any) -> tuple[str, int]:
    return "".join(part.response or "" for part in client.generate(model="m", prompt="hi", stream=True)), 0


WAYS: list[tuple[str, Say, type[Exception]]] = [
    ("/v1/chat/completions", chat, openai.APIError),
    ("/v1/chat/completions", chat_helper, openai.APIError),
    ("/v1/completions", completions, openai.APIError),
    ("/v1/responses", responses, openai.APIError),
    ("/v1/responses", responses_helper, openai.APIError),
    ("/v1/messages", messages, anthropic.APIError),
    ("/v1/messages", messages_helper, anthropic.APIError),
    ("/api/chat", ollama_chat, ollama.ResponseError),
    ("/api/generate", ollama_generate, ollama.ResponseError),
]
ways = pytest.mark.parametrize(("path", "say", "failure"), WAYS, ids=[way[1].__name__ for way in WAYS])


@ways
def test_heartbeats_change_nothing(path: str, say: Say, failure: type[Exception]) -> None:
    """Before the first event, which is where they matter, and between any two."""
    events, beat = SHAPES[path].stream(REPLY), ENDPOINTS[path].dialect.heartbeat(path)
    with open_client(path, b"".join(events)) as client:
        plain = say(client)
    with open_client(path, beat + beat.join(events)) as client:
        assert say(client) == plain
    assert plain[0] == REPLY.text


@ways
def test_an_error_in_the_middle_of_a_stream_is_raised(path: str, say: Say, failure: type[Exception]) -> None:
    events, error = SHAPES[path].stream(REPLY), ENDPOINTS[path].dialect.error_event(*WORDS)
    for upto in (0, 1, len(events) // 2, len(events) - 1):
        with open_client(path, b"".join(events[:upto]) + error) as client, pytest.raises(failure) as raised:
            say(client)
        assert WORDS[2] in str(raised.value)


@ways
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 503, 504])
def test_an_error_reply_is_raised(path: str, say: Say, failure: type[Exception], status: int) -> None:
    body = ENDPOINTS[path].dialect.error(status, "some_code", WORDS[2], "req_7")
    with open_client(path, body, status) as client, pytest.raises(failure) as raised:
        say(client)
    error: Any = raised.value
    assert error.status_code == status
    assert WORDS[2] in str(error)
    if isinstance(error, openai.APIError):
        assert (error.code, error.param) == ("some_code", None)


def test_an_event_consumer_of_responses_sees_the_apis_own_error_event() -> None:
    """One that looks only at the types of events, as programs without an official client do."""
    events = openai.types.responses
    error = DIALECTS["openai_responses"].error_event(*WORDS).split(b"data: ")[1]
    event = events.ResponseErrorEvent.model_validate_json(error)
    assert (event.type, event.code, event.message) == ("error", WORDS[1], WORDS[2])


def test_anthropics_client_reads_the_request_id() -> None:
    body = DIALECTS["anthropic"].error(*WORDS)
    error = anthropic.types.ErrorResponse.model_validate_json(body)
    assert (error.request_id, error.error.type, error.error.message) == ("req_7", "api_error", WORDS[2])
