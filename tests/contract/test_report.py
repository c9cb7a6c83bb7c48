"""Reports can be attached to a bug report: they hold no address, key or directory of a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import __version__
from gateway.contract import Finding, examine
from gateway.contract.base import counted
from gateway.contract.report import Masking, Report, Row
from tests.support.engine import ModelFile, StartEngine, needs_engine
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_vllm import FakeVllm
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply

NAMES = st.text("abcdefghij0123456789-", min_size=3, max_size=12).filter(lambda name: name.strip("-") == name)


async def test_what_a_report_holds() -> None:
    async with FakeOllama() as ollama:
        report = await examine(ollama.url, only=["kind", "cached-chat"])
        data = json.loads(json.dumps(report.data()))
    assert data["warmgate"] == __version__
    assert data["url"] == f"http://***:{ollama.port}"
    assert (data["kind"], data["server"], data["model"], data["ok"]) == ("ollama", "0.33.3", "tiny:latest", True)
    assert data["started"].endswith("+00:00")
    assert data["summary"].startswith("ollama 0.33.3: 2 ok, 0 differ, 0 skipped in ")
    kind, cached = data["probes"]
    assert set(kind) == {"name", "result", "detail", "seconds", "measured", "proves", "source"}
    assert (cached["name"], cached["result"], cached["measured"]["source"]) == ("cached-chat", "ok", "usage")
    assert cached["seconds"] > 0


async def test_a_key_and_a_host_that_the_server_repeats_are_masked() -> None:
    async with FakeVllm(key="sesame-4711") as vllm:
        report = await examine(vllm.url, key="sesame-4711", only=["kind"])
        assert report.fine
    async with ScriptedUpstream() as upstream:
        told = {"error": {"message": f"key sesame-4711 is not for {upstream.url}/v1"}}
        upstream.on("/v1/chat/completions", *json_reply(told, 403))
        report = await examine(upstream.url, key="sesame-4711", only=["first-answer"])
        text = json.dumps(report.data())
        assert "sesame" not in text
        assert "127.0.0.1" not in text
        assert "is not for http://***/v1" in report.rows[0].finding.detail


@needs_engine
async def test_the_directory_of_a_model_is_masked(start_engine: StartEngine, model_file: ModelFile) -> None:
    path = model_file()
    report = await examine(start_engine("-c", "4096").url, model=str(path))
    text = json.dumps(report.data())
    assert path.name in text
    assert str(path.parent) not in text
    assert str(path)[:-12] not in text, "not cut off in the middle either"


@given(host=NAMES, key=NAMES, port=st.integers(1, 65535))
def test_no_text_keeps_the_host_or_the_key(host: str, key: str, port: int) -> None:
    masking = Masking(f"http://{host}:{port}/a?b", "m", [key])
    told = masking.text(f"GET http://{host}:{port}/x with {key}, {host.upper()} refused")
    assert host not in told.lower().replace("get http", "").replace("with", "").replace("refused", "")
    assert key not in told
    assert masking.url == f"http://***:{port}"


def test_a_host_is_a_whole_word() -> None:
    assert Masking("http://gpu:1", "m").text("gpu, gpu:1, gpus and a-gpu") == "***, ***, gpus and a-gpu"
    assert Masking("http://ollama:1", "m").text("ollama at ollama:1") == "ollama at ***"


@pytest.mark.parametrize(
    ("model", "shown"),
    [("/home/someone/models/a.gguf", "a.gguf"), ("C:\\Users\\someone\\a.gguf", "a.gguf"), ("org/name", "org/name")],
)
def test_a_model_that_is_a_file_is_named_by_its_file(model: str, shown: str) -> None:
    masking = Masking("http://h:1", model)
    found = masking.finding(Finding("ok", f"has {model}, {json.dumps(model)}", {"model": [model, {"at": model}]}))
    assert found.detail == f'has {shown}, "{shown}"'
    assert found.measured == {"model": [shown, {"at": shown}]}


def test_nothing_to_mask() -> None:
    assert Masking("http://h", "m").url == "http://***"
    assert Masking("", "m").text("as it is") == "as it is"
    assert Path(Masking("http://h:1", "/m").model) == Path("m")


@pytest.mark.parametrize(("count", "words"), [(0, "0 differ"), (1, "1 differs"), (2, "2 differ")])
def test_one_differs_and_two_differ(count: int, words: str) -> None:
    rows = tuple(Row("x", "", "", Finding("differs", ""), 0.0) for _ in range(count))
    assert f" {words}, " in Report("", "ollama", None, "", "", 1.0, rows).summary


@pytest.mark.parametrize(("count", "words"), [(0, "0 models"), (1, "1 model"), (2, "2 models"), (None, "unknown models")])
def test_counts_have_their_noun(count: int | None, words: str) -> None:
    assert counted(count, "model") == words
