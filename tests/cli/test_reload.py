"""`warmgate reload` asks the gateway that the configuration names."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from gateway import config as configuration
from gateway.cli.reload import reload
from tests.cli.test_run_discovery import Unconfigured
from tests.cli.verbs import warmgate
from tests.support import personas
from tests.support.process import GatewayProcess, free_port
from tests.support.scripted import ScriptedUpstream


async def test_a_running_gateway_takes_the_file_over_or_says_why_not(tmp_path: Path) -> None:
    config = {"admin": {"listen": f"127.0.0.1:{free_port()}", "token": "sesame"}, "backends": {}}
    async with GatewayProcess(tmp_path, config) as gateway:
        arguments = ("reload", "--config", str(gateway.config_file))
        gateway.write_config(hosts=["chat.lan"])
        ran = await warmgate(tmp_path, *arguments)
        assert (ran.code, ran.out) == (0, "The configuration was reloaded.\n")
        gateway.write_config(state_dir=str(tmp_path / "elsewhere"))
        ran = await warmgate(tmp_path, *arguments, "--json")
        assert ran.code == 1
        assert json.loads(ran.out) == {"ok": False, "message": "state_dir cannot change while the gateway runs; restart it."}


async def test_without_a_gateway(tmp_path: Path) -> None:
    config = tmp_path / "w.yaml"
    config.write_text(yaml.safe_dump({"admin": {"listen": f"127.0.0.1:{free_port()}"}}))
    ran = await warmgate(tmp_path, "reload", "--config", str(config))
    assert ran.code == 1
    assert ran.err.startswith("No gateway answers at http://127.0.0.1:")


def defaults_at(monkeypatch: pytest.MonkeyPatch, admin: str) -> None:
    """As if no file were found and this were the default address."""
    monkeypatch.setattr(configuration, "find", lambda path, environment: None)
    config = configuration.loads(yaml.safe_dump({"admin": {"listen": admin.removeprefix("http://")}}), "defaults", {})
    monkeypatch.setattr(configuration, "loads", lambda *_: config)


async def test_a_gateway_without_a_configuration_looks_for_servers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedUpstream(personas.ollama("gem")) as upstream, Unconfigured(tmp_path, (upstream.port,)) as gateway:
        await gateway.until_backends("ollama")
        await upstream.stop()
        defaults_at(monkeypatch, gateway.admin)
        ok, words = await asyncio.to_thread(reload, None)
        assert ok
        assert words.startswith(f"No configuration was found here, so the gateway at {gateway.admin} was asked: it read")
        assert await gateway.backends() == []


def test_without_either_both_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = f"http://127.0.0.1:{free_port()}"
    defaults_at(monkeypatch, admin)
    ok, words = reload(None)
    assert not ok
    assert words.startswith(f"No configuration was found; name it with --config. No gateway answers at {admin}")
