"""How a native Ollama request says how its model is loaded, and how that is changed without touching anything else."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ollama_load import (
    is_empty,
    keep_alive,
    load_options,
    spell,
    unloads,
    with_keep_alive,
    with_options,
)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (300, 300.0), (0, 0.0), (1.5, 1.5), (-1, math.inf), (-0.5, math.inf), ("5m", 300.0), ("1h30m", 5400.0), ("0", 0.0),
        ("250ms", 0.25), ("-1m", math.inf), ("-1s", math.inf), (".5h", 1800.0), ("+10s", 10.0),
        (None, None), (True, None), ("300", None), ("-1", None), ("5 m", None), ("", None), ("m", None), ([], None),
    ],
)  # fmt: skip
def test_what_a_keep_alive_means(value: Any, seconds: float | None) -> None:
    found = keep_alive(value)
    assert found == (pytest.approx(seconds) if seconds is not None else None)


@pytest.mark.parametrize(
    ("path", "body", "empty", "unload"),
    [
        ("/api/generate", {"model": "m"}, True, False),
        ("/api/generate", {"model": "m", "prompt": "", "keep_alive": 0}, True, True),
        ("/api/generate", {"model": "m", "prompt": "hi", "keep_alive": 0}, False, False),
        ("/api/generate", {"model": "m", "images": ["x"], "keep_alive": 0}, False, False),
        ("/api/chat", {"model": "m", "messages": [], "keep_alive": "0s"}, True, True),
        ("/api/chat", {"model": "m", "messages": [{"role": "user", "content": "hi"}], "keep_alive": 0}, False, False),
        ("/api/embed", {"model": "m", "input": "", "keep_alive": 0}, True, True),
        ("/api/embed", {"model": "m", "input": "x", "keep_alive": 0}, False, False),
        ("/v1/chat/completions", {"model": "m", "messages": [], "keep_alive": 0}, False, False),
    ],
)
def test_requests_that_only_load_or_unload(path: str, body: dict[str, Any], empty: bool, unload: bool) -> None:
    assert is_empty(path, body) is empty
    assert unloads(path, body) is unload


def test_only_options_of_a_loaded_model_count() -> None:
    body = {"options": {"num_ctx": 8192, "top_p": 0.9, "use_mlock": True, "num_gpu": None, "seed": 3}}
    assert load_options(body) == {"num_ctx": 8192, "use_mlock": True}
    assert load_options({"options": [1]}) == {}
    assert load_options({}) == {}


def test_one_member_of_options_is_changed_and_all_other_bytes_stay() -> None:
    raw = b'{"model":"m", "options" : { "top_p":0.90,"num_ctx":4096 , "x":1.10},"n":12345678901234567890}'
    assert with_options(raw, {"num_ctx": 32000}) == raw.replace(b"4096", b"32000")


def test_options_are_made_where_there_are_none() -> None:
    assert orjson.loads(with_options(b'{"model":"m"}', {"num_ctx": 1, "num_gpu": 2}))["options"] == {"num_ctx": 1, "num_gpu": 2}
    assert orjson.loads(with_options(b'{"options":null}', {"num_ctx": 1}))["options"] == {"num_ctx": 1}
    assert orjson.loads(with_options(b'{"options":{}}', {"num_ctx": 1}))["options"] == {"num_ctx": 1}


def test_options_that_are_no_object_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="object"):
        with_options(b'{"options":[1]}', {"num_ctx": 1})


@pytest.mark.parametrize(("seconds", "text"), [(300.0, b"300"), (0.2, b"1"), (math.inf, b"-1")])
def test_how_a_keep_alive_is_written(seconds: float, text: bytes) -> None:
    assert spell(seconds) == text
    assert orjson.loads(with_keep_alive(b'{"keep_alive":"5m","model":"m"}', seconds)) == {
        "keep_alive": orjson.loads(text),
        "model": "m",
    }


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    body=st.dictionaries(st.text(max_size=6), _VALUES, max_size=5),
    options=st.dictionaries(st.sampled_from(["num_ctx", "top_p", "num_gpu", "seed"]), _VALUES, max_size=4),
    wanted=st.integers(1, 10**6),
)
def test_nothing_else_is_lost(body: dict[str, Any], options: dict[str, Any], wanted: int) -> None:
    raw = json.dumps({**body, "options": options}).encode()
    changed = json.loads(with_options(raw, {"num_ctx": wanted}))
    assert changed == {**body, "options": {**options, "num_ctx": wanted}}
