from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Config, InvalidConfig, load, loads, to_yaml
from gateway.config.loader import MAX_BYTES
from gateway.errors import ConfigError


def written(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def test_a_file_is_loaded_with_the_environment_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "not this one")
    file = written(tmp_path / "w.yaml", b"\xef\xbb\xbfidentity: ${X}\r\n")
    assert load(file, {"X": "ollama"}).identity == "ollama"


def test_reports_begin_with_the_files_name(tmp_path: Path) -> None:
    file = written(tmp_path / "w.yaml", b"x: 1")
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value).startswith(f"{file}:1:1: x: unknown key")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"hosts:\n  - \xff\n", ":2: the configuration is not UTF-8 text"),
        ("listen: :1".encode("utf-16"), ":1: the configuration is not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), ": the configuration is larger than 1 MiB"),
        (b"a\x00b", ":1:2: YAML does not allow this character"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, raw: bytes, words: str) -> None:
    file = written(tmp_path / "w.yaml", raw)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert str(caught.value).startswith(f"{file}{words}")


def test_the_largest_file_is_still_read(tmp_path: Path) -> None:
    assert load(written(tmp_path / "w.yaml", b"#" * MAX_BYTES), {}) == Config()


@pytest.mark.parametrize("name", [".", "none.yaml", "a\0b", "x" * 5000])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="the configuration cannot be read: "):
        load(tmp_path / name, {})


def test_a_text_has_the_same_limit() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        loads("#" * (MAX_BYTES + 1), "w.yaml", {})


def test_no_value_is_kept_in_the_errors_behind_the_error() -> None:
    with pytest.raises(InvalidConfig) as caught:
        loads("api_keys: hunter2", "w.yaml", {})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


WORDS = """listen identity admin token backends a url kind headers tls ca models targets aliases limits body drain routing queue
timeouts idle address api_keys hosts log [key] 0 << a/b"""
KEYS = st.sampled_from([*WORDS.split(), ""])
TEXTS = "a/b :8484 127.0.0.1:8485 http://h ${A} ${B:-x} ${ $${ 30s 64MiB ollama \ud800 \x00"
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(TEXTS.split(" "))
)  # fmt: skip
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
ALPHABET = "ab:- \n\t{}[],'\"\\#&*!|>%@`?~$<=./0x\x07\x85\u2028\ud800\ufeff"


def loads_or_is_refused(text: str) -> None:
    """Anything but a Config or a ConfigError whose text can be printed is an exception, and fails the test."""
    try:
        assert isinstance(loads(text, "w.yaml", {"A": "b"}), Config)
    except ConfigError as error:
        str(error).encode()


@settings(deadline=None)
@given(st.text(alphabet=ALPHABET, max_size=40))
def test_any_text_loads_or_is_refused(text: str) -> None:
    loads_or_is_refused(text)


@settings(deadline=None)
@given(st.dictionaries(KEYS, TREES, max_size=6) | TREES)
def test_any_tree_loads_or_is_refused(tree: object) -> None:
    loads_or_is_refused(to_yaml(tree))


EXAMPLE = (Path(__file__).parents[2] / "config.example.yaml").read_text()


@settings(deadline=None)
@given(st.integers(0, len(EXAMPLE)), st.integers(0, 30), st.text(alphabet=ALPHABET, max_size=4))
def test_a_damaged_file_loads_or_is_refused(at: int, less: int, more: str) -> None:
    loads_or_is_refused(EXAMPLE[:at] + more + EXAMPLE[at + less :])
