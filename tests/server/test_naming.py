from __future__ import annotations

import pytest

from gateway.server.naming import Name, find, in_body, in_path

JSON = "application/json"
FORM = b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nw\r\n--x'


@pytest.mark.parametrize(
    ("path", "query", "kind", "head", "found"),
    [
        ("/v1/embeddings", "", JSON, b'{"input": "x", "model": "e"}', Name("e", "model")),
        ("/api/pull", "", JSON, b'{"name": "q:7b"}', Name("q:7b", "name")),
        ("/api/v1/models/load", "", JSON, b'{"model": "qwen/q"}', Name("qwen/q", "model")),
        ("/api/v1/models/unload", "", JSON, b'{"instance_id": "q:2"}', Name("q:2", "instance_id")),
        ("/v1/models/qwen/q", "", "", b"", Name("qwen/q")),
        ("/v1/models/q/load", "", "", b"", Name("q")),
        ("/v1/models/q/unload", "", JSON, b"{}", Name("q")),
        ("/v1/models/status", "", "", b"", None),
        ("/api/v0/models/q", "", "", b"", Name("q")),
        ("/props", "model=a%20b&x=1", "", b"", Name("a b")),
        (
            "/v1/audio",
            "",
            "multipart/form-data",
            b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nw\r\n--x',
            Name("w"),
        ),
        ("/api/v1/models", "", "", b"", None),
        ("/x", "", JSON, b"[1]", None),
        ("/x", "", JSON, b'{"model": 5}', None),
    ],
)
def test_where_a_model_is_named(path: str, query: str, kind: str, head: bytes, found: Name | None) -> None:
    assert find(path, query, kind, head) == found


def test_only_the_name_changes() -> None:
    assert in_body(b'{"a": 1.10, "name": "x"}', Name("x", "name"), "y:7b") == b'{"a": 1.10, "name": "y:7b"}'
    assert in_body(b"not json", Name("x", "name"), "y") == b"not json"
    assert in_path("/v1/models/x/load?a=%2F", Name("x"), "qwen/y:7b") == "/v1/models/qwen/y:7b/load?a=%2F"
    assert in_path("/v1/models/x", Name("x", "model"), "y") == "/v1/models/x"
    assert in_path("/v1/embeddings", Name("x", "model"), "y") == "/v1/embeddings"
