from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import load
from gateway.errors import ConfigError
from tests.config.reports import ok, wrong

TWICE = "this address is given twice"
CLIENTS = "clients are served on this address already; take another port"
OPERATOR = "this is the operator's address; take another port, or set admin.listen"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("listen: ['a:1', 'b:1', 'a:1']", [f"1:24 listen[2]: {TWICE}"]),
        ("listen: ['a:1', { address: ':1' }]", [f"1:28 listen[1].address: {TWICE}"]),
        ("listen: :8485", [f"1:9 listen: {OPERATOR}"]),
        ("listen: { address: 'localhost:8485' }", [f"1:20 listen.address: {OPERATOR}"]),
        ("listen: ['a:1', 'localhost:8485']", [f"1:17 listen[1]: {OPERATOR}"]),
        ("admin: { listen: '127.0.0.1:8484' }", [f"1:18 admin.listen: {CLIENTS}"]),
        ("listen:\nadmin: { listen: '127.0.0.1:8484' }", [f"2:18 admin.listen: {CLIENTS}"]),
        ("listen: 'a:1'\nadmin: { listen: ':1' }", [f"2:18 admin.listen: {CLIENTS}"]),
        ("listen: '${A}'\nadmin: { listen: 'a:1' }", [f"2:18 admin.listen: {CLIENTS}"]),
    ],
)
def test_addresses_must_differ(text: str, problems: list[str]) -> None:
    assert wrong(text, {"A": "a:1"}) == problems


@pytest.mark.parametrize(
    "text",
    [
        "listen: ':1'",
        "admin: { listen: '127.0.0.1:0' }\nlisten: '127.0.0.1:0'",
        "listen: '[::1]:8485'",
        "admin:\nlisten: 'a:8485'",
    ],
)
def test_addresses_that_differ_are_fine(text: str) -> None:
    ok(text)


@pytest.mark.parametrize(
    "text",
    [
        "backends: { a: { url: 'http://127.0.0.1:8484' } }",
        "backends: { a: { url: 'http://LOCALHOST:8485/v2' } }",
        "backends: { a: { url: 'http://127.0.0.1:1' } }\nlisten: [':8484', ':1']",
        "backends: { a: { url: 'http://[::1]' } }\nlisten: '[::1]:80'",
        "backends: { a: { url: 'https://own.lan' } }\nlisten: own.lan:443",
        "backends: { a: { url: 'http://127.0.0.1:2' } }\nadmin: { listen: ':2' }",
    ],
)
def test_a_backend_is_not_the_gateway_itself(text: str) -> None:
    assert wrong(text) == ["1:23 backends.a.url: this is the gateway's own address; write the server's"]


@pytest.mark.parametrize(
    "text",
    [
        "backends: { a: { url: 'http://192.168.0.7:8484' } }",
        "backends: { a: { url: 'http://127.0.0.1:8484' } }\nlisten: 127.0.0.1:8486",
        "backends: { a: { url: 'http://127.0.0.1:8485' } }\nadmin: { listen: 127.0.0.1:8486 }",
        "backends: { a: { url: 'http://127.0.0.1' } }\nlisten: 127.0.0.1:0",
    ],
)
def test_another_gateway_may_be_a_backend(text: str) -> None:
    ok(text)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        ("[lama/x]", "2:26 models.m.targets[0]: there is no backend lama; did you mean llama?"),
        ("[llama/x, zz/y]", "2:35 models.m.targets[1]: there is no backend zz"),
        ("['${T}']", "2:26 models.m.targets[0]: the backend of this target is not defined"),
    ],
)
def test_a_target_names_a_backend_that_exists(targets: str, problem: str) -> None:
    assert wrong(f"backends: {{ llama: {{ url: http://h }} }}\nmodels: {{ m: {{ targets: {targets} }} }}", {"T": "x/y"}) == [
        problem
    ]


def test_a_target_of_side_requests_does_too() -> None:
    text = "backends: {{ llama: {{ url: http://h }} }}\nmodels: {{ m: {{ side_target: {} }} }}"
    assert wrong(text.format("lama/x")) == ["2:29 models.m.side_target: there is no backend lama; did you mean llama?"]
    ok(text.format("llama/x"))


def test_a_backend_that_is_wrong_itself_still_counts_as_one() -> None:
    assert wrong("backends: { a: { url: h } }\nmodels: { m: { targets: [a/x] } }") == [
        "1:23 backends.a.url: must begin with http:// or https://"
    ]


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ("{ m: { aliases: [a] }, n: { aliases: [b, a] } }", "1:50 models.n.aliases[1]: the model m has this alias already"),
        ("{ m: { aliases: [n] }, n: }", "1:26 models.m.aliases[0]: another model has this name"),
        ("{ m: { aliases: ['x*'] }, n: { aliases: ['x*'] } }", "1:50 models.n.aliases[0]: the model m has this alias already"),
    ],
)
def test_a_name_means_one_model(models: str, problem: str) -> None:
    assert wrong(f"models: {models}") == [problem]


def test_patterns_may_cover_names_and_each_other() -> None:
    ok("models: { m: { aliases: ['n*', m] }, n: { aliases: ['*', N, n] } }")


def test_a_ca_file_must_exist_and_is_found_beside_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "warmgate.yaml"
    file.write_text("backends:\n  a: { url: https://h, tls: { ca: certs/ca.pem } }\n")
    with pytest.raises(ConfigError, match=r"warmgate\.yaml:2:35: backends\.a\.tls\.ca: there is no such file"):
        load(file, {})
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.pem").write_text("")
    assert load(file, {}).backends["a"].tls.ca == tmp_path / "certs" / "ca.pem"


@pytest.mark.parametrize("ca", ["''", ".", "/", "~no-such-user/x", '"a\\0b"', "a" * 5000, "/dev/null/x"])
def test_what_is_no_file_is_no_ca_file(ca: str) -> None:
    (problem,) = wrong(f"backends: {{ a: {{ url: https://h, tls: {{ ca: {ca} }} }} }}")
    assert "backends.a.tls.ca" in problem


def test_ca_and_no_verification_contradict_each_other(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    text = f"backends: {{ a: {{ url: https://h, tls: {{ ca: '{tmp_path}/ca.pem', verify: false }} }} }}"
    assert wrong(text) == ["1:39 backends.a.tls: ca has no use where verify is false; leave one of them out"]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("identity: ollama\nbackends: { a: { kind: vllm, url: 'http://h:1' } }", ["1:11 identity: no backend is of this kind"]),
        (
            "listen: ['a:1', { address: 'a:2', identity: omlx }]\nbackends: { a: { kind: vllm, url: 'http://h:1' } }",
            ["1:45 listen[1].identity: no backend is of this kind"],
        ),
        (
            "listen: { address: 'a:2', identity: omlx }\nbackends: { a: { kind: vllm, url: 'http://h:1' } }",
            ["1:37 listen.identity: no backend is of this kind"],
        ),
    ],
)
def test_an_identity_has_a_backend_of_its_kind(text: str, problems: list[str]) -> None:
    assert wrong(text) == problems


@pytest.mark.parametrize(
    "text",
    [
        "identity: ollama",
        "identity: ollama\nbackends: {}",
        "identity: auto\nbackends: { a: { kind: vllm, url: 'http://h:1' } }",
        "identity: vllm\nbackends: { a: { kind: vllm, url: 'http://h:1' } }",
        "identity: ollama\nbackends: { a: { kind: vllm, url: 'http://h:1' }, b: { url: 'http://h:2' } }",
        "identity: ollama\nbackends: { a: { kind: auto, url: 'http://h:1' } }",
    ],
)
def test_an_identity_that_may_have_one_is_fine(text: str) -> None:
    ok(text)
