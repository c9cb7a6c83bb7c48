"""`warmgate check --live`: a look at each backend."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.verbs import warmgate
from tests.support import personas
from tests.support.process import free_port
from tests.support.scripted import ScriptedUpstream


async def test_each_backend_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    closed = f"http://127.0.0.1:{free_port()}"
    async with ScriptedUpstream(personas.llamacpp("coder")) as good, ScriptedUpstream(personas.openai("a", "b")) as other:
        backends = {
            "good": {"url": good.url},
            "liar": {"kind": "llamacpp", "url": other.url},
            "gone": {"url": closed},
        }
        (tmp_path / "warmgate.yaml").write_text(json.dumps({"backends": backends}))
        told = await warmgate(tmp_path, "check", "--live")
        data = await warmgate(tmp_path, "check", "--live", "--json")
    lines = [line for line in told.out.splitlines() if line.startswith("live")]
    assert (told.code, told.err) == (1, "")
    assert lines[0] == "live     good: up, llamacpp b11549-0123abc, 1 model"
    assert lines[1].startswith("live     liar: up, llamacpp, 2 models; /props not answered as llamacpp does; ")
    assert lines[2] == f"live     gone: not up; {closed}: connection refused; is the server running?"
    document = json.loads(data.out)
    assert (data.code, document["ok"], list(document["live"])) == (1, False, ["good", "liar", "gone"])
    assert document["live"]["good"] == {
        "up": True, "kind": "llamacpp", "version": "b11549-0123abc", "problem": None, "models": ["coder"],
    }  # fmt: skip


async def test_all_is_well(tmp_path: Path) -> None:
    async with ScriptedUpstream(personas.openai()) as server:
        (tmp_path / "warmgate.yaml").write_text(json.dumps({"backends": {"one": {"kind": "openai", "url": server.url}}}))
        told = await warmgate(tmp_path, "check", "--live")
    assert (told.code, told.out.splitlines()[-1]) == (0, "live     one: up, openai, 1 model")


async def test_without_it_nobody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "warmgate.yaml").write_text(json.dumps({"backends": {"one": {"url": f"http://127.0.0.1:{free_port()}"}}}))
    told = await warmgate(tmp_path, "check", "--json")
    assert told.code == 0
    assert "live" not in json.loads(told.out)
