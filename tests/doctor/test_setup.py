"""Each check of the configuration, of the gateway and of its clients finds its fault, and nothing where there is none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gateway.doctor import traffic
from gateway.doctor.base import Finding
from gateway.doctor.checks import SETUP_CHECKS
from gateway.doctor.running import Running, Silent
from gateway.doctor.subject import Setup
from tests.doctor.looking import NOBODY, around, config, gateway, named, names, row

KEY = "api_keys: [sesame]"
OPEN, CLOSED = "listen: 0.0.0.0:8484", "listen: 127.0.0.1:8484"
BACKEND = "backends: {{ one: {{ url: 'http://{}:11434'{} }} }}"

CONFIGS: dict[str, tuple[str, str, str]] = {
    "open-data": (OPEN, f"{OPEN}\n{KEY}", "0.0.0.0:8484 is open"),
    "open-admin": ("admin: { listen: ':8485' }", "admin: { listen: ':8485', token: sesame }", ":8485 is open"),
    "plain-keys": (f"{OPEN}\n{KEY}", f"{CLOSED}\n{KEY}", "without encryption"),
    "open-passthrough": (f"{OPEN}\npassthrough: all", f"{CLOSED}\npassthrough: all", "delete and unload"),
    "open-server": (
        BACKEND.format("192.168.1.9", ""),
        BACKEND.format("192.168.1.9", ", headers: { authorization: Bearer x }"),
        "one is asked at http://192.168.1.9:11434",
    ),
    "no-servers": ("", BACKEND.format("127.0.0.1", ""), "No server is configured"),
    "canonical-off": ("canonical: { mode: observe }", "canonical: { mode: rewrite }", "is observe"),
    "heartbeat": ("heartbeat: { before_headers: 0s }", "heartbeat: { before_headers: 30s }", "before_headers` is 0s (never)"),
    "first-byte": (
        BACKEND.format("127.0.0.1", ", timeouts: { first_byte: 20s }"),
        BACKEND.format("127.0.0.1", ", timeouts: { first_byte: 10m }"),
        "one has 20s",
    ),
    "state-memory": ("state_dir: ''", "state_dir: /tmp", "nothing is kept on disk"),
    "state-broken": ("state_dir: /dev/null/x", "state_dir: /tmp", "/dev/null is no directory"),
}
"""Check -> a configuration that has the fault, one that has not, part of what is told."""

MANY = traffic.FEW


def broken(count: int, fine: int) -> list[dict[str, object]]:
    bad = [row(id=f"b{number}", reason="system_changed", agent="pond/1.2 (x)") for number in range(count)]
    return [*bad, *(row(agent="pond/1.3") for _ in range(fine))]


RUNNING: dict[str, tuple[Running | Silent, Running | Silent, str]] = {
    "not-running": (NOBODY, gateway(), "No gateway answers"),
    "not-scraped": (gateway(scraped=1e9), gateway(scraped=time.time()), "/metrics was last asked for "),
    "locked": (Silent("It does not take the token.", locked=True), NOBODY, "does not take the token"),
    "canonical-off": (gateway(canonical={"mode": "off"}), gateway(), "is off"),
    "state-broken": (
        gateway(canonical={"mode": "rewrite", "ledger": {"problem": "the disk is full"}}), gateway(), "the disk is full"
    ),
    "open-data": (
        gateway(listeners=[{"address": "192.168.1.2:8484"}]), gateway(listeners=[{"address": "::1:8484"}]), "192.168.1.2:8484"
    ),
    "prompts-break": (gateway(broken(3, 9)), gateway(broken(3, 10)), "pond: 3 of 12 requests lost their prefix"),
    "params-change": (
        gateway([row(reason="params_changed")] * MANY), gateway([row(reason="evicted")] * MANY), "pond: 3 requests came"
    ),
    "pushed-out": (gateway([row(reason="evicted")] * MANY), gateway([row(reason="first_seen")] * MANY), "one: 3 requests"),
    "reloads": (
        gateway([row(reason="model_loaded")] * MANY), gateway([row(reason="model_loaded")] * (MANY - 1)), "tiny was loaded anew"
    ),
    "gave-up": (
        gateway([row(outcome="cancelled", ttft=None, duration=120.0)] * MANY),
        gateway([row(outcome="cancelled", duration=120.0)] * MANY),  # content had come
        "pond left 3 times before the first token, after 120 s",
    ),
    "not-counted": (
        gateway([row(cached=None, cached_source="none")] * MANY), gateway([row(cached=0)] * MANY), "none of 3 answers"
    ),
}  # fmt: skip
"""Check -> a gateway that says so, one that does not, part of what is told."""


async def found(text: str, running: Running | Silent = NOBODY) -> list[Finding]:
    return await around(Setup(config(text), running, config(text).backends))


@pytest.mark.parametrize("name", CONFIGS)
async def test_configurations(name: str) -> None:
    bad, good, told = CONFIGS[name]
    assert told in named(await found(bad), name).seen
    assert name not in names(await found(good))


@pytest.mark.parametrize("name", RUNNING)
async def test_gateways_and_clients(name: str) -> None:
    bad, good, told = RUNNING[name]
    assert told in named(await found("", bad), name).seen
    assert name not in names(await found("", good))


def test_no_check_is_left_out() -> None:
    assert {*CONFIGS, *RUNNING} == {check.name for check in SETUP_CHECKS}


async def test_the_defaults_are_fine() -> None:
    findings = await found(BACKEND.format("127.0.0.1", ""), gateway([row()] * 10))
    assert names(findings) == set()


async def test_metrics_that_nobody_has_ever_asked_for() -> None:
    assert "Nobody has asked" in named(await found("", gateway(scraped=None)), "not-scraped").seen


async def test_what_the_fix_names_is_what_was_seen() -> None:
    findings = await found("", gateway(broken(4, 0)))
    assert "(system_changed 4)" in named(findings, "prompts-break").seen
    assert "warmgate explain b0`" in named(findings, "prompts-break").fix
    findings = await found("heartbeat: { after_headers: 5m }")
    assert "`heartbeat.after_headers`" in named(findings, "heartbeat").fix


async def test_a_state_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    findings = await found(f"state_dir: {tmp_path / 'a' / 'b'}")
    assert f"{tmp_path} cannot be written to" in named(findings, "state-broken").seen
