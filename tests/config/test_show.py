from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Config, effective, loads, to_yaml
from tests.config.reports import ok

FULL = """\
listen: [127.0.0.1:8484, { address: "[::1]:8484", identity: ollama }]
identity: openai
admin: { token: hunter2 }
api_keys: [hunter2, hunter2]
backends:
  a: { url: http://h/base/, headers: { authorization: Bearer hunter2, x: "" }, timeouts: { idle: 90s }, tls: { verify: false } }
models: { on: { aliases: ["0o10", "$${X}*"], targets: [a/m] } }
limits: { body: 1048576, drain: 0 }
"""


def test_secrets_are_masked_and_only_they() -> None:
    shown = effective(ok(FULL))
    assert "hunter2" not in json.dumps(shown)
    assert (shown["admin"]["token"], shown["api_keys"]) == ("***", ["***", "***"])
    assert shown["backends"]["a"]["headers"] == {"authorization": "***", "x": ""}
    assert effective(Config())["admin"]["token"] == ""


def test_values_are_spelled_as_users_do() -> None:
    shown = effective(ok(FULL))
    assert shown["listen"] == ["127.0.0.1:8484", {"address": "[::1]:8484", "identity": "ollama"}]
    assert effective(Config())["listen"] == "127.0.0.1:8484"
    assert shown["backends"]["a"]["url"] == "http://h/base"
    assert shown["backends"]["a"]["timeouts"] == {"connect": "2s", "first_byte": "15m", "idle": "1m30s"}
    assert (shown["limits"]["body"], shown["limits"]["drain"]) == ("1MiB", "0s")


def test_a_file_is_shown_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    config = loads("backends: { a: { url: https://h, tls: { ca: ca.pem } } }", str(tmp_path / "w.yaml"), {})
    assert effective(config)["backends"]["a"]["tls"] == {"verify": True, "ca": str(tmp_path / "ca.pem")}


def test_what_is_shown_loads_as_the_same_configuration() -> None:
    config = ok(FULL.replace("admin: { token: hunter2 }\napi_keys: [hunter2, hunter2]\n", "").replace("Bearer hunter2", "''"))
    assert ok(to_yaml(effective(config))) == config


WORDS = st.text(alphabet="ab${}:-'\"# \\/.0e", min_size=1, max_size=8).map(str.strip).filter(bool)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=4, unique=True))
def test_any_alias_survives_being_shown(aliases: list[str]) -> None:
    config = ok(to_yaml({"models": {"a-model": {"aliases": [alias.replace("${", "$${") for alias in aliases]}}}))
    assert config.models["a-model"].aliases == tuple(aliases)
    assert ok(to_yaml(effective(config))) == config
