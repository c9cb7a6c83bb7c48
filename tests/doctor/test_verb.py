"""`warmgate doctor` without `--contract`, as its users run it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from gateway.doctor import examine
from tests.cli.verbs import warmgate
from tests.doctor import looking
from tests.doctor.servers import ollama
from tests.doctor.test_probe_and_canary import last_number
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_vllm import FakeVllm
from tests.support.process import free_port
from tests.support.replies import Reply

ADMIN = "admin: {{ listen: '127.0.0.1:{}' }}\n"


def write(directory: Path, text: str) -> None:
    (directory / "warmgate.yaml").write_text(ADMIN.format(free_port()) + text)


async def test_servers_that_are_found(tmp_path: Path) -> None:
    async with ollama()() as fake:
        port = fake.url.rpartition(":")[2]
        ran = await warmgate(tmp_path, "doctor", "--json", WARMGATE_DISCOVER_PORTS=port)
    report = json.loads(ran.out)
    assert (ran.code, ran.err, report["ok"]) == (0, "", True)
    assert [(server["name"], server["kind"], server["up"]) for server in report["servers"]] == [("ollama", "ollama", True)]
    assert {"ollama-parallel"} <= {finding["name"] for finding in report["findings"]}
    assert set(report["findings"][0]) == {"name", "severity", "where", "seen", "why", "fix"}


async def test_serious_findings_come_first_and_are_the_exit_code(tmp_path: Path) -> None:
    async with FakeVllm(caching=False) as fake:
        write(tmp_path, f"backends: {{ one: {{ url: '{fake.url}' }}, two: {{ url: 'http://127.0.0.1:{free_port()}' }} }}")
        ran = await warmgate(tmp_path, "doctor", COLUMNS="200")
        as_json = await warmgate(tmp_path, "doctor", "--json")
    assert (ran.code, as_json.code, ran.err) == (1, 1, "")
    severities = [finding["severity"] for finding in json.loads(as_json.out)["findings"]]
    assert severities == sorted(severities, key=["serious", "advice", "note"].index)
    assert severities[:3] == ["serious", "serious", "advice"]
    assert ran.out.splitlines()[0] == f"one: vLLM 0.12.0 at {fake.url}"
    assert "two: auto at" in ran.out
    assert "Fix: Start vLLM without `--no-enable-prefix-caching`." in ran.out
    assert ran.out.splitlines()[-1].startswith("2 servers: 2 serious, ")


async def test_keys_are_not_told(tmp_path: Path) -> None:
    async with FakeVllm(key="sesame") as fake:
        headers = "headers: { authorization: Bearer sesame }"
        write(tmp_path, f"backends: {{ one: {{ url: '{fake.url}', {headers} }} }}\napi_keys: [barley]\nlisten: 0.0.0.0:1")
        ran = await warmgate(tmp_path, "doctor", "--json")
    assert [server["kind"] for server in json.loads(ran.out)["servers"]] == ["vllm"]
    assert "sesame" not in ran.out
    assert "barley" not in ran.out


async def test_probe_and_canary(tmp_path: Path) -> None:
    async with FakeOllama(context_length=32768) as fake:
        fake.answer = lambda ask: Reply(text=last_number(ask))
        write(tmp_path, f"backends: {{ one: {{ url: '{fake.url}' }} }}")
        probed = await warmgate(tmp_path, "doctor", "--probe", "tiny", "--json")
        sung = await warmgate(tmp_path, "doctor", "--canary", "tiny", "--json")
        missing = await warmgate(tmp_path, "doctor", "--canary", "nobody", "--json")
    assert probed.code == 1, "a single slot: one prompt takes the other's"
    assert json.loads(probed.out)["measured"]["reused"] is True
    assert (sung.code, json.loads(sung.out)["measured"]) == (0, {"model": "tiny:latest", "answers": 8, "own": 8, "crossed": 0})
    assert (missing.code, json.loads(missing.out)["ok"]) == (1, False)
    assert "No server has the model nobody" in json.loads(missing.out)["problem"]


async def test_a_broken_configuration(tmp_path: Path) -> None:
    (tmp_path / "warmgate.yaml").write_text("backend: {}")
    ran = await warmgate(tmp_path, "doctor")
    assert (ran.code, ran.out) == (1, "")
    assert "did you mean" in ran.err


async def test_a_server_that_never_answers_takes_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "SERVER", 0.5)

    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the other side leaves
        writer.close()

    silent = await asyncio.start_server(listen_only, "127.0.0.1", 0)
    async with silent:
        began = time.monotonic()
        report = await looking.whole(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}")
        assert time.monotonic() - began < 3
    assert "not answer in time" in looking.named(report.findings, "down").seen
    assert not report.fine
