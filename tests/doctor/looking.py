"""Asking the doctor about servers, requests and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway import config as configuration
from gateway.config import Config
from gateway.doctor import Report, examine
from gateway.doctor.base import Finding
from gateway.doctor.examine import diagnose
from gateway.doctor.running import Running, Silent, read
from gateway.doctor.subject import Setup
from tests.support.process import free_port

NOBODY = Silent("No gateway answers.")


def config(text: str = "") -> Config:
    return configuration.loads(text, "test", {})


def row(**fields: Any) -> dict[str, Any]:
    """A request as /requests tells it, answered and counted unless said otherwise."""
    agent = fields.pop("agent", "pond/1.0")
    return {
        "id": "r1", "model": "tiny", "backend": "one", "path": "/v1/chat/completions", "outcome": "ok", "reason": None,
        "prompt": 1000, "cached": 900, "cached_source": "usage", "ttft": 0.2, "ttfb": 0.1, "duration": 1.0,
        "client": {"agent": agent, "address": "127.0.0.1"},
    } | fields  # fmt: skip


def gateway(rows: Sequence[Mapping[str, Any]] = (), **status: Any) -> Running:
    return Running({"backends": [], "listeners": [], "canonical": {"mode": "rewrite"}} | status, tuple(map(read, rows)), True)


async def server(url: str, rows: Sequence[Mapping[str, Any]] = (), **settings: Any) -> list[Finding]:
    """What is found at one server, which clients of a running gateway asked as these rows say."""
    text = configuration.to_yaml({"backends": {"one": {"url": url, **settings}}})
    setup = Setup(config(text), gateway(rows), config(text).backends)
    _, found = await examine.examine_server("one", setup)
    return found


async def around(setup: Setup) -> list[Finding]:
    """What is found in a configuration, its gateway and its clients."""
    return await examine.examine_setup(setup)


async def whole(url: str, text: str = "") -> Report:
    """Everything, where no gateway runs."""
    admin = f"admin: {{ listen: 127.0.0.1:{free_port()} }}\nstate_dir: ''\n"
    return await diagnose(config(f"backends: {{ one: {{ url: '{url}' }} }}\n{admin}{text}"))


def names(findings: Iterable[Finding]) -> set[str]:
    return {finding.name for finding in findings}


def named(findings: Iterable[Finding], name: str) -> Finding:
    return next(finding for finding in findings if finding.name == name)
