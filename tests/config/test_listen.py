from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.listen import Address, parse_address
from tests.config.reports import ok, wrong


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8484", "127.0.0.1", 8484),
        ("localhost:1", "localhost", 1),
        ("[::1]:8484", "::1", 8484),
        ("[0:0::1]:8484", "::1", 8484),
        ("[fe80::1%eth0]:80", "fe80::1%eth0", 80),
        (":8484", "", 8484),
        ("a:0", "a", 0),
        ("a:65535", "a", 65535),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int) -> None:
    address = parse_address(text)
    assert address == (host, port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:",
        "a:b",
        "::1:80",
        "[::1]",
        "[x]:1",
        "[::1:1",
        "a:70000",
        "http://a:1",
        "a:-1",
        "a:123456",
        "a b:1",
        "a:1\n",
        "[1.2.3.4]:1",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_address(text)


@pytest.mark.parametrize("value", [8484, True, None, 1.5, ["a:1"]])
def test_what_is_no_text_is_no_address(value: object) -> None:
    with pytest.raises(ValueError):
        parse_address(value)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
        ("127.0.0.1:1", "[::1]:1", False),
        ("LOCALHOST:1", "127.0.0.1:1", True),
        ("localhost:1", "[::1]:1", True),
        (":1", "127.0.0.1:1", True),
        (":1", "[::1]:1", True),
        ("0.0.0.0:1", "10.0.0.1:1", True),
        ("0.0.0.0:1", "[::]:1", False),
        ("[::]:1", "[::1]:1", True),
        ("[::]:1", "127.0.0.1:1", False),
        ("Box.lan:1", "box.lan:1", True),
        ("a:0", "a:0", False),
        (":0", ":0", False),
    ],
)
def test_which_addresses_cannot_be_listened_on_together(one: str, other: str, overlap: bool) -> None:
    assert parse_address(one).overlaps(parse_address(other)) is overlap
    assert parse_address(other).overlaps(parse_address(one)) is overlap


@given(st.ip_addresses(), st.integers(0, 65535))
def test_every_address_of_the_internet_protocols_reads_back(ip: object, port: int) -> None:
    address = Address(str(ip), port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("listen: 'a:1'", [("a", 1, "auto")]),
        ("listen: ['a:1']", [("a", 1, "auto")]),
        ("listen: { address: 'a:1', identity: ollama }", [("a", 1, "ollama")]),
        ("identity: openai\nlisten: ['a:1', { address: ':2', identity: ollama }]", [("a", 1, "openai"), ("", 2, "ollama")]),
        ("listen: [{ address: '127.0.0.1:0' }, '127.0.0.1:0']", [("127.0.0.1", 0, "auto"), ("127.0.0.1", 0, "auto")]),
    ],
)
def test_listen_is_one_address_or_a_list(text: str, listeners: list[tuple[str, int, str]]) -> None:
    assert [tuple(listener) for listener in ok(text).listeners] == listeners


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("listen: []", "1:9 listen: needs at least one address"),
        ("listen: 8484", "1:9 listen: not an address;"),
        ("listen: ['a:1', b]", "1:17 listen[1]: not an address;"),
        ("listen: ['a:1', ]\nlisten: x", "2:1 listen: this key is given twice"),
        ("listen: ['a:1', ~]", "1:17 listen[1]: not an address;"),
        ("listen: 'a:99999'", "1:9 listen: the port must be from 0 to 65535"),
        ("listen: '[::x]:1'", "1:9 listen: not an address;"),
        ("listen: '[1::2::3]:1'", "1:9 listen: what stands in brackets is not an IPv6 address"),
        ("listen: { adress: 'a:1', address: 'a:1' }", "1:11 listen.adress: unknown key; did you mean address?"),
        ("listen: [{ identity: ollama }]", "1:10 listen[0].address: is missing"),
        (
            "listen: [{ address: 'a:1', identity: lama }]",
            "1:38 listen[0].identity: must be auto, llamacpp, llamaswap, lmstudio, ollama, omlx, openai or vllm; did you",
        ),
    ],
)
def test_other_forms_are_refused(text: str, problem: str) -> None:
    (found,) = wrong(text)
    assert found.startswith(problem)
