"""`warmgate init`, as a process in front of scripted servers."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest

from gateway import config as configuration
from tests.cli.verbs import Ran, warmgate
from tests.support import personas
from tests.support.personas import Canned, Persona
from tests.support.process import free_port
from tests.support.scripted import ScriptedUpstream

LOCKED = Persona("locked", {}, Canned(401, b'{"error": {"message": "Invalid API Key"}}'))


async def init(directory: Path, *arguments: str, servers: tuple[Persona, ...] = ()) -> Ran:
    """Run it while these servers are there, on ports of their own, which are the only ones that it looks at."""
    upstreams = [ScriptedUpstream(persona) for persona in servers]
    await asyncio.gather(*(upstream.start() for upstream in upstreams))
    try:
        ports = ",".join(str(upstream.port) for upstream in upstreams) or str(free_port())
        return await warmgate(directory, "init", *arguments, WARMGATE_DISCOVER_PORTS=ports)
    finally:
        await asyncio.gather(*(upstream.stop() for upstream in upstreams))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_what_is_found_is_written_and_check_accepts_it(tmp_path: Path) -> None:
    ran = await init(tmp_path, servers=(personas.ollama("gem", loaded=True), personas.llamacpp("tiny")))
    assert (ran.code, ran.err) == (0, "")
    file = tmp_path / "warmgate.yaml"
    config = configuration.load(file, {})
    assert {name: backend.kind for name, backend in config.backends.items()} == {"ollama": "ollama", "llamacpp": "llamacpp"}
    assert "# 1 model: tiny (8,192 tokens)" in file.read_text()
    checked = await warmgate(tmp_path, "check")
    assert (checked.code, checked.out.splitlines()[0]) == (0, "warmgate.yaml: fine")
    assert mode(file) & 0o400
    assert mode(file) & 0o044, "nothing in it is secret"


async def test_it_says_what_to_do_next(tmp_path: Path) -> None:
    ran = await init(tmp_path, "--path", "other.yaml", servers=(personas.ollama("gem"),))
    for words in ("Wrote other.yaml.", "Found ollama: Ollama 0.33.3 at", "warmgate run --config other.yaml", "OLLAMA_HOST="):
        assert words in ran.out


async def test_with_nothing_found_the_file_is_valid_and_holds_an_example(tmp_path: Path) -> None:
    ran = await init(tmp_path)
    assert ran.code == 0
    assert "write your server's address" in ran.out
    text = (tmp_path / "warmgate.yaml").read_text()
    assert configuration.loads(text, "w", {}).backends == {}
    assert (await warmgate(tmp_path, "check")).code == 0
    uncommented = text.replace("\n#  local", "\n  local").replace("\n#    url", "\n    url")
    assert configuration.loads(uncommented, "w", {}).backends["local"].url == "http://127.0.0.1:11434"


async def test_every_comment_that_is_a_key_is_valid_without_its_sign(tmp_path: Path) -> None:
    text = (await init(tmp_path, "--print", servers=(personas.ollama("gem"),))).out
    text = text.replace("# api_keys", "api_keys").replace("# models:", "models:").replace("#   coder", "  coder")
    config = configuration.loads(text.replace("BACKEND/MODEL", "ollama/gem"), "w", {"WARMGATE_KEY": "k"})
    assert (config.api_keys, config.models["coder"].targets) == (("k",), ("ollama/gem",))


async def test_a_server_with_a_key_has_a_place_for_it_in_a_private_file(tmp_path: Path) -> None:
    ran = await init(tmp_path, servers=(LOCKED, personas.ollama("gem")))
    file = tmp_path / "warmgate.yaml"
    config = configuration.load(file, {"LOCKED_KEY": "hush"})
    assert list(config.backends) == ["ollama", "locked"]
    assert config.backends["locked"].headers == {"authorization": "Bearer hush"}
    assert configuration.load(file, {}).backends["locked"].headers, "valid before the variable is set"
    assert mode(file) == 0o600
    assert "asks for an API key" in ran.out


async def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "warmgate.yaml"
    file.write_text("identity: ollama\n")
    ran = await init(tmp_path, servers=(personas.ollama("gem"),))
    assert (ran.code, ran.out, file.read_text()) == (1, "", "identity: ollama\n")
    assert "--force" in ran.err
    forced = await init(tmp_path, "--force", servers=(personas.ollama("gem"),))
    assert (forced.code, list(configuration.load(file, {}).backends)) == (0, ["ollama"])
    assert sorted(path.name for path in tmp_path.glob("*warmgate.yaml*")) == ["warmgate.yaml"], "nothing is left beside it"


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["new", "force"])
async def test_a_file_that_cannot_be_written_is_a_problem(tmp_path: Path, force: tuple[str, ...]) -> None:
    ran = await init(tmp_path, "--path", "none/w.yaml", *force)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("none/w.yaml cannot be written: ")


async def test_print_writes_nothing(tmp_path: Path) -> None:
    ran = await init(tmp_path, "--print", servers=(personas.ollama("gem"),))
    assert ran.code == 0
    assert list(configuration.loads(ran.out, "w", {}).backends) == ["ollama"]
    assert not (tmp_path / "warmgate.yaml").exists()


async def test_as_json(tmp_path: Path) -> None:
    told = json.loads((await init(tmp_path, "--json", servers=(personas.llamacpp("tiny", n_ctx=8192),))).out)
    assert (told["ok"], told["file"], told["problem"], "text" in told) == (True, "warmgate.yaml", None, False)
    (found,) = told["found"]
    assert found | {"url": ""} == {
        "name": "llamacpp", "kind": "llamacpp", "version": "b11549-0123abc", "url": "", "loading": False,
        "models": [{"name": "tiny", "context": 8192}],
    }  # fmt: skip
    assert {row["client"] for row in told["clients"]} >= {"Hermes Agent", "opencode", "Continue"}
    again = json.loads((await init(tmp_path, "--json")).out)
    assert (again["ok"], again["file"], "--force" in again["problem"]) == (False, None, True)
    printed = json.loads((await init(tmp_path, "--json", "--print")).out)
    assert (printed["ok"], printed["file"]) == (True, None)
    assert configuration.loads(printed["text"], "w", {}).backends == {}


async def test_names_of_models_cannot_break_the_file_or_the_terminal(tmp_path: Path) -> None:
    ran = await init(tmp_path, servers=(personas.openai("a\nbackends: 1", "\x1b[31mred", "\u202egnp"),))
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert list(configuration.load(tmp_path / "warmgate.yaml", {}).backends) == ["openai"]


@pytest.mark.parametrize("ports", ["x", "0", "70000", "1,,2"])
async def test_usage_errors_have_exit_code_2(tmp_path: Path, ports: str) -> None:
    ran = await warmgate(tmp_path, "init", WARMGATE_DISCOVER_PORTS=ports)
    assert (ran.code, "WARMGATE_DISCOVER_PORTS" in ran.err) == (2, True)
    assert "Traceback" not in ran.err
