"""`warmgate run` without a configuration file, and at addresses from the command line."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.cli.run import Openness
from gateway.config import loads
from tests.cli.verbs import warmgate
from tests.support import personas
from tests.support.clients import fetch
from tests.support.engine import StartEngine, needs_engine
from tests.support.personas import Canned, Persona
from tests.support.process import REPOSITORY, GatewayProcess, free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import never

PATIENCE = 20.0  # seconds; the gateway looks every three
OPEN = "no api_keys are set"


class Unconfigured(GatewayProcess):
    """A gateway that has no file, in a directory of its own; its addresses are on its command line."""

    def __init__(self, directory: Path, ports: Sequence[int], *listen: str, data_port: int = 0, **options: Any):
        data, admin = f"127.0.0.1:{data_port or free_port()}", f"127.0.0.1:{free_port()}"
        words = [sys.executable, "-m", "gateway", "run", "--admin-listen", admin]
        words += [word for address in (data, *listen) for word in ("--listen", address)]
        environment = {
            "HOME": str(directory), "XDG_CONFIG_HOME": "", "WARMGATE_CONFIG": "", "PYTHONPATH": str(REPOSITORY),
            "PYTHONUNBUFFERED": "1", "WARMGATE_DISCOVER_PORTS": ",".join(map(str, ports)),
        }  # fmt: skip
        script = f"cd {shlex.quote(str(directory))} && exec {shlex.join(words)}"  # the file's path comes as $0, unused
        config = {"listen": data, "admin": {"listen": admin}}
        super().__init__(directory, config, command=("sh", "-c", script), environment=environment, **options)

    async def backends(self) -> list[str]:
        status = (await fetch(f"{self.admin}/status")).json()
        return [backend["name"] for backend in status["backends"]]

    async def until_told(self, words: str) -> None:
        """On standard output or in the log."""
        try:
            async with asyncio.timeout(PATIENCE):
                while words not in self.log:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not told: {words}\n{self.log}") from None

    async def until_backends(self, *names: str) -> None:
        found: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := await self.backends()) != list(names):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{found} and not {names}\n{self.log}") from None

    async def models(self) -> list[str]:
        return [row["id"] for row in (await fetch(f"{self.url}/v1/models")).json()["data"]]


def late(persona: Persona, port: int) -> ScriptedUpstream:
    upstream = ScriptedUpstream(persona)
    upstream.port = port
    return upstream


async def test_what_is_there_is_served_at_once_and_told(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(personas.ollama("gem", loaded=True)) as ollama,
        ScriptedUpstream(personas.llamacpp()) as llama,
        Unconfigured(tmp_path, (ollama.port, llama.port)) as gateway,
    ):
        assert await gateway.backends() == ["ollama", "llamacpp"]
        assert await gateway.models() == ["gem", "tiny"]
        await gateway.until_told("OLLAMA_HOST")
        log = gateway.log
    assert f"Found ollama: Ollama 0.33.3 at {ollama.url}, 1 model: gem (4,096 tokens)" in log
    assert f"Found llamacpp: llama.cpp b11549-0123abc at {llama.url}, 1 model: tiny (8,192 tokens)" in log
    for line in (f"base_url: {gateway.url}/v1", f"OLLAMA_HOST={gateway.url}", "host.docker.internal"):
        assert line in log
    assert OPEN not in log


async def test_with_nothing_there_it_looks_on_and_serves_what_appears(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    async with Unconfigured(tmp_path, (first, second)) as gateway:
        await gateway.until_told("No model server was found")
        assert (await fetch(f"{gateway.admin}/readyz")).status == 503
        async with late(personas.llamacpp("tiny"), second) as llama:
            await gateway.until_backends("llamacpp")
            await gateway.until_told(f"Found llamacpp: llama.cpp b11549-0123abc at {llama.url}")
            async with late(personas.ollama("gem"), first):
                await gateway.until_backends("ollama", "llamacpp")
                await gateway.until_told("Found ollama")
                async with asyncio.timeout(PATIENCE):
                    while await gateway.models() != ["gem", "tiny"]:
                        await asyncio.sleep(0.05)
        assert gateway.log.count("# Hermes Agent") == 1, "the lines to paste are printed once"


async def test_a_hangup_looks_again_and_forgets_who_is_gone(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(personas.ollama("gem")) as ollama,
        ScriptedUpstream(personas.llamacpp()) as llama,
        Unconfigured(tmp_path, (ollama.port, llama.port)) as gateway,
    ):
        assert await gateway.backends() == ["ollama", "llamacpp"]
        await llama.stop()
        gateway.signal(signal.SIGHUP)
        await gateway.until_backends("ollama")
        await llama.start()
        await gateway.until_backends("ollama", "llamacpp")
        await ollama.stop()
        reply = await fetch(f"{gateway.admin}/-/reload", {})
        assert reply.status == 200
        assert await gateway.backends() == ["llamacpp"]
        await ollama.start()


async def test_its_own_ports_are_not_looked_at(tmp_path: Path) -> None:
    port = free_port()
    async with (
        ScriptedUpstream(personas.llamacpp()) as llama,
        Unconfigured(tmp_path, (port, llama.port), data_port=port) as gateway,
    ):
        assert await gateway.models() == ["tiny"]
        await asyncio.sleep(4.0)  # it has looked once more
        assert await gateway.backends() == ["llamacpp"]
        metrics = await gateway.metrics()
        assert metrics.value("warmgate_requests_total") == metrics.value("warmgate_requests_total", outcome="ok") == 1.0


async def test_a_server_that_hangs_does_not_hold_up_the_others(tmp_path: Path) -> None:
    silent = ScriptedUpstream(Persona("silent", {}, Canned(404, b"")))
    silent.on("*", never())
    async with silent, ScriptedUpstream(personas.ollama("gem")) as ollama:
        began = asyncio.get_running_loop().time()
        async with Unconfigured(tmp_path, (silent.port, ollama.port)) as gateway:
            took = asyncio.get_running_loop().time() - began
            assert await gateway.backends() == ["ollama"]
    assert took < 10.0


async def test_a_server_that_asks_for_a_key_is_named(tmp_path: Path) -> None:
    locked = ScriptedUpstream(Persona("locked", {}, Canned(401, b'{"error": {"message": "Invalid API Key"}}')))
    async with locked, Unconfigured(tmp_path, (locked.port,)) as gateway:
        await gateway.until_told(f"{locked.url} is a model server that asks for an API key")
        assert await gateway.backends() == []


@needs_engine
async def test_a_real_llama_server_is_served_at_once(tmp_path: Path, start_engine: StartEngine) -> None:
    engine = start_engine("-c", "2048", "-np", "1", "--alias", "tiny")
    async with Unconfigured(tmp_path, (free_port(), engine.port)) as gateway:
        assert (await gateway.backends(), await gateway.models()) == (["llamacpp"], ["tiny"])
        assert "1 model: tiny (2,048 tokens)" in gateway.log
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        reply = await fetch(f"{gateway.url}/v1/chat/completions", body)
        assert reply.status == 200
        assert orjson.loads(reply.body)["usage"]["completion_tokens"] == 2


# addresses


async def test_listen_overrides_a_file_and_may_be_repeated(tmp_path: Path) -> None:
    one, two = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = (sys.executable, "-m", "gateway", "run", "--listen", one, "--listen", two, "--config")
    async with GatewayProcess(tmp_path, {"backends": {}}, command=command) as gateway:
        for address in (one, two):
            assert (await fetch(f"http://{address}/v1/models")).status == 200
        with pytest.raises(OSError):
            await fetch(f"{gateway.url}/v1/models")
        gateway.signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            while "configuration reloaded" not in gateway.log:
                await asyncio.sleep(0.05)
        assert [row["address"] for row in (await fetch(f"{gateway.admin}/status")).json()["listeners"]] == [one, two]


@pytest.mark.parametrize(("keys", "warnings"), [([], 1), (["hush"], 0)])
async def test_an_open_address_without_keys_is_warned_of_once(tmp_path: Path, keys: list[str], warnings: int) -> None:
    command = (sys.executable, "-m", "gateway", "run", "--listen", f"0.0.0.0:{free_port()}", "--config")
    async with GatewayProcess(tmp_path, {"backends": {}, "api_keys": keys}, command=command) as gateway:
        gateway.signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            while "configuration reloaded" not in gateway.log:
                await asyncio.sleep(0.05)
    assert gateway.log.count(OPEN) == warnings


def test_the_warning_is_told_again_when_the_addresses_change(caplog: pytest.LogCaptureFixture) -> None:
    openness = Openness()
    for text in ("listen: ':1'", "listen: ':1'", "listen: '127.0.0.1:1'", "listen: ['127.0.0.1:2', '10.0.0.1:1']"):
        openness.tell(loads(text, "w", {}))
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [":1", "10.0.0.1:1"]


@pytest.mark.parametrize(
    "arguments", [("--listen", "8484"), ("--listen", "127.0.0.1:99999"), ("--admin-listen", "x"), ("--zebra",)]
)
async def test_usage_errors_have_exit_code_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ran = await warmgate(tmp_path, "run", *arguments)
    assert (ran.code, ran.out, "Traceback" in ran.err) == (2, "", False)


async def test_ports_that_are_no_ports_are_a_usage_error(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "run", WARMGATE_DISCOVER_PORTS="many")
    assert (ran.code, "WARMGATE_DISCOVER_PORTS" in ran.err) == (2, True)


async def test_addresses_that_collide_are_a_problem(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "run", "--listen", "127.0.0.1:8485", WARMGATE_DISCOVER_PORTS=str(free_port()))
    assert (ran.code, ran.out) == (1, "")
    assert "operator's address" in ran.err


async def test_a_file_that_was_named_is_not_replaced_by_what_is_found(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "run", "--config", "none.yaml", WARMGATE_DISCOVER_PORTS=str(free_port()))
    assert (ran.code, "none.yaml: the configuration cannot be read" in ran.err) == (1, True)
