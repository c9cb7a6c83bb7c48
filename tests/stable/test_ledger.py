"""What is remembered of conversations: over restarts and crashes, without a disk, by two gateways, for two people.

A process takes a second to start on a busy machine, so that tests which need new ones go through several lives in a row.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.stable.seen import Seen, extends
from tests.stable.stand import MODELS, SAID, Recording, Stand, ask, eventually
from tests.support.clients import fetch
from tests.support.process import GatewayProcess
from tests.support.replies import Reply

LAB = "You are Pelle, a careful helper for a small lab.\nNever push to the main branch."
QUESTIONS = ("List the parts in tray 4.", "And tray 5?", "And tray 6?", "And tray 7?", "And tray 8?")
CHAT = "/v1/chat/completions"


def body(n: int, folder: str = "/home/mira/lab", said: str = SAID) -> dict[str, Any]:
    """Turn n of a conversation, with a clock that goes on."""
    system = f"{LAB}\nCurrent time: 2026-03-04T10:15:{n:02}Z\nWorking directory: {folder}"
    talk = [{"role": "system", "content": system}]
    for question in QUESTIONS[:n]:
        talk += [{"role": "user", "content": question}, {"role": "assistant", "content": said}]
    return {"model": "local-a", "messages": [*talk, {"role": "user", "content": QUESTIONS[n]}]}


class Desk:
    """One simulated server, and gateways in front of it."""

    def __init__(self, server: Recording):
        self.server = server
        self.config = {"backends": {"ollama": {"kind": "ollama", "url": server.url}}}

    def gateway(self, directory: Path, *, check: bool = True, **config: Any) -> GatewayProcess:
        directory.mkdir(exist_ok=True)
        return GatewayProcess(directory, {**self.config, **config}, check=check)

    async def turn(
        self, gateway: GatewayProcess, n: int, *headers: tuple[str, str], agent: str = "agent/1", **more: Any
    ) -> Seen:
        """What the server received of turn n."""
        response = await ask(gateway.url, CHAT, body(n, **more), agent="agent/1")
        assert response.status == 200, response.body
        seen = self.server.bodies[-1]
        assert "Current time" in seen.system
        assert "10:15" not in seen.system
        assert told(seen, f"10:15:{n:02}")
        return seen

    @property
    def reused(self) -> int:
        return self.server.served[-1].reused


def told(seen: Seen, value: str) -> bool:
    return value in seen.notes


@pytest_asyncio.fixture(loop_scope="module")
async def desk() -> AsyncIterator[Desk]:
    async with Recording(*MODELS.values()) as server:
        server.answer = lambda _: Reply(text=SAID)
        yield Desk(server)


def stored(directory: Path) -> int:
    """Notes on disk whose reply is known."""
    with closing(sqlite3.connect(f"file:{directory}/state/warmgate.sqlite3?mode=ro", uri=True)) as db:
        values = db.execute("SELECT value FROM rows WHERE kind = 'note'").fetchall()
    return sum(not bytes(value).startswith(b'[[""') for (value,) in values)


async def test_notes_survive_a_restart_and_a_kill(desk: Desk, tmp_path: Path) -> None:
    async with desk.gateway(tmp_path) as gateway:
        first = await desk.turn(gateway, 0)
    killed = desk.gateway(tmp_path, check=False)
    async with killed:
        second = await desk.turn(killed, 1)
        await eventually(lambda: stored(tmp_path) == 2, "the note on disk")
        killed.signal(signal.SIGKILL)
        assert await killed.wait(5) == -signal.SIGKILL
    hasty = desk.gateway(tmp_path, check=False)
    async with hasty:
        third = await desk.turn(hasty, 2)
        hasty.signal(signal.SIGKILL)  # before or after the note was written, nobody knows
        await hasty.wait(5)
    async with desk.gateway(tmp_path) as gateway:
        await desk.turn(gateway, 3)
    assert extends(first, second)
    assert extends(second, third)
    assert desk.server.served[2].reused >= second.tokens(MODELS["local-a"])
    assert stat.S_IMODE((tmp_path / "state" / "warmgate.sqlite3").stat().st_mode) == 0o600


async def test_nothing_is_on_disk_without_a_state_directory(desk: Desk, tmp_path: Path) -> None:
    async with desk.gateway(tmp_path, state_dir="") as gateway:
        first = await desk.turn(gateway, 0)
        second = await desk.turn(gateway, 1)
        assert extends(first, second)
        opened = {os.readlink(link) for link in Path(f"/proc/{gateway.pid}/fd").iterdir() if link.is_symlink()}
        assert not [name for name in opened if "sqlite" in name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "gateway.log"]
    async with desk.gateway(tmp_path, state_dir="") as gateway:
        third = await desk.turn(gateway, 2)
    assert third.system == second.system
    assert third.notes.count("<context>") == 1  # the old notes are forgotten, the values are told all the same


def lose(file: Path) -> None:
    file.unlink()


def scribble(file: Path) -> None:
    file.write_bytes(b"this is no database, but it is long enough to be looked at as one\n" * 200)


def bar(file: Path) -> None:
    file.unlink()
    file.mkdir()


async def test_a_lost_or_broken_file_costs_a_prefix_and_no_value(desk: Desk, tmp_path: Path) -> None:
    async with desk.gateway(tmp_path) as gateway:
        first = await desk.turn(gateway, 0)
    for n, damage in enumerate((lose, scribble, bar), 1):
        damage(tmp_path / "state" / "warmgate.sqlite3")
        async with desk.gateway(tmp_path) as gateway:
            seen = await desk.turn(gateway, n)
            again = await desk.turn(gateway, n + 1)
        assert seen.system == first.system
        assert seen.notes.count("<context>") == 1
        assert extends(seen, again)


async def test_a_conversation_between_two_gateways_is_told_everything(desk: Desk, tmp_path: Path) -> None:
    """Neither knows the notes of the other; each turn tells its own values, and another folder reaches the model at once."""
    async with desk.gateway(tmp_path / "a") as one, desk.gateway(tmp_path / "b") as other:
        seen = [await desk.turn(gateway, n) for n, gateway in enumerate((one, other, one, other))]
        assert len({each.system for each in seen}) == 1
        last = await desk.turn(one, 4, folder="/srv/tovik/gears")
        assert told(last, "/srv/tovik/gears")
        assert all(told(each, "/home/mira/lab") for each in seen)


async def test_two_gateways_on_one_file_do_not_harm_each_other(desk: Desk, tmp_path: Path) -> None:
    shared = {"state_dir": str(tmp_path / "state")}
    async with desk.gateway(tmp_path / "a", **shared) as one, desk.gateway(tmp_path / "b", **shared) as other:
        for n, gateway in enumerate((one, other, one, other)):
            await desk.turn(gateway, n)
    with closing(sqlite3.connect(tmp_path / "state" / "warmgate.sqlite3")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


PEOPLE = [
    pytest.param(("Authorization", "Bearer mira"), ("Authorization", "Bearer tovik"), id="keys"),
    pytest.param(("x-api-key", "mira"), ("x-api-key", "tovik"), id="api-keys"),
    pytest.param(("User-Agent", "agent-of-mira/1"), ("User-Agent", "agent-of-tovik/1"), id="agents"),
]


@pytest.mark.parametrize(("mira", "tovik"), PEOPLE)
async def test_two_people_with_the_same_words_never_see_each_others_values(
    stand: Stand, mira: tuple[str, str], tovik: tuple[str, str]
) -> None:
    turns = [(tovik, 0), *((who, n) for n in range(1, 5) for who in (mira, tovik))]  # her first turn went another way
    for who, n in turns:
        folder, other = ("/home/mira/lab", "tovik") if who is mira else ("/srv/tovik/gears", "mira")
        headers, agent = ([], who[1]) if who[0] == "User-Agent" else ([who], stand.agent)
        await stand.ask(CHAT, body(n, folder=folder), *headers, agent=agent)
        assert other not in stand.seen.raw.decode()
        assert stand.seen.notes.count(folder) == 1
        assert told(stand.seen, f"10:15:{n:02}")


async def test_both_conversations_of_one_person_keep_their_own_notes(stand: Stand) -> None:
    """The same words in two folders at once, with different answers: each history gets back what was sent with it."""
    seen: dict[str, list[Seen]] = {"/home/mira/lab": [], "/srv/gears": []}
    for n in range(3):
        for folder in seen:
            said = f"In {folder.rpartition('/')[2]} there are 12."
            stand.says(said)
            await stand.ask(CHAT, body(n, folder=folder, said=said))
            seen[folder].append(stand.seen)
    for folder, other in zip(seen, reversed(seen), strict=True):
        first, second, third = seen[folder]
        assert extends(first, second)
        assert extends(second, third)
        assert other not in third.raw.decode()
        assert third.notes.count(folder) == 1


async def test_the_same_answer_in_two_folders_is_nobodys_note(stand: Stand) -> None:
    """Nothing tells the two conversations apart, so neither gets a note that may be the other's; all is told anew."""
    folders = ("/home/mira/lab", "/srv/gears")
    for folder in folders:
        await stand.ask(CHAT, body(0, folder=folder))
    for folder, other in zip(folders, reversed(folders), strict=True):
        await stand.ask(CHAT, body(1, folder=folder))
        assert told(stand.seen, folder)
        assert not told(stand.seen, other)


async def test_a_window_that_slides_keeps_the_system_text_and_tells_all(stand: Stand) -> None:
    for n in range(5):
        request = body(n)
        del request["messages"][1 : 1 + 2 * max(n - 2, 0)]
        await stand.ask(CHAT, request)
        assert told(stand.seen, f"10:15:{n:02}")
        assert told(stand.seen, "/home/mira/lab")
        assert "/home/mira/lab" not in stand.seen.system
        if n:
            assert stand.served.reused >= stand.seen.tokens(MODELS["local-a"], "<|user|>")


async def test_a_summary_in_place_of_the_history_tells_all(stand: Stand) -> None:
    for n in range(3):
        await stand.ask(CHAT, body(n))
    request = body(3)
    request["messages"][1:-1] = [
        {"role": "user", "content": "Summary: trays 4 to 6."},
        {"role": "assistant", "content": "Go on."},
    ]
    await stand.ask(CHAT, request)
    assert told(stand.seen, "10:15:03")
    assert told(stand.seen, "/home/mira/lab")
    assert stand.served.reused >= stand.seen.tokens(MODELS["local-a"], "<|user|>")


async def test_an_answer_that_is_asked_for_again_and_a_branch_keep_their_history(stand: Stand) -> None:
    """The second turn is asked twice, with other answers; whichever the talk goes on with, its history is as it was sent."""
    await stand.ask(CHAT, body(0))
    branches = {}
    for second, said in ((11, "Empty."), (12, "Full.")):
        request = body(1)
        request["messages"][0]["content"] = request["messages"][0]["content"].replace("10:15:01", f"10:15:{second}")
        stand.says(said)
        await stand.ask(CHAT, request)
        branches[said] = stand.seen
    for said, before in branches.items():
        request = body(2)
        request["messages"][4]["content"] = said
        await stand.ask(CHAT, request)
        assert extends(before, stand.seen)


async def test_many_conversations_at_once(stand: Stand) -> None:
    """They begin with the same words at the same time, and only their answers differ."""

    def answer(ask: Any) -> Reply:
        folder = re.findall(r"/srv/(\d+)", str(ask.messages))
        return Reply(text=f"In {folder[-1]} there are 12.")

    stand.fake.answer = answer

    async def talk(number: int) -> None:
        for n in range(3):
            request = body(n, folder=f"/srv/{number}", said=f"In {number} there are 12.")
            await stand.ask(CHAT, {**request, "stream": bool(number % 2)})
            found = [seen for seen in stand.fake.bodies if f"/srv/{number}\n" in seen.notes]
            assert len(found) == n + 1
            assert set(re.findall(r"/srv/\d+", found[-1].raw.decode())) == {f"/srv/{number}"}
            if n:
                assert extends(found[-2], found[-1])

    await asyncio.gather(*(talk(number) for number in range(8)))


async def test_forgetting_while_a_conversation_goes_on(desk: Desk, tmp_path: Path) -> None:
    async with desk.gateway(tmp_path) as gateway:
        await desk.turn(gateway, 0)
        await eventually(lambda: stored(tmp_path) == 1, "the note on disk")
        response = await fetch(f"{gateway.admin}/-/forget", {})
        assert response.status == 200, response.body
        assert stored(tmp_path) == 0
        assert b"/home/mira" not in b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
        second = await desk.turn(gateway, 1)
        assert second.notes.count("<context>") == 1
        assert extends(second, await desk.turn(gateway, 2))
