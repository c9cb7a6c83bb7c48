"""The admin port about the canonical form: dry runs, forgetting, and what /status says. In front of a real App on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from click.testing import CliRunner

from gateway import config as configuration
from gateway.cli import canon
from gateway.server.app import App
from gateway.server.gateway import Gateway
from tests.support.clients import Response, fetch
from tests.support.process import free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import json_reply

CHAT = "/v1/chat/completions"
TOKEN = ("Authorization", "Bearer sesame")
REPLY = {"id": "a", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}]}
SYSTEM = "You are Pelle.\n\nCurrent time: 2026-10-02 09:15:33\nWorking directory: /home/mira/lab"
ASKED = {"model": "tiny", "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hello"}]}


@dataclass(frozen=True, slots=True)
class Front:
    """A running App with a backend that answers chats."""

    app: App
    url: str
    admin: str

    async def ask(self, path: str, value: Any = None, *headers: tuple[str, str]) -> Response:
        """Ask the admin port, with its token."""
        return await fetch(self.admin + path, value, TOKEN, *headers)

    async def chat(self) -> Response:
        return await fetch(self.url + CHAT, ASKED, ("User-Agent", "agent/1"))

    @property
    def rows(self) -> list[Any]:
        return [(row.kind, row.key, row.value, at) for row, at in self.app.gateway.memory.ledger.rows()]


async def start(directory: str, upstream: str, **canonical: Any) -> tuple[App, str, str]:
    listen, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
    text = json.dumps({
        "listen": listen, "admin": {"listen": admin, "token": "sesame"}, "state_dir": directory, "canonical": canonical,
        "backends": {"local": {"kind": "openai", "url": upstream}},
    })  # fmt: skip
    config = configuration.loads(text, "test", {})
    app = App(Gateway(config), lambda: config)
    await app.start()
    return app, f"http://{listen}", f"http://{admin}"


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, *json_reply(REPLY))
        app, url, admin = await start(str(tmp_path / "state"), upstream.url)
        try:
            yield Front(app, url, admin)
        finally:
            await app.stop()


async def test_a_dry_run_says_what_canon_says(front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = await front.ask("/canonicalize", {"path": CHAT, "body": ASKED})
    assert (reply.status, reply.header("Content-Type")) == (200, "application/json; charset=utf-8")
    found = reply.json()
    assert [edit["rule"] for edit in found["edits"]] == ["clock", "place", "note"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("a.json").write_bytes(orjson.dumps(ASKED))
    ran = CliRunner().invoke(canon.command, ["a.json", "--json"])
    assert json.loads(ran.stdout) == found


async def test_a_dry_run_shows_what_really_goes_out(front: Front) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, *json_reply(REPLY))
        app, url, admin = await start("", upstream.url)
        try:
            found = (await fetch(f"{admin}/canonicalize", {"path": CHAT, "body": ASKED}, TOKEN)).json()
            assert upstream.asked(CHAT) == []
            await fetch(url + CHAT, ASKED)
            assert upstream.asked(CHAT)[0].json() == found["body"]
        finally:
            await app.stop()


async def test_a_dry_run_leaves_the_ledger_as_it_is(front: Front) -> None:
    assert (await front.chat()).header("X-Warmgate-Edits") == "clock=1, place=1, note=1"
    before, epoch = front.rows, front.app.gateway.memory.ledger.epoch
    other = {"model": "other", "messages": [{"role": "system", "content": SYSTEM + "/x"}, {"role": "user", "content": "Hi"}]}
    for body in (ASKED, other):
        assert (await front.ask("/canonicalize", {"path": CHAT, "body": body})).json()["changed"]
    assert (front.rows, front.app.gateway.memory.ledger.epoch) == (before, epoch)


async def test_a_dry_run_knows_what_the_ledger_knows_of_this_client(front: Front) -> None:
    await front.chat()
    talk = [*ASKED["messages"], {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And now?"}]  # type: ignore[misc]
    asked = {"path": CHAT, "body": {"model": "tiny", "messages": talk}}
    known = (await front.ask("/canonicalize", asked, ("User-Agent", "agent/1"))).json()
    assert [note["message"] for note in known["notes"]] == [0], "told already, in the note that was sent"
    stranger = (await front.ask("/canonicalize", asked, ("User-Agent", "agent/2"))).json()
    assert [note["message"] for note in stranger["notes"]] == [2], "a note never crosses clients"


async def test_the_mode_can_be_named_and_the_path_left_out(front: Front) -> None:
    found = (await front.ask("/canonicalize", {"body": ASKED, "mode": "observe"})).json()
    assert (found["path"], found["changed"], found["edits"], found["body"]) == (CHAT, False, [], ASKED)
    assert [one["rule"] for one in found["findings"]] == ["clock", "place"]
    found = (await front.ask("/canonicalize", {"body": ASKED, "mode": "off"})).json()
    assert (found["findings"], found["reason"]) == ([], "mode is off")


async def test_numbers_keep_their_spelling_and_prompts_may_be_large(front: Front) -> None:
    long = {**ASKED, "messages": [*ASKED["messages"], {"role": "user", "content": "x" * (3 << 20)}], "temperature": "T"}  # type: ignore[misc]
    raw = orjson.dumps({"path": CHAT, "body": long}).replace(b'"T"', b"1.10")
    async with httpx.AsyncClient(trust_env=False) as client:
        reply = await client.post(f"{front.admin}/canonicalize", content=raw, headers=[TOKEN])
    assert reply.status_code == 200
    assert '"temperature":1.10' in reply.text
    assert reply.json()["changed"]


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ([1], "invalid_body", "must be a JSON object"),
        ({"path": CHAT}, "invalid_body", 'Send {"path"'),
        ({"path": 7, "body": ASKED}, "invalid_body", 'Send {"path"'),
        ({"path": CHAT, "body": "text"}, "invalid_body", 'Send {"path"'),
        ({"path": CHAT, "body": ASKED, "mode": "perhaps"}, "invalid_mode", "rewrite, observe, off"),
        ({"path": CHAT, "body": ASKED, "mode": ["off"]}, "invalid_mode", "rewrite, observe, off"),
        ({"path": "/v1/completions", "body": {"prompt": "hi"}}, "no_prompt", "passed on as they are"),
        ({"body": {"question": "hi"}}, "no_prompt", "no `messages`"),
    ],
)
async def test_what_cannot_be_played_is_refused(front: Front, asked: Any, code: str, words: str) -> None:
    reply = await front.ask("/canonicalize", asked)
    assert (reply.status, reply.json()["error"]["code"]) == (400, code)
    assert words in reply.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/canonicalize", "/-/forget"])
async def test_they_are_behind_the_token_and_closed_to_other_pages(front: Front, path: str) -> None:
    await front.chat()
    before = front.rows
    assert (await fetch(front.admin + path, {"body": ASKED})).status == 401
    foreign = await front.ask(path, {"body": ASKED}, ("Origin", "http://elsewhere.example"))
    assert (foreign.status, foreign.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert (await fetch(front.admin + path, None, TOKEN)).status == 405
    assert front.rows == before != []


async def test_forgetting_tells_how_much_and_lets_the_next_request_learn_anew(front: Front) -> None:
    await front.chat()
    count = len(front.rows)
    reply = await front.ask("/-/forget", {})
    assert (reply.status, reply.json()) == (200, {"status": "forgotten", "rows": count})
    assert front.rows == []
    assert (await front.ask("/-/forget", {})).json()["rows"] == 0
    assert (await front.chat()).header("X-Warmgate-Edits") == "clock=1, place=1, note=1"
    assert len(front.rows) == count


async def test_status_tells_the_mode_and_what_is_remembered(front: Front) -> None:
    await front.chat()
    shown = (await front.ask("/status")).json()["canonical"]
    assert shown == {
        "mode": "rewrite",
        "rules": ["attribution", "tools", "clock", "place", "ids", "counters", "memory"],
        "observe": ["list_order", "learned"],
        "custom": [],
        "ledger": {"rows": len(front.rows), "durable": True, "problem": None},
    }
    assert len(front.rows) > 0


async def test_status_tells_when_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    app, _, admin = await start(str(tmp_path / "file" / "below"), "http://127.0.0.1:9", mode="observe")
    try:
        shown = (await fetch(f"{admin}/status", None, TOKEN)).json()["canonical"]
        assert (shown["mode"], shown["ledger"]["durable"]) == ("observe", False)
        assert "stays in memory" in shown["ledger"]["problem"]
        reply = await fetch(f"{admin}/-/forget", {}, TOKEN)
        assert (reply.status, reply.json()["error"]["code"]) == (500, "disk_failed")
    finally:
        await app.stop()
