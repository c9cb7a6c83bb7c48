from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import InvalidConfig, to_yaml
from gateway.config.document import read
from gateway.config.yaml12 import MAX_DEPTH, MAX_NODES, compose


def value(text: str) -> Any:
    return read("x.yaml", f"v: {text}\n", {}).root.plain()["v"]


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "off",
        "yes",
        "no",
        "On",
        "NO",
        "y",
        "n",
        "tRUE",
        "1:30",
        "22:22:22",
        "1_000",
        "0b1",
        "2024-01-02",
        "=",
        "0o8",
        "0xg",
        "1e",
        ".",
        "+",
        "-x",
        ".info",
        "+.nan",
        "1.2.3",
        "'1'",
        '"true"',
        "!!str 1",
    ],
)
def test_text_stays_text(text: str) -> None:
    assert value(text) == text.removeprefix("!!str ").strip("'\"")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("+7", 7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("~", None),
        ("null", None),
        ("", None),
        ("!!int 3", 3),
        ("!!null ''", None),
    ],
)
def test_the_core_schema_is_followed(text: str, expected: object) -> None:
    found = value(text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\n\tb: 2", "2:1", "indent with spaces"),
        ("a: {b: ${C}}", "1:9", "put ${VAR} in quotes"),
        ("listen: [::1]:80", "1:10", "IPv6 address in quotes"),
        ("a: b: c", "1:5", "colon and a space in quotes"),
        ("a: @b", "1:4", "special character in quotes"),
        ("b: 1\na: 'open\n\nc: 2\n", "2:4", "end of stream"),
        ("a: *none", "1:4", "undefined alias"),
        ("a: 1\n--- \nb: 2", "2:1", "single document"),
        ('a: "\\UFFFFFFFF"', "1:7", "no such character"),
        ("a: 1\r\nb: \x07", "2:4", "does not allow this character"),
        ("%YAML 1." + "9" * 5000 + "\n---\n", "1:9", "no such character or number"),
        ("[" * 5000, "1:", f"more than {MAX_DEPTH} deep"),
        ("- a\n" * MAX_NODES, f"{MAX_NODES + 1}:", f"more than {MAX_NODES} values"),
    ],
)
def test_a_syntax_error_is_told_at_its_place_with_advice(text: str, place: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        compose("x.yaml", text)
    assert str(caught.value).startswith(f"x.yaml:{place}")
    assert words in str(caught.value)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.sampled_from(["on", "0o10", "010", "1e3", "1:30", "~", "${A}", "a: b", "# x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["on", "0o10", "a", "1", "null", "x y"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(PLAIN)
def test_what_is_written_reads_the_same_under_both_versions_of_yaml(data: Any) -> None:
    text = to_yaml({"v": data})
    assert yaml.safe_load(text) == {"v": data}
    assert read("x.yaml", text.replace("${", "$${"), {}).root.plain() == {"v": data}
