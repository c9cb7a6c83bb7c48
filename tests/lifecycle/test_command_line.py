"""The command as a shell sees it: what it says, where it says it, and its exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from gateway import __version__
from tests.support.process import REPOSITORY, free_port
from tests.support.scripted import ScriptedUpstream


async def warmgate(directory: Path, *arguments: str) -> tuple[int | None, str, str]:
    """Exit code, standard output, standard error. It finds no configuration but in `directory`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WARMGATE", "XDG"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments,
        cwd=directory, env={**environment, "HOME": str(directory), "PYTHONPATH": str(REPOSITORY)},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 20)
    assert b"Traceback" not in out + err, err.decode()
    return process.returncode, out.decode(), err.decode()


async def test_version(tmp_path: Path) -> None:
    assert await warmgate(tmp_path, "--version") == (0, f"warmgate, version {__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--nonsense",), ("run", "--nonsense"), ("nonsense",), ("reload", "too", "many")])
async def test_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = await warmgate(tmp_path, *arguments)
    assert (code, out) == (2, "")
    assert "Usage: " in err


@pytest.mark.parametrize("verb", [("run", "--config"), ("reload", "--config"), ("check",), ("config",)])
async def test_a_configuration_that_is_not_there(tmp_path: Path, verb: tuple[str, ...]) -> None:
    code, out, err = await warmgate(tmp_path, *verb, "missing.yaml")
    assert (code, out) == (1, "")
    assert "missing.yaml" in err


async def test_check_and_config(tmp_path: Path) -> None:
    file = tmp_path / "warmgate.yaml"
    file.write_text("api_keys: [not-for-everyone]\nbackends: { local: { url: 'http://127.0.0.1:11434' } }\n")
    code, out, err = await warmgate(tmp_path, "check")
    assert (code, err) == (0, "")
    assert "local" in out
    code, out, err = await warmgate(tmp_path, "config")
    assert (code, err) == (0, "")
    assert "http://127.0.0.1:11434" in out
    assert "not-for-everyone" not in out
    file.write_text("backends: { local: { urll: 'http://127.0.0.1:11434' } }\n")
    for verb in ("check", "config", "run"):
        code, out, err = await warmgate(tmp_path, verb)
        assert (code, out) == (1, "")
        assert "warmgate.yaml:1:22: backends.local.urll: " in err
        assert "did you mean" in err
    code, out, err = await warmgate(tmp_path, "check", "--json")
    assert (code, err, json.loads(out)["ok"]) == (1, "", False)


@pytest.mark.parametrize("which", ["listen", "admin"])
async def test_an_address_that_is_taken(tmp_path: Path, which: str) -> None:
    async with ScriptedUpstream() as other:
        taken, free = f"127.0.0.1:{other.port}", f"127.0.0.1:{free_port()}"
        listen, admin = (taken, free) if which == "listen" else (free, taken)
        (tmp_path / "warmgate.yaml").write_text(f"listen: {listen}\nadmin: {{ listen: {admin} }}\nbackends: {{}}\n")
        code, out, err = await warmgate(tmp_path, "run")
        assert code == 1
        assert f"{taken} cannot be listened on: Address already in use" in out + err


async def test_reload_without_a_gateway(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "warmgate.yaml").write_text(f"admin: {{ listen: 127.0.0.1:{port} }}\nbackends: {{}}\n")
    code, out, err = await warmgate(tmp_path, "reload")
    assert (code, out) == (1, "")
    assert f"No gateway answers at http://127.0.0.1:{port}/-/reload" in err
    code, out, err = await warmgate(tmp_path, "reload", "--json")
    assert (code, err, json.loads(out)["ok"]) == (1, "", False)
