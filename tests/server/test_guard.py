"""Browsers at the door: names rebound to loopback, foreign pages, stolen keys, disguised paths."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict

from gateway.server import guard
from gateway.server.guard import (
    authenticate,
    cors_headers,
    destructive,
    host_allowed,
    is_preflight,
    origin_allowed,
    preflight,
    same_origin,
    token_valid,
)

LOOPBACK = ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8", "LOCALHOST."]
OPEN = ["0.0.0.0", "::", "192.168.1.5", ""]

LOCAL_HOSTS = [
    "localhost",
    "localhost:8484",
    "LocalHost:8484",
    "localhost.",
    "127.0.0.1",
    "127.0.0.1:8484",
    "127.0.0.1.:8484",
    "127.255.1.2",
    "[::1]",
    "[::1]:8484",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]:8484",
    "[::1%lo]:8484",
    "[::1%25lo]",
    "host.docker.internal:8484",
]
FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:8484",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "notlocalhost",
    "0.0.0.0:8484",
    "192.168.1.5:8484",
    "[2001:db8::1]",
    "2130706433",
    "0x7f.1",
]
GARBAGE = [
    "",
    ".",
    ":8484",
    "localhost:",
    "localhost:99999",
    "localhost:8484:8484",
    "user@localhost",
    "localhost@evil.example",
    "localhost:8484@evil.example",
    "localhost/evil.example",
    "localhost evil.example",
    " localhost",
    "localhost\t",
    "localhost\n",
    "localhost\x00",
    "localhost,evil.example",
    "http://localhost",
    "::1",
    "[::1",
    "::1]",
    "[fade]",
    "lócalhost",
    "localhos\u017f",
    "１２７.0.0.1",
    "a" * 600,
]


@pytest.mark.parametrize("bound", LOOPBACK)
@pytest.mark.parametrize("host", LOCAL_HOSTS)
def test_a_loopback_listener_serves_this_machine(bound: str, host: str) -> None:
    assert host_allowed(host, bound)


@pytest.mark.parametrize("bound", LOOPBACK)
@pytest.mark.parametrize("host", FOREIGN_HOSTS + GARBAGE)
def test_a_loopback_listener_refuses_everything_else(bound: str, host: str) -> None:
    assert not host_allowed(host, bound)
    assert not host_allowed(host, bound, ["box.lan", "*.ts.example"])


@pytest.mark.parametrize("bound", OPEN)
@pytest.mark.parametrize("host", LOCAL_HOSTS + FOREIGN_HOSTS)
def test_an_open_listener_serves_any_name(bound: str, host: str) -> None:
    assert host_allowed(host, bound)


@pytest.mark.parametrize("bound", OPEN)
@pytest.mark.parametrize("host", GARBAGE)
def test_an_open_listener_refuses_garbage(bound: str, host: str) -> None:
    assert not host_allowed(host, bound)
    assert not host_allowed(host, bound, ["*"])


@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("box.lan", True),
        ("BOX.lan.:8484", True),
        ("box.lan.evil.example", False),
        ("a.ts.example:1", True),
        ("a.b.ts.example", True),
        ("ts.example", False),
        ("ats.example", False),
        ("localhost", True),
        ("evil.example", False),
    ],
)
def test_configured_hosts(bound: str, host: str, passes: bool) -> None:
    assert host_allowed(host, bound, ["Box.LAN", "*.ts.example"]) is passes


def test_configured_hosts_on_an_open_listener_keep_addresses() -> None:
    assert host_allowed("192.168.1.5:8484", "0.0.0.0", ["box.lan"])
    assert host_allowed("[2001:db8::1]", "::", ["box.lan"])


def test_star_and_addresses_may_be_configured() -> None:
    assert host_allowed("anything.example", "127.0.0.1", ["*"])
    assert host_allowed("[2001:DB8:0::1]:80", "::1", ["2001:db8::1"])
    assert host_allowed("192.168.1.5", "127.0.0.1", ["192.168.1.5"])
    assert host_allowed("[fe80::1%25eth0]:80", "127.0.0.1", ["[fe80::1]"])


def test_a_request_without_host_passes() -> None:
    assert host_allowed(None, "127.0.0.1")


@given(st.text("localhst.127:0[]@/%\\ #é", max_size=24) | st.text(max_size=24))
@example("localhost#@evil.example")
@example("localhost\\.evil.example")
def test_what_passes_is_this_machine_to_another_parser_too(host: str) -> None:
    if host_allowed(host, "127.0.0.1"):
        url = urlsplit(f"http://{host}/")
        name = (url.hostname or "").partition("%")[0].rstrip(".")
        assert url.username is None
        assert name in guard.LOCAL_NAMES or ip_address(name).is_loopback


LOCAL_ORIGINS = [
    "http://localhost",
    "http://localhost:3000",
    "https://LOCALHOST:3000",
    "http://127.0.0.1:5173",
    "http://[::1]:5173",
    "http://0.0.0.0:8000",
    "app://obsidian.md",
    "file://",
    "tauri://localhost",
    "vscode-webview://1abc2def",
    "vscode-file://vscode-app",
]
FOREIGN_ORIGINS = [
    "https://evil.example",
    "http://evil.example:8484",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://localhost@evil.example",
    "http://user:pw@localhost",
    "http://localhost:3000@evil.example",
    "http://evil.example/http://localhost",
    "http://evil.example#http://localhost",
    "http://localhost\\.evil.example",
    "http://localhost:3000 https://evil.example",
    "https://",
    "http://",
    "localhost",
    "//localhost",
    "null",
    "NULL",
    "",
    "chrome-extension://abcdef",
    "ftp://localhost",
    "application://x",
    "myapp://x",
    "javascript:alert(1)",
    "http://localhost:3000" + "0" * 600,
]


@pytest.mark.parametrize("origin", LOCAL_ORIGINS)
def test_pages_on_this_machine_pass(origin: str) -> None:
    assert origin_allowed(origin, "127.0.0.1:8484")
    assert origin_allowed(origin, None)


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_foreign_pages_are_refused(origin: str) -> None:
    assert not origin_allowed(origin, "127.0.0.1:8484")
    assert not origin_allowed(origin, None)
    assert not origin_allowed(origin, "127.0.0.1:8484", ["https://good.example", "https://*.good.example"])


def test_no_origin_passes() -> None:
    assert origin_allowed(None, "127.0.0.1:8484")


@pytest.mark.parametrize(
    ("origin", "host", "passes"),
    [
        ("http://box.lan:8484", "box.lan:8484", True),
        ("http://BOX.lan:8484", "box.lan.:8484", True),
        ("https://box.lan", "box.lan", True),
        ("http://192.168.1.5:8484", "192.168.1.5:8484", True),
        ("http://box.lan:8485", "box.lan:8484", False),
        ("http://box.lan", "box.lan:8484", False),
        ("custom://box.lan:8484", "box.lan:8484", False),
        ("http://", "", False),
    ],
)
def test_a_page_that_the_listener_served_passes(origin: str, host: str, passes: bool) -> None:
    assert origin_allowed(origin, host) is passes


@pytest.mark.parametrize(
    ("pattern", "origin", "passes"),
    [
        ("https://chat.example.org", "https://chat.example.org", True),
        ("https://chat.example.org/", "https://Chat.Example.ORG", True),
        ("https://chat.example.org", "http://chat.example.org", False),
        ("https://chat.example.org", "https://chat.example.org:8443", False),
        ("https://chat.example.org", "https://chat-example.org", False),
        ("https://chat.example.org:*", "https://chat.example.org:8443", True),
        ("https://*.example.org", "https://a.example.org", True),
        ("https://*.example.org", "https://a.b.example.org", True),
        ("https://*.example.org", "https://example.org", False),
        ("https://*.example.org", "https://evil-example.org", False),
        ("https://*.example.org", "https://a.example.org.evil.example", False),
        ("http://10.0.0.*", "http://10.0.0.7", True),
        ("http://10.0.0.*", "http://10.0.0.evil.example", False),
        ("http://10.0.0.*:3000", "http://10.0.0.7:3000", True),
        ("http://*:3000", "http://any.example:3000", True),
        ("http://*:3000", "http://any.example:4000", False),
        ("https://*", "https://any.example:3000", True),
        ("https://*", "http://any.example", False),
        ("chrome-extension://*", "chrome-extension://abcdef", True),
        ("chrome-extension://*", "moz-extension://abcdef", False),
        ("chrome-extension://*", "chrome-extension://", False),
        ("chrome-extension://*", "chrome-extension://" + "a" * 600, False),
        ("chrome-extension://abc", "chrome-extension://abcd", False),
        ("*", "https://any.example", True),
        ("*", "chrome-extension://abcdef", True),
        ("*", "null", False),
        ("*", "garbage", False),
        ("null", "null", True),
        ("example.org", "https://example.org", False),
        (".*", "https://any.example", False),
    ],
)
def test_configured_origins(pattern: str, origin: str, passes: bool) -> None:
    assert origin_allowed(origin, "127.0.0.1:8484", [pattern]) is passes


@given(st.text(max_size=40), st.text(max_size=40), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_comes_as_origin_gets_a_verdict(origin: str, host: str, allowed: list[str]) -> None:
    assert origin_allowed(origin, host, allowed) in (True, False)


def test_cors_headers_name_the_origin_and_what_a_page_may_read() -> None:
    out = cors_headers("http://localhost:3000")
    assert out["Access-Control-Allow-Origin"] == "http://localhost:3000"
    assert out["Vary"] == "Origin"
    assert {"X-Request-Id", "X-Warmgate-Prefix", "Server-Timing"} <= set(out["Access-Control-Expose-Headers"].split(", "))
    assert cors_headers(None) == {}


def preflight_of(**more: str) -> CIMultiDict[str]:
    base = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    return CIMultiDict({**base, **{name.replace("_", "-"): value for name, value in more.items()}})


def test_preflight_is_told_from_a_plain_options_request() -> None:
    assert is_preflight("OPTIONS", preflight_of())
    assert not is_preflight("POST", preflight_of())
    assert not is_preflight("OPTIONS", CIMultiDict({"Origin": "http://localhost:3000"}))


def test_preflight_echoes_what_was_asked_for() -> None:
    out = preflight(preflight_of(Access_Control_Request_Headers="authorization, x-stainless-os,content-type"))
    assert out["Access-Control-Allow-Headers"] == "authorization, x-stainless-os, content-type"
    assert "POST" in out["Access-Control-Allow-Methods"].split(", ")
    assert "DELETE" in out["Access-Control-Allow-Methods"].split(", ")
    assert int(out["Access-Control-Max-Age"]) > 0
    assert out["Vary"] == "Access-Control-Request-Method, Access-Control-Request-Headers"
    assert "Access-Control-Allow-Private-Network" not in out


def test_preflight_repeats_nothing_of_the_headers_that_every_reply_has() -> None:
    """Two Access-Control-Allow-Origin headers are as good as none to a browser."""
    assert {name for name in preflight(preflight_of()) if name in cors_headers("http://localhost:3000")} == {"Vary"}


def test_preflight_allows_private_network_access_when_asked() -> None:
    out = preflight(preflight_of(Access_Control_Request_Private_Network="true"))
    assert out["Access-Control-Allow-Private-Network"] == "true"


def test_preflight_repeats_only_header_names() -> None:
    out = preflight(preflight_of(Access_Control_Request_Headers='x-ok, x bad, "x", x\r\nset-cookie: a=b,,'))
    assert out["Access-Control-Allow-Headers"] == "x-ok"
    assert "Access-Control-Allow-Headers" not in preflight(preflight_of(Access_Control_Request_Headers=" , "))


KEYS = ["first-key", "schlüssel-ключ"]


@pytest.mark.parametrize(
    ("headers", "drop"),
    [
        ({"Authorization": "Bearer first-key"}, {"authorization"}),
        ({"authorization": "bearer  first-key "}, {"authorization"}),
        ({"X-Api-Key": "first-key"}, {"x-api-key"}),
        ({"Authorization": "Bearer schlüssel-ключ"}, {"authorization"}),
        ({"Authorization": "Bearer first-key", "x-api-key": "first-key"}, {"authorization", "x-api-key"}),
        ({"Authorization": "Bearer for-the-backend", "x-api-key": "first-key"}, {"x-api-key"}),
        ({"Authorization": "Bearer first-key", "x-api-key": "for-the-backend"}, {"authorization"}),
    ],
)
def test_a_gateway_key_opens_and_stays_here(headers: dict[str, str], drop: set[str]) -> None:
    result = authenticate(CIMultiDict(headers), KEYS)
    assert result.ok
    assert result.drop == drop
    assert result.key
    assert not any(key in result.key for key in KEYS)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "first-key"},
        {"Authorization": "Basic first-key"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer first-key2"},
        {"Authorization": "Bearer first-ke"},
        {"Authorization": "Bearer FIRST-KEY"},
        {"Authorization": "Bearer \udcff\udcfe"},
        {"x-api-key": ""},
        {"Cookie": "x-api-key=first-key"},
    ],
)
def test_no_valid_key_no_entry(headers: dict[str, str]) -> None:
    result = authenticate(CIMultiDict(headers), KEYS)
    assert not result.ok
    assert result.key == ""


def test_without_keys_the_credential_is_the_backends() -> None:
    result = authenticate(CIMultiDict({"Authorization": "Bearer sk-1"}), [])
    assert result.ok
    assert result.drop == frozenset()
    assert result.key != authenticate(CIMultiDict({"Authorization": "Bearer sk-2"}), []).key
    assert result.key == authenticate(CIMultiDict({"x-api-key": "sk-1"}), []).key
    assert authenticate(CIMultiDict({"Authorization": "Basic abc"}), []).key
    assert authenticate(CIMultiDict(), []) == guard.AuthResult(ok=True)


def test_an_empty_key_locks_instead_of_opening() -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"x-api-key": ""}):
        assert not authenticate(CIMultiDict(headers), [""]).ok


@pytest.mark.parametrize(
    ("headers", "valid"),
    [
        ({"Authorization": "Bearer tok"}, True),
        ({"X-Warmgate-Token": "tok"}, True),
        ({"Cookie": "warmgate_token=tok"}, True),
        ({"Cookie": 'a=b; warmgate_token="tok"; c=d'}, True),
        ({"Cookie": "warmgate_token=old; warmgate_token=tok"}, True),
        ({"Cookie": "not_warmgate_token=tok; tok; ="}, False),
        ({"X-Warmgate-Token": "tok2"}, False),
        ({"x-api-key": "tok"}, False),
        ({}, False),
    ],
)
def test_admin_token(headers: dict[str, str], valid: bool) -> None:
    assert token_valid(CIMultiDict(headers), "tok") is valid
    assert token_valid(CIMultiDict(headers), None)


@pytest.mark.parametrize(
    ("method", "origin", "passes"),
    [
        ("POST", None, True),
        ("POST", "http://127.0.0.1:8485", True),
        ("POST", "http://127.0.0.1:3000", False),
        ("POST", "https://evil.example", False),
        ("POST", "null", False),
        ("POST", "custom://127.0.0.1:8485", False),
        ("POST", "", False),
        ("DELETE", "https://evil.example", False),
        ("GET", "https://evil.example", True),
    ],
)
def test_admin_changes_are_not_for_other_pages(method: str, origin: str | None, passes: bool) -> None:
    headers = CIMultiDict({"Host": "127.0.0.1:8485"})
    if origin is not None:
        headers["Origin"] = origin
    assert same_origin(method, headers) is passes


def test_two_names_that_cannot_be_read_are_not_the_same() -> None:
    assert not same_origin("POST", CIMultiDict({"Host": "", "Origin": "http://"}))
    assert not same_origin("POST", CIMultiDict({"Origin": "http://"}))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/delete"),
        ("delete", "/api/delete/"),
        ("POST", "/api//delete"),
        ("POST", "//api/delete"),
        ("POST", "/api/./delete"),
        ("POST", "/v1/../api/delete"),
        ("POST", "/../api/delete"),
        ("POST", "/%61pi/delete"),
        ("POST", "/api%2Fdelete"),
        ("POST", "/api/%2e/delete"),
        ("POST", "/v1/%2e%2E/api/delete"),
        ("POST", "/%2561pi/delete"),
        ("POST", "/API/Delete"),
        ("POST", "/api\\delete"),
        ("POST", "/api%5Cdelete"),
        ("POST", "/api/delete%00"),
        ("POST", "/api/del%0Aete"),
        ("POST", "/api/delete%20"),
        ("POST", "api/delete"),
        ("POST", "/slots/0"),
        ("POST", "/slots/0/"),
        ("POST", "/slots//0"),
        ("GET", "/unload"),
        ("POST", "/models/unload"),
        ("POST", "/api/v1/models/unload"),
        ("POST", "/v1/models/some%2Fmodel/unload"),
        ("POST", "/sleep"),
        ("POST", "/reset_prefix_cache"),
        ("POST", "/reset_mm_cache"),
        ("GET", "/admin/api/stats"),
    ],
)
def test_destructive_however_it_is_spelled(method: str, path: str) -> None:
    assert destructive(method, path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/slots",
        "/slots/",
        "/v1/chat/completions",
        "/api/chat",
        "/api/deleted",
        "/is_sleeping",
        "/models/load",
        "/v1/models/unload-tuned",
        "/administration",
        "/api/delete/../tags",
        "/props",
    ],
)
def test_harmless_paths(path: str) -> None:
    assert not destructive("GET", path)
    assert not destructive("POST", path)


def test_patterns_may_name_a_method() -> None:
    patterns = ["POST /slots/*", "* /props", "GET /unload"]
    assert destructive("post", "/slots/1", patterns)
    assert not destructive("GET", "/slots/1", patterns)
    assert destructive("PATCH", "/props", patterns)
    assert destructive("HEAD", "/unload", patterns)
    assert not destructive("POST", "/unload", patterns)
    assert not destructive("POST", "/slots/1", [])


@given(st.sampled_from(["/api/delete", "/slots/3", "/models/unload", "/sleep", "/reset_x"]), st.data())
def test_no_spelling_slips_through(path: str, data: st.DataObject) -> None:
    def spell(char: str) -> str:
        choices = [char, char.upper(), f"%{ord(char):02x}", quote(f"%{ord(char):02X}")]
        if char == "/":
            choices += ["//", "/./", "\\", "/x/../", "%2f%2e%2F"]
        return data.draw(st.sampled_from(choices))

    assert destructive("POST", "".join(map(spell, path)))
