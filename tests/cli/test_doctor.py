"""`warmgate doctor`, as its users run it: its options, and `--contract`. What it finds is in tests/doctor."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.verbs import warmgate
from tests.contract.bent import Bent, replaced
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_vllm import FakeVllm
from tests.support.process import free_port


async def test_a_server_that_keeps_its_contract(tmp_path: Path) -> None:
    async with FakeOllama() as ollama:
        ran = await warmgate(tmp_path, "doctor", "--contract", ollama.url, "--only", "stream-*", "--only", "kind")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["probe", "result", "found", "seconds"]
    assert "role+content, content x" in next(line for line in lines if line.startswith("stream-chat"))
    assert lines[-1].startswith("ollama 0.33.3: 9 ok, 0 differ, 0 skipped in ")


async def test_one_that_does_not(tmp_path: Path) -> None:
    async with FakeOllama() as ollama, Bent(ollama.url, "/api/chat", replaced(b'"done":true', b'"done":false')) as bent:
        ran = await warmgate(tmp_path, "doctor", "--contract", bent.url, "--only", "stream-ollama-*", "--json")
        people = await warmgate(tmp_path, "doctor", "--contract", bent.url, "--only", "stream-ollama-*", COLUMNS="300")
    assert (ran.code, people.code, ran.err) == (1, 1, "")
    report = json.loads(ran.out)
    assert {probe["name"]: probe["result"] for probe in report["probes"]} == {
        "stream-ollama-chat": "differs",
        "stream-ollama-generate": "ok",
    }
    assert (report["ok"], report["kind"]) == (False, "ollama")
    assert "127.0.0.1" not in ran.out
    assert "expected pieces, then the last line" in people.out


async def test_kind_model_and_key(tmp_path: Path) -> None:
    async with FakeVllm("a", key="sesame") as vllm:
        asked = ("doctor", "--contract", vllm.url, "--kind", "vllm", "--model", "a", "--only", "first-answer", "--json")
        given = await warmgate(tmp_path, *asked, "--api-key", "sesame")
        from_environment = await warmgate(tmp_path, *asked, WARMGATE_DOCTOR_KEY="sesame")
        without = await warmgate(tmp_path, *asked)
    assert [json.loads(ran.out)["ok"] for ran in (given, from_environment, without)] == [True, True, False]
    assert "API key" in json.loads(without.out)["problem"]
    assert without.code == 1


async def test_nobody_there(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "doctor", "--contract", f"http://127.0.0.1:{free_port()}")
    assert (ran.code, ran.out) == (1, "")
    assert "connection refused" in ran.err


async def test_usage(tmp_path: Path) -> None:
    for arguments, told in (
        (("--only", "stream-*"), "need --contract http"),
        (("--probe", "a", "--canary", "a"), "give one of them"),
        (("--direct",), "--direct needs --probe"),
        (("--contract", "localhost:1"), "takes an address"),
        (("--contract", "http://localhost:1", "--only", "nothing"), "no probe 'nothing'"),
        (("--contract", "http://localhost:1", "--kind", "auto"), "--kind"),
    ):
        ran = await warmgate(tmp_path, "doctor", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert told in ran.err


async def test_help_names_every_option(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "doctor", "--help")
    assert all(option in ran.out for option in ("--contract URL", "--kind", "--mutating", "--only NAME", "--json"))
