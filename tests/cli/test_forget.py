"""`warmgate forget`, with a running gateway and without one. What was told in a prompt must be gone from every byte on disk."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.state.store import FILE
from tests.cli.verbs import Ran, warmgate
from tests.lifecycle.waiting import CHAT, until
from tests.support.clients import fetch
from tests.support.process import GatewayProcess, free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply

SECRET = b"geheimnis"
REPLY = {"id": "a", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}]}


def question(number: int = 0) -> dict[str, Any]:
    system = f"You are Pelle.\nWorking directory: /home/mira/{SECRET.decode()}{number}\nBe brief."
    return {
        "model": "tiny",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": f"Hello {number}"}],
    }


def holds_secret(directory: Path) -> list[str]:
    """The files that hold a word of the prompt, in any byte."""
    return [file.name for file in sorted(directory.iterdir()) if SECRET in file.read_bytes()]


def remembered(directory: Path) -> int:
    with closing(sqlite3.connect(directory / FILE)) as db:
        return int(db.execute("SELECT count(*) FROM rows").fetchone()[0])


async def learn(gateway: GatewayProcess, requests: int = 1) -> None:
    """Have the gateway learn something of prompts, and see it on disk."""
    state = Path(gateway.config["state_dir"])
    for number in range(requests):
        reply = await fetch(f"{gateway.url}{CHAT}", question(number))
        assert (reply.status, reply.header("X-Warmgate-Edits")) == (200, "place=1, note=1")

    async def is_there() -> bool:
        return bool(holds_secret(state)) and remembered(state) >= requests

    assert await until(is_there)


@pytest.fixture
async def gateway(tmp_path: Path) -> Any:
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, *json_reply(REPLY))
        config = {
            "backends": {"local": {"url": upstream.url}},
            "admin": {"listen": f"127.0.0.1:{free_port()}", "token": "sesame"},
        }
        async with GatewayProcess(tmp_path, config) as gateway:
            yield gateway


async def forget(gateway: GatewayProcess, *more: str, stdin: bytes = b"") -> Ran:
    return await warmgate(gateway.config_file.parent, "forget", "--config", str(gateway.config_file), *more, stdin=stdin)


async def rows(gateway: GatewayProcess) -> int:
    status = await fetch(f"{gateway.admin}/status", None, ("Authorization", "Bearer sesame"))
    return int(status.json()["canonical"]["ledger"]["rows"])


async def test_the_running_gateway_forgets_in_memory_and_on_disk(gateway: GatewayProcess) -> None:
    state = Path(gateway.config["state_dir"])
    await learn(gateway, 40)
    before = await rows(gateway)
    assert before >= 40
    ran = await forget(gateway, "--yes", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {"ok": True, "rows": before, "message": f"{before} rows dropped by the running gateway."}
    assert (holds_secret(state), remembered(state), await rows(gateway)) == ([], 0, 0)
    await learn(gateway)
    assert await rows(gateway) > 0, "and it goes on learning"


async def test_without_a_gateway_the_file_is_emptied(gateway: GatewayProcess) -> None:
    state = Path(gateway.config["state_dir"])
    await learn(gateway, 40)
    await gateway.stop()
    count = remembered(state)
    (state / "warmgate.corrupt-1700000000").write_bytes(b"an old one with " + SECRET)
    assert len(holds_secret(state)) >= 2
    ran = await forget(gateway, "--yes")
    assert (ran.code, ran.out, ran.err) == (0, f"{count} rows dropped from {state / FILE}.\n", "")
    assert count >= 40
    assert (holds_secret(state), remembered(state)) == ([], 0)
    assert (await forget(gateway, "--yes")).out == f"0 rows dropped from {state / FILE}.\n"


async def test_it_asks_first(gateway: GatewayProcess) -> None:
    await learn(gateway)
    ran = await forget(gateway, stdin=b"n\n")
    assert ran.code == 1
    assert ran.out.startswith("Drop all that was learned of prompts?")
    assert await rows(gateway) > 0
    ran = await forget(gateway, stdin=b"y\n")
    assert (ran.code, await rows(gateway)) == (0, 0)


async def test_json_asks_no_questions(tmp_path: Path) -> None:
    ran = await warmgate(tmp_path, "forget", "--json")
    assert ran.code == 2
    assert "needs --yes" in ran.err


async def test_a_wrong_token_is_told_and_the_file_left_alone(gateway: GatewayProcess) -> None:
    await learn(gateway)
    other = gateway.config_file.with_name("other.yaml")
    other.write_text(yaml.safe_dump(gateway.config | {"admin": {**gateway.config["admin"], "token": "wrong"}}))
    ran = await warmgate(tmp := gateway.config_file.parent, "forget", "--config", str(other), "--yes", "--json")
    assert ran.code == 1
    assert json.loads(ran.out) == {"ok": False, "message": "Send the admin token as `Authorization: Bearer ...`."}
    assert holds_secret(tmp / "state")


async def test_where_nothing_was_kept(tmp_path: Path) -> None:
    config = tmp_path / "w.yaml"
    config.write_text(yaml.safe_dump({"state_dir": str(tmp_path / "none"), "admin": {"listen": f"127.0.0.1:{free_port()}"}}))
    ran = await warmgate(tmp_path, "forget", "--yes", "--config", str(config))
    assert (ran.code, ran.out) == (0, f"0 rows dropped from {tmp_path / 'none' / FILE}.\n")
    assert not (tmp_path / "none").exists()
    config.write_text(yaml.safe_dump({"state_dir": "", "admin": {"listen": f"127.0.0.1:{free_port()}"}}))
    ran = await warmgate(tmp_path, "forget", "--yes", "--config", str(config))
    assert ran.code == 0
    assert "`state_dir` is empty" in ran.out


async def test_a_file_that_cannot_be_emptied_is_a_problem(tmp_path: Path) -> None:
    state, config = tmp_path / "state", tmp_path / "w.yaml"
    (state / FILE).mkdir(parents=True)
    config.write_text(yaml.safe_dump({"state_dir": str(state), "admin": {"listen": f"127.0.0.1:{free_port()}"}}))
    ran = await warmgate(tmp_path, "forget", "--yes", "--json", "--config", str(config))
    assert ran.code == 1
    assert f"{state / FILE} cannot be used" in json.loads(ran.out)["message"]
