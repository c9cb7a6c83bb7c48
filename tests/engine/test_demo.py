import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.engine.calls import answers
from gateway.engine.gguf import CACHE_VARIABLE
from tests.support.engine import ModelFile, needs_engine

DEMO = [sys.executable, "-m", "gateway", "demo", "--model", "tiny"]


@pytest.fixture
def environment(model_file: ModelFile, tmp_path: Path) -> dict[str, str]:
    """With the session's models, and with a directory for temporary files of its own."""
    (tmp_path / "tmp").mkdir()
    return os.environ | {CACHE_VARIABLE: str(model_file().parent), "TMPDIR": str(tmp_path / "tmp")}


@needs_engine
def test_json_is_the_whole_output_and_shows_reuse(environment: dict[str, str], tmp_path: Path) -> None:
    run = subprocess.run([*DEMO, "--json"], env=environment, capture_output=True, text=True, timeout=50)
    assert (run.returncode, run.stderr) == (0, "")
    document = json.loads(run.stdout)
    ways = {way: [request[way] for request in document["requests"]] for way in ("direct", "gateway")}
    assert [way[0]["cached_tokens"] for way in ways.values()] == [0, 0]
    assert max(request["reused"] for request in ways["direct"][1:]) < 0.1
    assert min(request["reused"] for request in ways["gateway"][1:]) > 0.9
    assert ways["gateway"][0]["ttft_seconds"] > ways["gateway"][2]["ttft_seconds"] > 0
    for way, requests in ways.items():
        read = sum(request["prompt_tokens"] - request["cached_tokens"] for request in requests)
        assert document["totals"][way]["prefilled_tokens"] == read
    figures = dict(line.rsplit(" ", 1) for line in document["metrics"])
    prompts = [float(value) for name, value in figures.items() if name.startswith("warmgate_prompt_tokens_total{")]
    cached = [float(value) for name, value in figures.items() if name.startswith("warmgate_prompt_tokens_cached_total{")]
    assert sum(prompts) == sum(request["prompt_tokens"] for request in ways["gateway"])
    assert sum(cached) == sum(request["cached_tokens"] for request in ways["gateway"])
    assert not answers(document["gateway"] + "/v1/models")
    assert not answers(document["admin"] + "/healthz")
    assert list((tmp_path / "tmp").iterdir()) == []


@needs_engine
def test_the_table_has_both_ways_for_every_request(environment: dict[str, str]) -> None:
    run = subprocess.run(DEMO, env=environment, capture_output=True, text=True, timeout=50)
    assert run.returncode == 0
    assert [name for name in ("first question", "second question", "another session") if name not in run.stdout] == []
    assert (run.stdout.count(" directly │"), run.stdout.count(" gateway  │")) == (3, 3)
    assert max(map(len, run.stdout.splitlines()[:12])) <= 80
    assert re.search(r"had to read [\d,]+ tokens directly, [\d,]+ through the gateway", run.stdout)
    assert "warmgate_time_to_first_token_seconds_count{" in run.stdout


def read_document(output: Any) -> Any:
    """One JSON document from a stream that stays open."""
    text = ""
    for line in output:
        text += line
        if line == "}\n":
            return json.loads(text)
    raise AssertionError(f"no document in {text!r}")


@needs_engine
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_stays_until_it_is_told_to_stop(number: int, status: int, environment: dict[str, str], tmp_path: Path) -> None:
    command = [*DEMO, "--json", "--stay"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as demo:
        document = read_document(demo.stdout)
        assert demo.stderr is not None
        notes = demo.stderr.readline() + demo.stderr.readline() + demo.stderr.readline()
        assert f"curl {document['gateway']}/v1/chat/completions" in notes
        assert answers(document["gateway"] + "/v1/models")
        demo.send_signal(number)
        assert demo.wait(20) == status
    assert not answers(document["gateway"] + "/v1/models")
    assert list((tmp_path / "tmp").iterdir()) == []


@needs_engine
def test_a_killed_demo_leaves_nothing_running(environment: dict[str, str]) -> None:
    command = [*DEMO, "--json", "--stay"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as demo:
        document = read_document(demo.stdout)
        demo.kill()
    deadline = time.monotonic() + 10
    while answers(document["admin"] + "/healthz") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not answers(document["admin"] + "/healthz")


def test_a_missing_extra_is_one_sentence_and_exit_code_1() -> None:
    code = "import sys; sys.modules['xllamacpp'] = None; from gateway.cli import main; main(['demo'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert "pip install 'warmgate[demo]'" in run.stderr


@needs_engine
def test_a_directory_that_cannot_be_used_is_one_line(environment: dict[str, str]) -> None:
    wrong = environment | {CACHE_VARIABLE: "/dev/null/models"}
    run = subprocess.run([*DEMO, "--json"], env=wrong, capture_output=True, text=True, timeout=30)
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
