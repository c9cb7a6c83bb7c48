"""Each key: what it takes, what it becomes, what is refused and how."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import units
from gateway.config import Config
from tests.config.reports import ok, wrong

BACKEND = "backends: {{ a: {{ url: http://h, {} }} }}"


def a(config: Config) -> Any:
    return config.backends["a"]


def test_defaults() -> None:
    config = ok("backends: { a: { url: http://h } }\nmodels: { m: }\n")
    assert [tuple(listener) for listener in config.listeners] == [("127.0.0.1", 8484, "auto")]
    assert config.admin.address == ("127.0.0.1", 8485)
    assert (config.admin.token, config.api_keys, config.cors_origins, config.hosts) == ("", (), (), ())
    assert (config.identity, config.passthrough) == ("auto", "safe")
    backend, model = config.backends["a"], config.models["m"]
    assert (backend.kind, backend.base_url, backend.parallel, backend.headers) == ("auto", "http://h", None, {})
    assert (backend.timeouts.connect, backend.timeouts.first_byte, backend.timeouts.idle) == (2.0, 900.0, 300.0)
    assert (backend.tls.verify, backend.tls.ca) == (True, None)
    assert (model.aliases, model.targets) == ((), ())
    assert (config.routing.queue, config.routing.hold, config.metrics.max_pairs) == (64, 30.0, 25)
    assert (config.log.format, config.log.level) == ("auto", "info")
    assert (config.limits.body, config.limits.client_stall, config.limits.drain) == (64 * 2**20, 120.0, 30.0)


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n", "---\n...\n", "null", "{}", "listen:\nbackends:\nadmin:\n", "\ufeff"]
)
def test_nothing_is_the_defaults(text: str) -> None:
    assert ok(text) == Config()


@pytest.mark.parametrize(
    ("text", "get", "expected"),
    [
        ("identity: ollama", lambda c: c.identity, "ollama"),
        ("passthrough: all", lambda c: c.passthrough, "all"),
        ("hosts: [a.lan, 10.0.0.2, '[fe80::1]']", lambda c: c.hosts, ("a.lan", "10.0.0.2", "[fe80::1]")),
        ("api_keys: ['123', sk-x]", lambda c: c.api_keys, ("123", "sk-x")),
        ("cors_origins: ['*', 'https://a.lan:3', 'app://obsidian.md']", lambda c: c.cors_origins[2], "app://obsidian.md"),
        ("admin: { listen: ':0', token: t }", lambda c: (c.admin.address, c.admin.token), (("", 0), "t")),
        (BACKEND.format("kind: llamacpp"), lambda c: a(c).kind, "llamacpp"),
        (BACKEND.format("parallel: 4"), lambda c: a(c).parallel, 4),
        (BACKEND.format("parallel: auto"), lambda c: a(c).parallel, None),
        (BACKEND.format("parallel: '4'"), lambda c: a(c).parallel, 4),
        (BACKEND.format("headers: { X-Key: ' a b ' }"), lambda c: a(c).headers, {"X-Key": "a b"}),
        (
            BACKEND.format("timeouts: { connect: 250ms, idle: 1h30m }"),
            lambda c: (a(c).timeouts.connect, a(c).timeouts.idle),
            (0.25, 5400.0),
        ),
        (BACKEND.format("tls: { verify: false }"), lambda c: a(c).tls.verify, False),
        ("models: { a/b:c: { aliases: ['gpt-*', x y] } }", lambda c: c.models["a/b:c"].aliases, ("gpt-*", "x y")),
        ("models: { on: }", lambda c: list(c.models), ["on"]),
        ("models: { 010: , 1.50: }", lambda c: list(c.models), ["010", "1.50"]),
        (
            "backends: { a: { url: http://h } }\nmodels: { m: { targets: [a/x/y:z] } }",
            lambda c: c.models["m"].targets,
            ("a/x/y:z",),
        ),
        ("routing: { queue: 0 }", lambda c: c.routing.queue, 0),
        ("routing: { hold: 0s }", lambda c: c.routing.hold, 0.0),
        ("routing: { session_headers: [X-Chat] }", lambda c: c.routing.session_headers, ("X-Chat",)),
        ("metrics: { max_pairs: 010 }", lambda c: c.metrics.max_pairs, 10),
        ("log: { format: json, level: debug }", lambda c: (c.log.format, c.log.level), ("json", "debug")),
        ("limits: { body: 1.5KiB, drain: 0, client_stall: 1s }", lambda c: (c.limits.body, c.limits.drain), (1536, 0.0)),
        ("limits: { body: 1000, drain: 0s }", lambda c: (c.limits.body, c.limits.drain), (1000, 0.0)),
    ],
)
def test_a_value_is_taken(text: str, get: Any, expected: object) -> None:
    assert get(ok(text)) == expected


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("http://h/", "http://h"),
        ("https://h:8443/base/", "https://h:8443/base"),
        ("http://[::1]:8080/a/b", "http://[::1]:8080/a/b"),
        ("HTTP://Host.lan", "HTTP://Host.lan"),
    ],
)
def test_a_url_is_taken(url: str, base: str) -> None:
    assert a(ok(f"backends: {{ a: {{ url: '{url}' }} }}")).base_url == base


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("h:1", "must begin with http:// or https://"),
        ("ftp://h", "must begin with http:// or https://"),
        ("", "must begin with http:// or https://"),
        ("http://", "not a URL"),
        ("http:///x", "not a URL"),
        ("http://h:x", "not a URL"),
        ("http://h:0", "not a URL"),
        ("http://h:70000", "not a URL"),
        ("http://[::1", "not a URL"),
        ("http://a b", "not a URL"),
        ("http://a\\b", "not a URL"),
        ("http://ä", "not a URL"),
        ("http://me:pw@h", "user name or password"),
        ("http://me@h", "user name or password"),
        ("http://h/?a=b", "no ? and no #"),
        ("http://h?", "no ? and no #"),
        ("http://h/#x", "no ? and no #"),
        ("http://h/v1", "leave out the /v1"),
        ("http://h/api/v1/", "leave out the /v1"),
    ],
)
def test_another_url_is_refused(url: str, words: str) -> None:
    (problem,) = wrong(f"backends: {{ a: {{ url: '{url}' }} }}")
    assert problem.startswith("1:23 backends.a.url: ")
    assert words in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("identity: xyz", "1:11 identity: must be auto, llamacpp, llamaswap, lmstudio, ollama, omlx, openai or vllm"),
        ("passthrough: true", "1:14 passthrough: must be safe or all"),
        ("hosts: a", "1:8 hosts: must be a list"),
        ("hosts: [http://a]", "1:9 hosts[0]: not a host name; write the name alone, without http:// and port"),
        ("hosts: [a:80]", "1:9 hosts[0]: not a host name; write the name alone, without http:// and port"),
        ("hosts: [10]", "1:9 hosts[0]: must be text; put it in quotes"),
        ("api_keys: [123]", "1:12 api_keys[0]: must be text; put it in quotes"),
        ("api_keys: ['']", "1:12 api_keys[0]: an API key must be ASCII without spaces, and not empty"),
        ("admin: { token: 'a b' }", "1:17 admin.token: must be ASCII without spaces"),
        ("admin: x", "1:8 admin: must be a mapping (key: value)"),
        (
            "cors_origins: [a.lan]",
            "1:16 cors_origins[0]: not an origin; write it as browsers send it, such as https://chat.lan:3000, or *",
        ),
        (
            "cors_origins: [http://a/]",
            "1:16 cors_origins[0]: not an origin; write it as browsers send it, such as https://chat.lan:3000, or *",
        ),
        ("backends: [http://a]", "1:11 backends: must be a mapping (name: value)"),
        ("backends: { a: http://a }", "1:16 backends.a: must be a mapping (key: value)"),
        ("backends: { a: }", "1:13 backends.a.url: is missing"),
        (
            "backends: { a b: { url: http://h } }",
            '1:13 backends."a b": a backend\'s name is made of letters, digits, - _ and ., at most 64',
        ),
        (
            BACKEND.format("kind: lama"),
            "1:39 backends.a.kind: must be auto, llamacpp, llamaswap, lmstudio, ollama, omlx, openai or vllm; "
            "did you mean ollama?",
        ),
        (BACKEND.format("parallel: 0"), "1:43 backends.a.parallel: must be from 1 to 1000000000"),
        (BACKEND.format("parallel: 1.0"), "1:43 backends.a.parallel: must be a whole number"),
        (BACKEND.format("parallel: true"), "1:43 backends.a.parallel: must be a whole number"),
        (BACKEND.format("headers: { a b: c }"), "1:42 backends.a.headers: not a header's name; write name: value"),
        (BACKEND.format("headers: { Host: c }"), "1:42 backends.a.headers: the gateway sets host itself"),
        (
            BACKEND.format("headers: { a: b, A: c }"),
            "1:42 backends.a.headers: the same header is given twice, in different spelling",
        ),
        (BACKEND.format('headers: { a: "b\\nc" }'), "1:47 backends.a.headers.a: a header's value must be one line of ASCII"),
        (BACKEND.format("headers: { a: 1 }"), "1:47 backends.a.headers.a: must be text; put it in quotes"),
        (BACKEND.format("timeouts: { idle: 0 }"), "1:51 backends.a.timeouts.idle: must be longer than 0"),
        (BACKEND.format("timeouts: { idl: 1s }"), "1:45 backends.a.timeouts.idl: unknown key; did you mean idle?"),
        (BACKEND.format("tls: { verify: off }"), "1:48 backends.a.tls.verify: must be true or false"),
        (BACKEND.format("tls: { verify: 1 }"), "1:48 backends.a.tls.verify: must be true or false"),
        (BACKEND.format("zebra: auto"), "1:33 backends.a.zebra: unknown key"),
        (
            "models: { 'a*': }",
            '1:11 models."a*": a model\'s name is not empty and has no * and ?; patterns belong in its aliases',
        ),
        ("models: { '': }", '1:11 models."": a model\'s name is not empty and has no * and ?; patterns belong in its aliases'),
        (
            "models: { m: { aliases: [''] } }",
            "1:26 models.m.aliases[0]: an alias is one line, not empty, without spaces at its ends",
        ),
        ("models: { m: { aliases: a } }", "1:25 models.m.aliases: must be a list"),
        ("models: { m: { target: [] } }", "1:16 models.m.target: unknown key; did you mean targets?"),
        ("models: { m: { targets: [x] } }", "1:26 models.m.targets[0]: not a target; write backend/model"),
        ("routing: { session_headers: ['x y'] }", "1:30 routing.session_headers[0]: not a header's name"),
        ("routing: { queue: -1 }", "1:19 routing.queue: must be from 0 to 1000000000"),
        ("routing: { zebra: [] }", "1:12 routing.zebra: unknown key"),
        ("metrics: { max_pairs: many }", "1:23 metrics.max_pairs: must be a whole number"),
        ("log: { level: warn }", "1:15 log.level: must be debug, info, warning or error; did you mean warning?"),
        ("limits: { body: 0 }", "1:17 limits.body: must be more than 0"),
        (
            "limits: { body: true }",
            "1:17 limits.body: not a size; write bytes, or a number and a unit such as 512kB, 64MiB or 20GiB",
        ),
        (
            "limits: { drain: false }",
            "1:18 limits.drain: not a duration; write a number and a unit such as 250ms, 30s, 5m, 1h30m or 2d",
        ),
        ("limits: { client_stall: 0s }", "1:25 limits.client_stall: must be longer than 0"),
        ("zebra: { mode: off }", "1:1 zebra: unknown key"),
        ("- a", "1:1 : must be a mapping (key: value)"),
    ],
)
def test_a_value_is_refused_at_its_place(text: str, problem: str) -> None:
    assert wrong(text) == [problem]


def test_variables_may_hold_numbers_and_booleans() -> None:
    config = ok(
        "backends:\n  a: { url: '${U}', parallel: '${N}', tls: { verify: '${V}' } }\n",
        {"U": "http://h", "N": "3", "V": "false"},
    )
    assert (a(config).base_url, a(config).parallel, a(config).tls.verify) == ("http://h", 3, False)


def test_the_configuration_is_frozen_and_hides_its_secrets() -> None:
    config = ok("api_keys: [hunter2]\nadmin: { token: hunter2 }\nbackends: { a: { url: http://h, headers: { x: hunter2 } } }\n")
    assert (config.api_keys, config.admin.token, a(config).headers) == (("hunter2",), "hunter2", {"x": "hunter2"})
    assert "hunter2" not in repr(config)
    with pytest.raises(ValueError, match="frozen"):
        config.identity = "ollama"


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=10**12))
def test_any_duration_that_can_be_shown_can_be_configured(micros: int) -> None:
    assert ok(f"limits: {{ client_stall: {units.show_duration(micros / 10**6)} }}").limits.client_stall == micros / 10**6


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=10**15))
def test_any_size_that_can_be_shown_can_be_configured(count: int) -> None:
    assert ok(f"limits: {{ body: {units.show_size(count)} }}").limits.body == count
