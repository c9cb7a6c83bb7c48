from __future__ import annotations

import pytest

from gateway.config import schema
from gateway.config.masking import holds_secret
from tests.config.reports import report

SECRET = "hunter2"


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "tokn",
        "Token",
        "tokens",
        "api_keys",
        "api_key",
        "api-keys",
        "apikeys",
        "api_kyes",
        "headers",
        "header",
        "hedaers",
        "authorization",
        "Authorization",
        "x-api-key",
        "X-Auth-Token",
        "password",
        "client_secret",
        "passwd",
        "cookie",
    ],
)
def test_keys_that_may_hold_a_secret(key: str) -> None:
    assert holds_secret(key)


def test_no_other_known_key_is_taken_for_a_secret() -> None:
    everything = schema()
    known = {key for part in [everything, *everything["$defs"].values()] for key in part.get("properties", ())}
    later = {
        "canonical",
        "keep",
        "warmup",
        "snapshots",
        "heartbeat",
        "explain",
        "state_dir",
        "min_tokens",
        "keep_alive",
        "num_ctx",
        "hours",
    }
    assert {key for key in known | later if holds_secret(key)} == {"token", "api_keys", "headers"}


@pytest.mark.parametrize(
    "text",
    [
        "admin: { token: hunter2 x, listn: 1 }",
        "admin: { tokn: hunter2 }",
        "token: hunter2",
        "admin:\n  token: 'hunter2\n    hunter2 x'\n",
        "admin:\n  token: |\n    x y\n    hunter2\n",
        "admin: { token: [hunter2] }",
        "admin: { token: {hunter2} }",
        "admin: { token: {hunter2 x: 1, hunter2 x: 2} }",
        "admin: { token: #hunter2\n  , x: 1 }",
        "admin:\n  token: !hunter2 x\n",
        "admin:\n  token: ok # hunter2\n  token: hunter2\n",
        "admin: { token: a b } # hunter2",
        "api_keys: [ok, hunter2 x]",
        "api_keys: hunter2",
        "apikeys: [hunter2]",
        "api_keys:\n  - hunter2\n  - hunter2 x\n",
        "api_keys: { hunter2: }",
        "x: &k hunter2 x\napi_keys: [*k]",
        "x: { authorization: Bearer hunter2 }",
        "backends: { a: { url: http://h, headers: { authorization: [hunter2] } } }",
        "backends: { a: { url: http://h, headers: [hunter2] } }",
        "backends: { a: { url: http://h, headers: { 'authorization: Bearer hunter2': } } }",
        "backends: { a: { url: http://h, headers: { 'a: hunter2': x, 'a: hunter2': x } } }",
        "backends: { a: { url: http://h, hedaers: { authorization: hunter2 } } }",
        "backends: { a: { url: http://me:hunter2@h, x: 1 } }",
        "backends: { a: { url: 'http://me:hunt er@hunter2@h', x: 1 } }",
        "backends: { a: { url: me:hunter2@h, x: 1 } }",
        "backends: { a: { url: http://h/?key=hunter2, x: 1 } }",
        # not YAML at all
        "admin: { token: hunter2: x }",
        "admin:\n  token: *hunter2\n",
        'admin:\n  token: "hunter2\n',
        'admin:\n  token: "\\hunter2"\n',
        "api_keys:\n- ok\n- hunter2: x: y\n",
        "api_keys: [\n'a', hunter2 'b'\n",
        "headers: { authorization: hunter2 ${X} }",
    ],
)
def test_a_secret_is_never_repeated(text: str) -> None:
    assert SECRET not in report(text)


@pytest.mark.parametrize(
    "text",
    [
        "listen: ${X}",
        "log: { level: '${X}' }",
        "models: { m: { targets: ['${X}/m'] } }",
        "admin: { listen: '${X}' }",
        "backends: { a: { url: '${X}', kind: '${X}', parallel: '${X}', timeouts: { idle: '${X}' } } }",
    ],
)
def test_what_a_variable_holds_is_never_repeated(text: str) -> None:
    assert SECRET not in report(text, {"X": SECRET})


def test_the_caret_stays_at_its_word_when_something_before_it_is_masked() -> None:
    lines = report("admin: { token: a-long-token-here, listn: 1 }").splitlines()
    assert lines[1] == "    admin: { token: ***, listn: 1 }"
    assert lines[2].index("^") == lines[1].index("listn")


def test_lines_after_a_secret_are_shown_again() -> None:
    assert "hosts: [a: b: c]" in report("admin:\n  token: x\nhosts: [a: b: c]\n")
    assert "hosts: b: c" in report("# token: x\nhosts: b: c\n")
