"""`warmgate reload` asks the gateway that the configuration names."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.cli.verbs import warmgate
from tests.support.process import GatewayProcess, free_port


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


async def test_without_a_gateway_or_a_configuration(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "reload")
    assert (ran.code, ran.out, ran.err) == (1, "", "No configuration was found; name it with --config.\n")
    config = tmp_path / "w.yaml"
    config.write_text(yaml.safe_dump({"admin": {"listen": f"127.0.0.1:{free_port()}"}}))
    ran = await warmgate(tmp_path, "reload", "--config", str(config))
    assert ran.code == 1
    assert ran.err.startswith("No gateway answers at http://127.0.0.1:")
