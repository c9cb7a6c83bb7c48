from __future__ import annotations

import pytest

from gateway.config import Config, at_addresses, loads, parse_address
from gateway.errors import ConfigError

BASE = "listen: ['127.0.0.1:8484', { address: '127.0.0.1:8486', identity: ollama }]\nidentity: openai\napi_keys: [k]"


def at(*addresses: str, admin: str | None = None, text: str = BASE) -> Config:
    config = loads(text, "w.yaml", {})
    return at_addresses(config, [parse_address(a) for a in addresses], parse_address(admin) if admin else None)


def test_nothing_given_changes_nothing() -> None:
    assert at() == loads(BASE, "w.yaml", {})


def test_addresses_are_replaced_and_keep_the_identity_of_their_port() -> None:
    config = at("0.0.0.0:8484", ":8486", "[::1]:9000")
    assert config.listeners == (("0.0.0.0", 8484, "openai"), ("", 8486, "ollama"), ("::1", 9000, "openai"))
    assert config.api_keys == ("k",)


def test_the_operators_address_is_replaced_alone() -> None:
    config = at(admin="127.0.0.1:9999", text="admin: { token: t }")
    assert (config.admin.address, config.admin.token) == (("127.0.0.1", 9999), "t")
    assert config.listeners == (("127.0.0.1", 8484, "auto"),)


@pytest.mark.parametrize(
    ("addresses", "admin", "words"),
    [
        (("127.0.0.1:1", "0.0.0.0:1"), None, "given twice"),
        (("0.0.0.0:8485",), None, "operator"),
        ((), "127.0.0.1:8484", "operator"),
    ],
)
def test_addresses_that_cannot_be_listened_on_together(addresses: tuple[str, ...], admin: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        at(*addresses, admin=admin)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.8.8:1", True),
        ("[::1]:1", True),
        ("LocalHost:1", True),
        (":1", False),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("box.lan:1", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(text: str, loopback: bool) -> None:
    assert parse_address(text).is_loopback is loopback
