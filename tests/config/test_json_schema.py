from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from gateway.config import Config, effective, load, loads, schema
from gateway.config.json_schema import keys_at
from gateway.errors import ConfigError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config.example.yaml"


def valid(data: Any) -> bool:
    return bool(Draft202012Validator(schema()).is_valid(data))


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_file_is_what_the_code_says() -> None:
    assert json.loads((ROOT / "config.schema.json").read_text()) == schema(), (
        "run: python -m gateway.config > config.schema.json"
    )


def test_the_module_writes_the_file() -> None:
    run = subprocess.run([sys.executable, "-m", "gateway.config"], capture_output=True, cwd=ROOT, check=True, timeout=60)
    assert run.stdout == (ROOT / "config.schema.json").read_bytes()


def test_the_example_fits_the_schema_and_loads_without_its_variables() -> None:
    assert valid(yaml.safe_load(EXAMPLE.read_text()))
    assert list(load(EXAMPLE, {}).backends) == list(yaml.safe_load(EXAMPLE.read_text())["backends"])


def test_the_example_shows_every_key_at_the_top() -> None:
    assert set(yaml.safe_load(EXAMPLE.read_text())) == set(Config.model_fields)


@pytest.mark.parametrize("name", ["listen", "identity", "hosts", "passthrough", "admin", "routing", "metrics", "log", "limits"])
def test_the_example_shows_defaults(name: str) -> None:
    assert effective(load(EXAMPLE, {}))[name] == effective(Config())[name]


def test_the_effective_configuration_fits_the_schema() -> None:
    assert valid(effective(load(EXAMPLE, {})))


def test_defaults_are_in_the_schema_as_users_write_them() -> None:
    parts = schema()["$defs"]
    assert parts["Timeouts"]["properties"]["connect"]["default"] == "2s"
    assert parts["Limits"]["properties"]["body"]["default"] == "64MiB"


def test_every_key_is_described() -> None:
    parts = [schema(), *schema()["$defs"].values()]
    assert [name for part in parts for name, key in part.get("properties", {}).items() if not key.get("description")] == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"listen": ":8484"},
        {"listen": {"address": "[::1]:1"}},
        {"listen": ["a:1", {"address": "a:2", "identity": "ollama"}]},
        {"listen": []},
        {"listen": 8484},
        {"listen": {"address": "a:1", "x": 1}},
        {"identity": "openai"},
        {"identity": "x"},
        {"hosts": ["a"]},
        {"hosts": "a"},
        {"hosts": ["http://a"]},
        {"admin": {"token": "x", "listen": "a:1"}},
        {"admin": {"token": 1}},
        {"api_keys": [""]},
        {"cors_origins": ["*", "https://a"]},
        {"cors_origins": ["a"]},
        {"backends": {"a": {"url": "http://h/base"}}},
        {"backends": {"a": {"url": "${URL}", "parallel": "${N}", "tls": {"verify": "${V}"}}}},
        {"backends": {"a": {"url": "http://u:p@h"}}},
        {"backends": {"a": {"url": "ftp://h"}}},
        {"backends": {"a": {}}},
        {"backends": {"a b": {"url": "http://h"}}},
        {"backends": {"a": {"url": "http://h", "parallel": 0}}},
        {"backends": {"a": {"url": "http://h", "tls": {"verify": "on"}}}},
        {"backends": {"a": {"url": "http://h", "headers": {"x": "y"}, "timeouts": {"idle": "1h30m", "connect": "250ms"}}}},
        {"backends": {"a": {"url": "http://h", "headers": {"x": 1}}}},
        {"models": {"qwen3:30b": {"aliases": ["x*"]}}},
        {"models": {"x*": {}}},
        {"models": {"m": {"targets": ["x"]}}},
        {"routing": {"queue": 0}},
        {"routing": {"queue": -1}},
        {"metrics": {"max_pairs": 0}},
        {"log": {"level": "warn"}},
        {"limits": {"body": 1, "drain": "0"}},
        {"limits": {"body": "64 MiB", "client_stall": "1.5h"}},
        {"limits": {"drain": 5}},
        {"limits": {"drain": "30m1h"}},
        {"limits": {"body": "64M"}},
        {"zebra": 1},
    ],
)
def test_schema_and_loader_agree(data: dict[str, Any]) -> None:
    try:
        loads(json.dumps(data), "w.yaml", {"URL": "http://h", "N": "2", "V": "true"})
        loaded = True
    except ConfigError:
        loaded = False
    assert valid(data) is loaded


@pytest.mark.parametrize(
    ("path", "some"),
    [
        ((), "backends"),
        (("backends", "any", "tls"), "verify"),
        (("listen", 0), "address"),
        (("admin",), "token"),
        (("models", "m"), "aliases"),
    ],
)
def test_which_keys_are_known_where(path: tuple[str | int, ...], some: str) -> None:
    assert some in keys_at(path)


@pytest.mark.parametrize(
    "path", [("backends",), ("models",), ("identity",), ("zebra",), ("backends", "a", "headers"), ("hosts", 0)]
)
def test_where_names_are_free_no_key_is_known(path: tuple[str | int, ...]) -> None:
    assert keys_at(path) == ()
