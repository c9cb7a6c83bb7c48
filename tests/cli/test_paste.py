"""The lines to paste: each is read as its client reads it."""

from __future__ import annotations

import json
import shlex

import pytest
import yaml

from gateway.backends import KINDS
from gateway.cli._paste import CLIENTS, HERMES_WANTS, Client, Offer, Places, fill, guide, snippets, suggested
from gateway.config import parse_address
from gateway.values import ModelInfo

PLAIN = ModelInfo("qwen3:30b", context=65536)
NASTY = ModelInfo('a: "b" #c ${HOME} $url \\ {x}\'', context=8192)
URL = "http://127.0.0.1:8484"


def ids(client: Client) -> str:
    return client.name


def places(*addresses: str) -> Places:
    return Places.of([parse_address(address) for address in addresses])


def client(name: str) -> Client:
    return next(row for row in CLIENTS if row.name == name)


@pytest.mark.parametrize("model", [PLAIN, NASTY, None], ids=["plain", "nasty", "none"])
@pytest.mark.parametrize("row", [c for c in CLIENTS if c.format == "yaml"], ids=ids)
def test_yaml_is_yaml(row: Client, model: ModelInfo | None) -> None:
    read = yaml.safe_load(fill(row, URL, model))
    name = model.name if model else "MODEL"
    if row.name == "Hermes Agent":
        context = {"context_length": model.context} if model else {}
        assert read == {"model": {"provider": "custom", "base_url": f"{URL}/v1", "default": name} | context}
    else:
        (entry,) = read["models"]
        assert (read["schema"], entry["provider"]) == ("v1", "openai")
        assert (entry["model"], entry["name"], entry["apiBase"]) == (name, name, f"{URL}/v1")


@pytest.mark.parametrize("model", [PLAIN, NASTY], ids=["plain", "nasty"])
def test_json_is_json(model: ModelInfo) -> None:
    rows = [row for row in CLIENTS if row.format == "json"]
    assert [row.name for row in rows] == ["opencode"]
    read = json.loads(fill(rows[0], URL, model))
    provider = read["provider"]["warmgate"]
    assert read["$schema"] == "https://opencode.ai/config.json"
    assert provider["npm"] == "@ai-sdk/openai-compatible"
    assert provider["options"] == {"baseURL": f"{URL}/v1"}
    assert provider["models"] == {model.name: {"name": model.name}}


@pytest.mark.parametrize("row", [c for c in CLIENTS if c.format == "shell"], ids=ids)
def test_shell_lines_hold_the_address_and_nothing_of_a_servers(row: Client) -> None:
    text = fill(row, URL, NASTY)
    assert text == fill(row, URL, PLAIN)
    words = shlex.split(text)
    assert any(word.endswith((f"={URL}", f"={URL}/v1")) for word in words)


@pytest.mark.parametrize(
    ("row", "ending"),
    [("OpenAI SDKs", "/v1"), ("Anthropic SDKs", ""), ("Ollama SDKs and command", ""), ("Home Assistant, Ollama", "")],
)
def test_which_clients_add_the_v1_themselves(row: str, ending: str) -> None:
    text = fill(client(row), URL, PLAIN)
    assert f"{URL}{ending}" in text.split() + [word.partition("=")[2] for word in text.split()]


def test_hermes_is_told_of_a_context_that_is_too_short() -> None:
    hermes = client("Hermes Agent")
    assert "give the server more" in fill(hermes, URL, ModelInfo("m", context=HERMES_WANTS - 1))
    assert "give the server more" not in fill(hermes, URL, ModelInfo("m", context=HERMES_WANTS))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_only_clients_that_a_backend_can_serve_are_shown(kind: str) -> None:
    names = {row["client"] for row in snippets(places("127.0.0.1:8484"), [Offer(kind, (PLAIN,))])}
    assert "opencode" in names
    assert ("Home Assistant, Ollama" in names) is ("/api/chat" in KINDS[kind].serves)


def test_a_client_is_given_a_model_of_a_backend_that_can_serve_it() -> None:
    offers = [Offer("ollama", (ModelInfo("o", resident=False),)), Offer("llamacpp", (ModelInfo("l", resident=True),))]
    rows = {row["client"]: row["lines"] for row in snippets(places("127.0.0.1:8484"), offers)}
    assert '"l"' in rows["Continue"]
    assert snippets(places("127.0.0.1:8484"), []) == []


@pytest.mark.parametrize(
    ("models", "best"),
    [
        ([], None),
        ([ModelInfo("nomic-embed-text", resident=True), ModelInfo("b"), ModelInfo("c", resident=True)], "c"),
        ([ModelInfo("a", resident=None), ModelInfo("b", resident=False)], "a"),
        ([ModelInfo("all-minilm-embed")], "all-minilm-embed"),
        ([ModelInfo("\x1b[31m"), ModelInfo("b")], "b"),
    ],
)
def test_the_model_that_is_suggested(models: list[ModelInfo], best: str | None) -> None:
    found = suggested([Offer("ollama", tuple(models))])
    assert (found.name if found else None) == best


@pytest.mark.parametrize(
    ("addresses", "machine", "container", "opened"),
    [
        (("127.0.0.1:8484",), "127.0.0.1:8484", "host.docker.internal:8484", False),
        (("0.0.0.0:9000",), "127.0.0.1:9000", "host.docker.internal:9000", True),
        ((":9000",), "127.0.0.1:9000", "host.docker.internal:9000", True),
        (("127.0.0.1:1", "0.0.0.0:2"), "127.0.0.1:1", "host.docker.internal:2", True),
        (("[::1]:8484",), "[::1]:8484", "host.docker.internal:8484", False),
    ],
)
def test_base_urls(addresses: tuple[str, ...], machine: str, container: str, opened: bool) -> None:
    found = places(*addresses)
    assert (found.machine, found.container, found.opened) == (f"http://{machine}", f"http://{container}", opened)


def test_the_only_address_that_was_given_is_shown_for_every_place() -> None:
    found = places("192.168.7.7:8484")
    assert found.lan == found.machine == found.container == "http://192.168.7.7:8484"


def test_a_gateway_on_loopback_says_how_others_reach_it() -> None:
    closed = list(guide(places("127.0.0.1:8484"), []))
    opened = list(guide(places("0.0.0.0:8484"), []))
    assert sum("--listen 0.0.0.0:8484" in line for line in closed) == 2
    assert not any("--listen" in line for line in opened)
