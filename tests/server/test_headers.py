"""What passes between client and backend, and what belongs to one connection only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy, MultiMapping

from gateway.server.headers import HOPS, hops, to_client, to_upstream

HOP = [
    ("Connection", "X-Private , close"),
    ("Connection", "x-second"),
    ("X-Private", "1"),
    ("X-Second", "2"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Connection", "keep-alive"),
    ("Proxy-Authorization", "Basic abc"),
    ("Proxy-Authenticate", "Basic"),
    ("TE", "trailers"),
    ("Trailer", "Expires"),
    ("Transfer-Encoding", "chunked"),
    ("Upgrade", "h2c"),
    ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
]


def request(*more: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict([("Host", "gateway:8484"), ("User-Agent", "agent/1"), *more]))


def upward(headers: MultiMapping[str], **options: Any) -> CIMultiDict[str]:
    """What goes to a backend, but for the count of gateways."""
    out = to_upstream(headers, **options)
    assert out.popall(HOPS) == [str(hops(headers) + 1)]
    return out


def test_headers_of_one_connection_stay_on_it() -> None:
    up = upward(request(*HOP), dialect_call=False)
    assert up == CIMultiDict({"User-Agent": "agent/1"})
    down = to_client(CIMultiDict([*HOP, ("Content-Type", "application/json")]), decoded=False, streaming=False)
    assert down == CIMultiDict({"Content-Type": "application/json"})


def test_what_is_not_ours_passes_in_order_and_unchanged() -> None:
    rest = [
        ("Content-Type", "application/json"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("x-stainless-os", "Linux"),
        ("X-Forwarded-For", "10.0.0.2"),
        ("anthropic-version", "2023-06-01"),
        ("Authorization", "Bearer sk"),
        ("x-api-key", "sk"),
        ("Cookie", "a=b; c=d"),
    ]
    up = upward(request(*rest), dialect_call=False)
    assert list(up.items()) == [("User-Agent", "agent/1"), *rest]


def test_host_expect_and_origin_end_here() -> None:
    up = upward(request(("Expect", "100-continue"), ("Origin", "http://localhost:3000")), dialect_call=True)
    assert "Host" not in up
    assert "Expect" not in up
    assert "Origin" not in up


def test_no_forwarding_headers_are_invented() -> None:
    assert set(upward(request(), dialect_call=True)) == {"User-Agent", "Accept-Encoding"}


@pytest.mark.parametrize(
    ("sent", "dialect_call", "expected"),
    [
        ("gzip, br, zstd", True, ["identity"]),
        (None, True, ["identity"]),
        ("gzip, br, zstd", False, ["gzip, br, zstd"]),
        (None, False, []),
    ],
)
def test_accept_encoding(sent: str | None, dialect_call: bool, expected: list[str]) -> None:
    headers = request() if sent is None else request(("accept-encoding", sent))
    assert upward(headers, dialect_call=dialect_call).getall("Accept-Encoding", []) == expected


def test_length_is_kept_for_streamed_bodies_only() -> None:
    headers = request(("Content-Length", "10"), ("Content-Encoding", "zstd"))
    assert upward(headers, dialect_call=False)["Content-Length"] == "10"
    buffered = upward(headers, dialect_call=True)
    assert "Content-Length" not in buffered
    assert buffered["Content-Encoding"] == "zstd"
    for dialect_call in (True, False):
        decoded = upward(headers, dialect_call=dialect_call, decoded=True)
        assert "Content-Length" not in decoded
        assert "Content-Encoding" not in decoded


def test_length_beside_chunks_never_passes() -> None:
    headers = request(("Transfer-Encoding", "chunked"), ("Content-Length", "10"))
    assert "Content-Length" not in upward(headers, dialect_call=False)


def test_configured_headers_replace_the_clients() -> None:
    headers = request(("x-team", "client"), ("X-Team", "client 2"), ("accept", "*/*"))
    up = upward(headers, configured={"X-Team": "ops", "Host": "inner.example"}, dialect_call=True)
    assert up.getall("x-team") == ["ops"]
    assert up.getall("Host") == ["inner.example"]
    assert up["Accept"] == "*/*"


@pytest.mark.parametrize("name", ["authorization", "Authorization", "X-API-Key"])
def test_configured_credentials_replace_all_of_the_clients(name: str) -> None:
    headers = request(("Authorization", "Bearer client"), ("x-api-key", "client"))
    up = upward(headers, configured={name: "ours"}, dialect_call=True)
    assert [value for key, value in up.items() if key.lower() in ("authorization", "x-api-key")] == ["ours"]


def test_strip_and_drop_are_removed() -> None:
    headers = request(("Authorization", "Bearer gateway"), ("X-Session-Id", "s"), ("x-api-key", "backend"))
    up = upward(headers, strip={"x-session-id"}, drop={"authorization"}, dialect_call=False)
    assert set(up) == {"User-Agent", "x-api-key"}


def test_the_admin_token_and_gateway_headers_stay_here() -> None:
    headers = request(
        ("X-Warmgate-Token", "tok"),
        ("x-warmgate-mode", "off"),
        ("Cookie", "a=b; warmgate_token=tok; c=d"),
        ("Cookie", "warmgate_token=tok"),
    )
    up = upward(headers, dialect_call=True)
    assert "tok" not in str(up)
    assert "x-warmgate-mode" not in up
    assert [[pair.strip() for pair in line.split(";")] for line in up.getall("Cookie")] == [["a=b", "c=d"]]


@pytest.mark.parametrize(("name", "value"), [("X-A", "1\r\nX-B: 2"), ("X-A", "1\nX-B: 2"), ("X-A\r\nX-B", "2"), ("X-A", "1\0")])
def test_line_breaks_never_pass(name: str, value: str) -> None:
    evil = CIMultiDict([(name, value), ("Good", "1")])
    assert set(upward(evil, configured={name: value}, dialect_call=False)) == {"Good"}
    assert set(to_client(evil, decoded=False, streaming=False)) == {"Good"}


def test_a_broken_configured_value_does_not_bring_the_clients_back() -> None:
    up = upward(request(("X-Team", "client")), configured={"x-team": "ops\n"}, dialect_call=False)
    assert "X-Team" not in up


def test_cookies_of_a_backend_all_arrive() -> None:
    headers = CIMultiDict([("Set-Cookie", "a=1; Path=/"), ("Set-Cookie", "b=2"), ("set-cookie", "c=3")])
    down = to_client(headers, decoded=True, streaming=True)
    assert down.getall("Set-Cookie") == ["a=1; Path=/", "b=2", "c=3"]


def test_body_headers_go_when_the_body_changes() -> None:
    headers = CIMultiDict({"Content-Encoding": "gzip", "Content-Length": "10", "Content-Type": "text/event-stream"})
    assert to_client(headers, decoded=False, streaming=False) == headers
    assert set(to_client(headers, decoded=True, streaming=False)) == {"Content-Type"}
    streamed = to_client(headers, decoded=False, streaming=True)
    assert "Content-Length" not in streamed
    assert streamed["Content-Encoding"] == "gzip"


def test_streams_are_not_held_back_on_their_way() -> None:
    headers = CIMultiDict([("Cache-Control", "public, max-age=60"), ("cache-control", "x"), ("X-Accel-Buffering", "yes")])
    down = to_client(headers, decoded=False, streaming=True)
    assert down.getall("Cache-Control") == ["no-cache, no-transform"]
    assert down.getall("X-Accel-Buffering") == ["no"]
    kept = to_client(headers, decoded=False, streaming=False)
    assert kept.getall("Cache-Control") == ["public, max-age=60", "x"]


def test_a_backend_speaks_neither_for_our_origins_nor_in_our_name() -> None:
    headers = CIMultiDict(
        {
            "Access-Control-Allow-Origin": "*",
            "access-control-allow-credentials": "true",
            "X-Warmgate-Backend": "fake",
            "Vary": "x",
        }
    )
    assert set(to_client(headers, decoded=False, streaming=False)) == {"Vary"}


NAMES = st.sampled_from(["X-A", "x-a", "Accept", "Connection", "TE", "Set-Cookie", "Host", "Content-Length", "X-Warmgate-Mode"])


@given(st.lists(st.tuples(NAMES, st.text(max_size=12))), st.booleans(), st.booleans())
def test_nothing_is_invented_reordered_or_altered(pairs: list[tuple[str, str]], first: bool, second: bool) -> None:
    headers = CIMultiDict(pairs)
    before = list(headers.items())
    ours = {"accept-encoding", "cache-control", "x-accel-buffering"}
    for out in (upward(headers, dialect_call=first, decoded=second), to_client(headers, decoded=first, streaming=second)):
        rest = iter(before)
        assert all(pair in rest for pair in out.items() if pair[0].lower() not in ours)
        assert not any("\n" in value or "\r" in value for value in out.values())
    assert list(headers.items()) == before


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0),
        (["1"], 1),
        (["3", "2"], 3),
        (["4321"], 4321),
        (["-1"], 0),
        ([""], 0),
        (["9" * 5000], 0),
        (["٣"], 0),
        (["2, 3"], 0),
    ],
)
def test_gateways_are_counted(values: list[str], expected: int) -> None:
    headers = request(*((HOPS.lower(), value) for value in values))
    assert hops(headers) == expected
    assert to_upstream(headers, configured={HOPS: "0"}, dialect_call=True).getall(HOPS) == [str(expected + 1)]
