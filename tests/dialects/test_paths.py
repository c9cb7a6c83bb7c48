"""The path table."""

from __future__ import annotations

import pytest

from gateway.dialects import DIALECTS, ENDPOINTS, PLAIN, find, for_path, usage_request

TABLE = {
    "openai_chat": "/v1/chat/completions /chat/completions /api/v0/chat/completions",
    "openai_completions": "/v1/completions /completions /api/v0/completions",
    "openai_responses": "/v1/responses /responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat /api/generate",
    "llamacpp": "/completion /infill",
}
COUNTS = {
    "openai_chat": "/v1/chat/completions/input_tokens",
    "openai_responses": "/v1/responses/input_tokens",
    "anthropic": "/v1/messages/count_tokens",
}


def test_the_table_is_complete() -> None:
    rows = {(path, name, "answer") for name, paths in TABLE.items() for path in paths.split()}
    rows |= {(path, name, "count") for name, path in COUNTS.items()}
    assert {(path, row.dialect.name, row.task) for path, row in ENDPOINTS.items()} == rows
    assert all(row.path == path for path, row in ENDPOINTS.items())
    assert set(DIALECTS) == {*TABLE, "plain"}
    assert all(dialect.name == name for name, dialect in DIALECTS.items())


def test_find() -> None:
    assert find("POST", "/v1/messages") is ENDPOINTS["/v1/messages"]
    assert find("POST", "/v1/messages/") is ENDPOINTS["/v1/messages"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("POST", "/v1/messages//"),
        ("POST", "//v1/messages"),
        ("POST", "/v1//messages"),
        ("POST", "/V1/messages"),
        ("POST", "/v1/embeddings"),
        ("POST", ""),
        ("POST", "/"),
    ],
)
def test_what_is_not_in_the_table_is_passed_through(method: str, path: str) -> None:
    assert find(method, path) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/completions/", "openai_completions"),
        ("/v1/models", "openai_chat"),
        ("/v1/messages/batches", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/api/tags", "ollama"),
        ("/api/v0/models", "openai_chat"),
        ("/api/v1/chat", "openai_chat"),
        ("/completion", "llamacpp"),
        ("/", "plain"),
        ("/metrics", "plain"),
    ],
)
def test_for_path(path: str, name: str) -> None:
    assert for_path(path).name == name


def test_a_header_tells_an_anthropic_client_where_the_path_does_not() -> None:
    headers = {"anthropic-version": "2023-06-01"}
    assert for_path("/v1/models", headers).name == "anthropic"
    assert for_path("/v1/chat/completions", headers).name == "openai_chat"
    assert for_path("/api/tags", headers).name == "ollama"
    assert for_path("/props", headers) is PLAIN
    assert for_path("/v1/models", {}).name == "openai_chat"


def test_only_two_apis_are_asked_for_their_counts() -> None:
    asked = {path for path in ENDPOINTS if usage_request(path, {"stream": True})}
    assert asked == set(f"{TABLE['openai_chat']} {TABLE['openai_completions']}".split())
    assert usage_request("/v1/unknown", {"stream": True}) is None


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_stream_is_wanted_if_the_api_would_stream(path: str) -> None:
    dialect, task = ENDPOINTS[path].dialect, ENDPOINTS[path].task
    assert dialect.wants_stream(path, {"stream": True}) is (task == "answer")
    assert dialect.wants_stream(path, {"stream": False}) is False
    for silent in ({}, {"stream": None}):
        assert dialect.wants_stream(path, silent) is (dialect.name == "ollama")
