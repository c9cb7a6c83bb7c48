"""`warmgate check` and `warmgate config`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from gateway.cli import check, config
from gateway.config import Config, effective

GOOD = """\
listen: [127.0.0.1:8484, { address: ":8486", identity: ollama }]
admin: { token: hunter2 }
api_keys: [hunter2]
backends: { a: { kind: ollama, url: http://h/ } }
models: { m: { aliases: [n, "o*"], targets: [a/x] }, free: }
"""
BAD = "api_keys: hunter2\nlisen: 1\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("WARMGATE_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(verb: str, *arguments: str) -> Result:
    return CliRunner().invoke({"check": check.command, "config": config.command}[verb], arguments)


def test_check_says_what_a_good_file_means(here: Path) -> None:
    Path("w.yaml").write_text(GOOD)
    result = run("check", "w.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "w.yaml: fine",
        "listen   127.0.0.1:8484, as auto, 1 API key",
        "listen   :8486, as ollama, 1 API key",
        "admin    127.0.0.1:8485, with a token",
        "backend  a: ollama at http://h",
        "model    m (also n, o*) -> a/x",
        "model    free -> wherever it is found",
    ]


def test_check_as_json(here: Path) -> None:
    Path("w.yaml").write_text(GOOD)
    result = run("check", "w.yaml", "--json")
    assert (result.exit_code, "hunter2" in result.output) == (0, False)
    assert json.loads(result.stdout) == {
        "ok": True,
        "file": "w.yaml",
        "listeners": [{"address": "127.0.0.1:8484", "identity": "auto"}, {"address": ":8486", "identity": "ollama"}],
        "admin": {"address": "127.0.0.1:8485", "token": True},
        "backends": {"a": {"kind": "ollama", "url": "http://h"}},
        "models": effective(Config.model_validate(yaml.safe_load(GOOD)))["models"],
    }


@pytest.mark.parametrize("verb", ["check", "config"])
def test_a_bad_file_is_reported_on_standard_error(here: Path, verb: str) -> None:
    Path("w.yaml").write_text(BAD)
    result = run(verb, "w.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "w.yaml:1:11: api_keys: must be a list\n    api_keys: ***\n              ^\n"
        "w.yaml:2:1: lisen: unknown key; did you mean listen?\n    lisen: 1\n    ^\n"
    )


@pytest.mark.parametrize("verb", ["check", "config"])
def test_a_bad_file_as_json(here: Path, verb: str) -> None:
    Path("w.yaml").write_text(BAD)
    result = run(verb, "w.yaml", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"], told["file"]) == (1, False, "w.yaml")
    assert told["report"] == run(verb, "w.yaml").stderr.rstrip("\n")
    assert told["problems"] == [
        {"line": 1, "column": 11, "key": "api_keys", "message": "must be a list"},
        {"line": 2, "column": 1, "key": "lisen", "message": "unknown key; did you mean listen?"},
    ]


@pytest.mark.parametrize("verb", ["check", "config"])
def test_a_file_that_is_not_there_is_a_problem(here: Path, verb: str) -> None:
    result = run(verb, "none.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("none.yaml: the configuration cannot be read: ")
    assert json.loads(run(verb, "none.yaml", "--json").stdout)["problems"] == []


@pytest.mark.parametrize("verb", ["check", "config"])
def test_usage_errors_have_exit_code_2(here: Path, verb: str) -> None:
    assert run(verb, "--zebra").exit_code == 2
    assert run(verb, "a.yaml", "b.yaml").exit_code == 2


def test_without_a_file_the_defaults_are_shown(here: Path) -> None:
    assert run("check").stdout.startswith("No configuration was found; these are the defaults.\nlisten   127.0.0.1:8484")
    assert json.loads(run("check", "--json").stdout)["file"] is None
    assert yaml.safe_load(run("config").stdout) == effective(Config())


def test_a_file_without_backends_is_fine_but_says_so(here: Path) -> None:
    Path("w.yaml").write_text("backends: {}")
    result = run("check", "w.yaml")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "no backends")
    Path("w.yaml").write_text(GOOD)
    assert "no backends" not in run("check", "w.yaml").stdout


def test_the_file_that_run_would_take_is_taken(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("warmgate.yaml").write_text("identity: ollama")
    assert run("check").stdout.startswith("warmgate.yaml: fine")
    Path("other.yaml").write_text("identity: ${KIND}")
    monkeypatch.setenv("WARMGATE_CONFIG", "other.yaml")
    monkeypatch.setenv("KIND", "openai")
    assert yaml.safe_load(run("config").stdout)["identity"] == "openai"


def test_config_prints_everything_with_secrets_masked(here: Path) -> None:
    Path("w.yaml").write_text(GOOD)
    as_yaml, as_json = run("config", "w.yaml"), run("config", "w.yaml", "--json")
    assert (as_yaml.exit_code, as_json.exit_code) == (0, 0)
    assert "hunter2" not in as_yaml.output + as_json.output
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)
    assert set(json.loads(as_json.stdout)) == set(Config.model_fields)
