"""`warmgate ps`, in front of a real App whose backend is a fake Ollama."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import _show
from tests.cli.verbs import warmgate
from tests.support.clients import fetch
from tests.support.fake_ollama import FakeOllama
from tests.support.front import front
from tests.support.ollama_runners import Model
from tests.support.process import free_port

HOSTILE = "evil\x1b[31m[red]x[/red]\u202e:latest"


async def test_models_that_are_resident_and_the_backends(tmp_path: Path) -> None:
    async with FakeOllama(Model("tiny"), Model("other"), Model(HOSTILE)) as ollama:
        for model, stay in (("tiny", 600), (HOSTILE, -1)):
            body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": False, "keep_alive": stay}
            assert (await fetch(f"{ollama.url}/api/chat", body)).status == 200
        async with front(tmp_path, backends={"home": {"kind": "ollama", "url": ollama.url}}, models={}) as gateway:
            ran = await warmgate(tmp_path, "ps", "--config", str(gateway.file))
            assert (ran.code, ran.err) == (0, "")
            assert "home" in ran.out
            assert "ollama" in ran.out
            assert "up" in ran.out
            lines = {line.split()[0]: line for line in ran.out.splitlines() if line}
            assert re.search(r"\(in (9|10) min", lines["tiny:latest"])
            assert "evil?[31m[red]x[/red]?:latest" in ran.out, "as text"
            assert "\x1b" not in ran.out
            assert "other" not in ran.out
            ran = await warmgate(tmp_path, "ps", "--json", "--all", "--config", str(gateway.file))
            shown = json.loads(ran.out)
    assert [backend["name"] for backend in shown["backends"]] == ["home"]
    models = {model["name"]: model for model in shown["models"]}
    assert models.keys() == {"tiny:latest", "other:latest", HOSTILE}
    assert models["tiny:latest"]["backend"] == "home"
    assert models["tiny:latest"]["resident"]
    assert models["tiny:latest"]["expires"] > time.time() + 500
    assert not models["other:latest"]["resident"]


async def test_a_backend_that_is_down_says_what_is_wrong(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with front(tmp_path, backends={"home": {"kind": "openai", "url": url}}, models={}) as gateway:
        ran = await warmgate(tmp_path, "ps", "--config", str(gateway.file))
    assert ran.code == 0
    (line,) = (line for line in ran.out.splitlines() if line.startswith("home"))
    assert "up" not in line.split()
    assert "No model is resident" in ran.out


@pytest.mark.parametrize("verb", [("ps",), ("top",), ("tail",), ("explain", "--last")])
async def test_without_a_gateway_and_with_a_wrong_token(tmp_path: Path, verb: tuple[str, ...]) -> None:
    config = tmp_path / "w.yaml"
    config.write_text(yaml.safe_dump({"admin": {"listen": f"127.0.0.1:{free_port()}"}}))
    ran = await warmgate(tmp_path, *verb, "--config", str(config))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: No gateway answers at http://127.0.0.1:")
    async with front(tmp_path) as gateway:
        document: dict[str, Any] = json.loads(gateway.file.read_text())
        config.write_text(json.dumps({**document, "admin": {**document["admin"], "token": "wrong"}}))
        ran = await warmgate(tmp_path, *verb, "--json", "--config", str(config))
    assert ran.code == 1
    assert json.loads(ran.out) == {"error": "Send the admin token as `Authorization: Bearer ...`."}


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (_show.seconds(None), "–"),
        (_show.seconds(0.0344), "0.034 s"),
        (_show.seconds(4.24), "4.2 s"),
        (_show.seconds(185), "3 min 5 s"),
        (_show.seconds(7300), "2 h 1 min"),
        (_show.size(None), "–"),
        (_show.size(512), "512 B"),
        (_show.size(5 << 30), "5.0 GiB"),
        (_show.share(None, 10), "–"),
        (_show.share(5, 0), "–"),
        (_show.share(0, 1000), "0 %"),
        (_show.share(1, 1000), "1 %"),
        (_show.share(999, 1000), "99 %"),
        (_show.share(1000, 1000), "100 %"),
        (_show.until({"expires": None, "never_expires": True}, 0), "for good"),
        (_show.until({"expires": None, "never_expires": False}, 0), "not told"),
    ],
)
def test_how_numbers_are_written(shown: str, words: str) -> None:
    assert shown == words
