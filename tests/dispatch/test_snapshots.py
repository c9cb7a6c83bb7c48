"""What is saved, led and restored around a request, and that nothing that goes wrong with it harms the request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import SystemClock
from gateway.dispatch.saver import INEFFECTIVE
from gateway.dispatch.turns import LIMIT, Turns
from gateway.events import SnapshotDone, SnapshotsChanged
from gateway.routing.board import Ask, Choice, Mode, Running, Snapshot
from gateway.state.memory import Memory
from gateway.values import Probe, Usage
from tests.dispatch.slotted import Slot, Slotted
from tests.support.snapshots import NAME, Rig

PROBE = Probe("llamacpp", up=True, single_model=True, slots=2, mark="process 1")
HEAD = "You mind a lighthouse. " * 60


def body(question: str, head: str = HEAD, **more: Any) -> dict[str, Any]:
    told = [{"role": "system", "content": head}, {"role": "user", "content": question}]
    return {"messages": told, "max_tokens": 4, "stream": True, **more}


def rendered(asked: dict[str, Any]) -> str:
    return "".join(f"{one['role']}:{one['content']};" for one in asked["messages"])


@asynccontextmanager
async def stand(
    mode: Mode = "kept", slots: int = 2, memory: Memory | None = None, server: Slotted | None = None, **settings: Any
) -> AsyncIterator[tuple[Slotted, Rig]]:
    """A server that was met, and the driver in front of it."""
    async with server or Slotted([Slot() for _ in range(slots)], emptied=mode == "emptied") as running:
        rig = Rig(running.url, memory or Memory(None, SystemClock()), mode, slots, ratio=1.0, **settings)
        try:
            await rig.saw(replace(PROBE, slots=slots, mark=running.mark or None))
            yield running, rig
        finally:
            await rig.close()


async def led(rig: Rig, question: str = "one", slot: int = 0) -> Snapshot:
    """A head that was computed ahead and saved, from slot 0."""
    asked = body(question)
    answer = await rig.ask(asked, slot=slot, pin=rig.engine.mode == "kept", lead=rig.chain(asked).head)
    assert answer.status == 200
    return rig.engine.snapshots[rig.chain(asked).start]


def _model(rig: Rig) -> str:
    return rig.snapshots._savers[NAME].process.model


# what a server can do


async def test_a_server_that_saves_is_offered_to_routing_and_one_that_does_not_is_not() -> None:
    async with stand() as (_, rig):
        assert rig.engine.saves
    async with stand(server=Slotted([Slot()], refuse={"asked": 501})) as (server, rig):
        assert (rig.engine.saves, rig.engine.snapshots) == (False, {})
        answer = await rig.ask(body("one"), slot=0, pin=True, lead=3)
        assert (answer.status, answer.choice.lead, server.acts("lead", "save", "prove")) == (200, 0, [])


async def test_without_disk_nobody_is_asked() -> None:
    async with stand(disk=0) as (server, rig):
        assert (rig.engine.saves, server.asked, rig.snapshots.status(NAME)) == (False, [], None)


@pytest.mark.parametrize("seen", [{"slots": None}, {"single_model": False}, {"sleeping": True}, {"up": False}])
async def test_who_is_not_asked(seen: dict[str, Any]) -> None:
    async with Slotted([Slot()]) as server:
        rig = Rig(server.url, Memory(None, SystemClock()), "kept", 1)
        await rig.saw(replace(PROBE, **seen))
        assert not rig.engine.saves
        await rig.close()


async def test_a_server_with_a_projector_refuses_the_first_save_and_is_not_asked_again() -> None:
    """Case: slots of multimodal servers cannot be saved, and only a save tells (501)."""
    async with stand(server=Slotted([Slot()], refuse={"save": 501})) as (server, rig):
        asked = body("one")
        first = await rig.ask(asked, slot=0, pin=True, lead=rig.chain(asked).head)
        assert (first.status, first.choice.restore) == (200, None)
        assert not rig.engine.saves
        await rig.ask(body("two"), slot=0, pin=True, lead=rig.chain(asked).head)
        assert len(server.acts("save")) == 1
        status = rig.snapshots.status(NAME)
        assert status is not None
        assert "501" in status["given_up"]
        await rig.saw(replace(PROBE, mark="process 2"))
        assert rig.engine.saves, "another process may"


# a head is led


async def test_a_pinned_leader_finds_its_head_in_its_own_slot_and_others_restore_it() -> None:
    async with stand() as (server, rig):
        snapshot = await led(rig)
        assert server.asked == ["prove 0", "lead 0 0", "save 0 0.bin", f"chat 0 {len(HEAD) + 13}"]
        second = await rig.ask(body("two"), slot=1, pin=True, restore=snapshot, reused=snapshot.tokens)
        assert server.asked[4:] == ["restore 1 0.bin", f"chat 1 {len(HEAD) + 13}"]
        assert (second.choice.restore, second.choice.reused) == (snapshot, snapshot.tokens)
        assert [one.hits for one in rig.memory.snapshots.snapshots(NAME, _model(rig)).values()] == [1]


@pytest.mark.parametrize("mode", ["kept", "emptied"])
async def test_requests_that_begin_alike_wait_for_one_lead(mode: Mode) -> None:
    async with stand(mode, slots=4) as (server, rig):
        server.hold["lead"] = asyncio.Event()
        lead = rig.chain(body("x")).head
        asking = [asyncio.create_task(rig.ask(body(f"{n}"), slot=n, pin=mode == "kept", lead=lead, reused=0)) for n in range(4)]
        await asyncio.sleep(0.1)
        assert server.acts("chat") == []
        server.hold["lead"].set()
        answers = await asyncio.gather(*asking)
        assert len(server.acts("lead")) == len(server.acts("save")) == 1
        assert all(answer.cached >= len(HEAD) for answer in answers)


async def test_in_the_default_mode_nothing_starts_between_a_restore_and_its_request() -> None:
    async with stand("emptied", slots=4) as (server, rig):
        snapshot = await led(rig)
        del server.asked[:]
        choices: list[dict[str, Any]] = [
            {"slot": 0},
            {"slot": 1, "restore": snapshot},
            {"slot": 2},
            {"slot": 3, "restore": snapshot},
        ]
        answers = await asyncio.gather(*(rig.ask(body(f"{n}"), **choice) for n, choice in enumerate(choices)))
        acts = [one.split()[0] for one in server.acts("restore", "chat")]
        assert sorted(acts) == ["chat"] * 4 + ["restore"] * 2
        assert all(acts[at + 1] == "chat" for at, act in enumerate(acts) if act == "restore")
        assert all(answer.cached > len(HEAD) for answer, choice in zip(answers, choices, strict=True) if "restore" in choice)


async def test_a_turn_ends_with_the_headers_and_not_with_the_answer() -> None:
    async with stand("emptied", slots=2) as (server, rig):
        snapshot = await led(rig)
        server.hold["chat"] = asyncio.Event()
        began = time.monotonic()
        asking = [asyncio.create_task(rig.ask(body(f"{n}"), slot=n, restore=snapshot)) for n in range(2)]
        while len(server.acts("chat")) < 3:
            await asyncio.sleep(0.01)
        assert time.monotonic() - began < LIMIT / 2
        server.hold["chat"].set()
        assert all(answer.cached > len(HEAD) for answer in await asyncio.gather(*asking))


async def test_an_answer_whose_headers_come_last_gives_the_turn_away_when_it_has_started() -> None:
    async with stand("emptied", slots=2) as (server, rig):
        snapshot = await led(rig)
        server.headers_last, server.hold["chat"] = True, asyncio.Event()
        began = time.monotonic()
        asking = [asyncio.create_task(rig.ask(body(f"{n}", stream=False), slot=n, restore=snapshot)) for n in range(2)]
        while len(server.acts("chat")) < 3:
            await asyncio.sleep(0.01)
        assert time.monotonic() - began < LIMIT / 2
        server.hold["chat"].set()
        assert all(answer.cached > len(HEAD) for answer in await asyncio.gather(*asking))


async def test_a_lead_whose_slot_was_emptied_before_it_was_saved_is_sent_again() -> None:
    async with stand("emptied", slots=2) as (server, rig):
        server.hold["lead"] = asyncio.Event()
        asked = body("one")
        asking = asyncio.create_task(rig.ask(asked, slot=0, lead=rig.chain(asked).head))
        while not server.acts("lead"):
            await asyncio.sleep(0.01)
        turns = rig.snapshots._turns.turn(NAME)
        async with turns:  # somebody else starts as it ends
            server.hold["lead"].set()
            await asyncio.sleep(0.1)
            for slot in server.slots:
                slot.text = ""
        answer = await asking
        assert len(server.acts("lead")) == 2
        assert answer.cached > len(HEAD)


@pytest.mark.parametrize(
    ("broken", "value", "outcome"),
    [
        ("lead", 500, "lead failed"), ("save", 400, "save refused"), ("prove", 500, "proof unproved"),
    ],
)  # fmt: skip
async def test_a_lead_that_fails_leaves_the_request_as_it_was(broken: str, value: int, outcome: str) -> None:
    async with stand() as (server, rig):
        server.refuse[broken] = value
        asked = body("one")
        answer = await rig.ask(asked, slot=0, pin=True, lead=rig.chain(asked).head)
        assert (answer.status, answer.choice.restore, answer.choice.lead) == (200, None, 0)
        assert rig.outcomes()[outcome] == 1
        assert rig.engine.snapshots == {}


async def test_the_leader_who_leaves_does_not_take_the_head_from_the_others() -> None:
    async with stand() as (server, rig):
        server.hold["lead"] = asyncio.Event()
        lead = rig.chain(body("x")).head
        one, two = (asyncio.create_task(rig.ask(body(f"{n}"), slot=n, pin=True, lead=lead)) for n in range(2))
        while not server.acts("lead"):
            await asyncio.sleep(0.01)
        one.cancel()
        server.hold["lead"].set()
        assert (await two).cached > len(HEAD)
        assert one.cancelled()


# a conversation is saved


async def test_what_a_slot_holds_is_saved_before_it_is_overwritten_and_comes_back() -> None:
    async with stand(slots=1) as (server, rig):
        first, other = body("my first question"), body("other", head="Another head. " * 80)
        await rig.ask(first, slot=0, pin=True)
        held = rig.held(first, len(rendered(first)))
        await rig.ask(other, slot=0, pin=True, save=True, replaced=held)
        assert [one.split()[0] for one in server.asked] == ["chat", "save", "chat"]
        snapshot = rig.engine.snapshots[rig.chain(first).digests[-1]]
        again = await rig.ask(first, slot=0, pin=True, restore=snapshot)
        assert (again.cached, again.evaluated) == (len(rendered(first)), 0)


async def test_a_slot_that_holds_something_else_than_is_believed_is_void() -> None:
    async with stand(slots=1) as (_, rig):
        first = body("my first question")
        await rig.ask(first, slot=0, pin=True)
        await rig.ask(body("b"), slot=0, pin=True, save=True, replaced=rig.held(first, len(rendered(first)) + 50))
        assert (rig.outcomes()["save mismatch"], rig.engine.snapshots) == (1, {})


async def test_nothing_is_saved_twice_nor_where_users_words_are_to_stay() -> None:
    first = body("my first question")
    async with stand(slots=1) as (server, rig):
        for _ in range(2):
            await rig.ask(first, slot=0, pin=True, save=True, replaced=rig.held(first, len(rendered(first))))
            server.slots[0].text = rendered(first)
        await rig.ask(first, slot=0, pin=True, save=True, replaced=rig.held(first, len(rendered(first))))
        assert len(server.acts("save")) == 2, "the first time the slot was empty"
    async with stand(slots=1, conversations=False) as (server, rig):
        await rig.ask(first, slot=0, pin=True, save=True, replaced=rig.held(first, len(rendered(first))))
        assert server.acts("save") == []


@pytest.mark.parametrize(("stream", "tokens", "saved"), [(True, 100_000, 0), (False, 100_000, 1), (True, 100, 1)])
async def test_no_large_save_while_somebody_elses_stream_runs(stream: bool, tokens: int, saved: int) -> None:
    async with stand(slots=2) as (server, rig):
        chain = rig.chain(body("theirs"))
        rig.engine.running[9] = Running(chain, side=False, stream=stream, tokens=0, warm_at=0, free_at=0)
        await rig.ask(body("mine"), slot=0, pin=True, save=True, replaced=rig.held(body("before"), tokens))
        assert len(server.acts("save")) == saved


async def test_a_save_that_takes_too_long_is_not_waited_for_and_ends_well() -> None:
    async with stand(slots=1) as (server, rig):
        server.slots[0].text, server.hold["save"] = "x" * 60, asyncio.Event()
        before, began = body("before"), time.monotonic()
        await rig.ask(body("mine"), slot=0, pin=True, save=True, replaced=rig.held(before, 60))  # 0.2 s to compute again
        assert 0.15 < time.monotonic() - began < 2
        server.hold["save"].set()
        await asyncio.sleep(0.1)
        assert rig.outcomes() == {"save mismatch": 1}, "the request has written over the slot"


# a restore fails


@pytest.mark.parametrize("how", ["gone", "refused", "cut off"])
async def test_a_file_that_is_not_what_it_was_costs_a_prefill(how: str) -> None:
    async with stand() as (server, rig):
        snapshot = await led(rig)
        if how == "gone":
            server.files.clear()
        elif how == "refused":
            server.refuse["restore"] = 400
        else:
            server.lie["restore"] = -40
        answer = await rig.ask(body("two"), slot=1, pin=True, restore=snapshot, reused=snapshot.tokens)
        assert (answer.status, answer.choice.restore, answer.choice.reused) == (200, None, 0)
        assert rig.engine.snapshots == {}, "it is not tried again"
        await rig.ask(body("three"), slot=1, pin=True, restore=snapshot)
        assert len(server.acts("restore")) == 1


async def test_a_process_that_is_another_by_now_is_given_nothing_of_the_old_one() -> None:
    """It was restarted, with another model in the same place, and nobody has looked at it since."""
    async with stand() as (server, rig):
        snapshot = await led(rig)
        server.model, server.mark = (6, -0.1), "process 2"
        answer = await rig.ask(body("two"), slot=1, pin=True, restore=snapshot)
        assert (answer.choice.restore, server.acts("restore")) == (None, [])
        await asyncio.sleep(0.1)
        again = await rig.ask(body("three"), slot=1, pin=True, restore=snapshot)
        assert (again.choice.restore, server.acts("restore"), rig.engine.snapshots) == (None, [], {})


async def test_a_server_that_does_not_tell_its_processes_apart_proves_its_model_each_time() -> None:
    async with stand(server=Slotted([Slot(), Slot()], mark="")) as (server, rig):
        snapshot = await led(rig)
        good = await rig.ask(body("two"), slot=1, pin=True, restore=snapshot)
        server.model = (6, -0.1)
        bad = await rig.ask(body("three"), slot=1, pin=True, restore=snapshot)
        assert [one.choice.restore is None for one in (good, bad)] == [False, True]


async def test_a_server_that_dies_of_a_restore_does_so_once() -> None:
    """A file that was cut off ends a real server. The others may be so too."""
    async with stand() as (server, rig):
        snapshot, other = await led(rig), await led(rig, "one")
        asked = body("other", head="Another head. " * 90)
        await rig.ask(asked, slot=0, pin=True, lead=rig.chain(asked).head)
        assert len(rig.engine.snapshots) == 2
        server.hold["restore"] = asyncio.Event()
        asking = asyncio.create_task(rig.ask(body("two"), slot=1, pin=True, restore=snapshot))
        while not server.acts("restore"):
            await asyncio.sleep(0.01)
        for site in list(server._runner._server.connections):  # type: ignore[union-attr]
            site.force_close()
        await asking
        assert snapshot.node not in rig.engine.snapshots
        assert len(rig.engine.snapshots) == 1
        await rig.saw(replace(PROBE, mark="process 2"))
        assert rig.engine.snapshots == {}
        assert other.node == snapshot.node


async def test_a_server_that_does_not_answer_keeps_its_files() -> None:
    async with stand() as (server, rig):
        snapshot = await led(rig)
        await server._runner.cleanup()
        asked = Ask((rig.place.target,), rig.chain(body("two")), {})
        async with rig.snapshots.turn(
            rig.place, Choice(rig.place.target, "test", slot=1, pin=True, restore=snapshot), asked
        ) as choice:
            assert choice.restore is None
        assert rig.engine.snapshots == {snapshot.node: snapshot}


async def test_restores_that_bring_nothing_are_given_up_until_a_restart() -> None:
    async with stand() as (_, rig):
        for n in range(INEFFECTIVE):
            assert rig.engine.saves
            snapshot = await led(rig, f"{n}")
            rig.snapshots.judged(Choice(rig.place.target, "test", restore=snapshot), Usage(prompt=2000, cached=3))
        assert (rig.engine.saves, rig.engine.snapshots) == (False, {})
        status = rig.snapshots.status(NAME)
        assert status is not None
        assert "not reused" in status["given_up"]
        await rig.saw(replace(PROBE, mark="process 2"))
        assert rig.engine.saves


async def test_a_restore_that_brings_something_begins_the_count_anew() -> None:
    async with stand() as (_, rig):
        for n in range(3 * INEFFECTIVE):
            snapshot = await led(rig, f"{n}")
            cached = 3 if (n + 1) % INEFFECTIVE else snapshot.tokens
            rig.snapshots.judged(Choice(rig.place.target, "test", restore=snapshot), Usage(prompt=2000, cached=cached))
        assert rig.engine.saves


# the model


@pytest.mark.parametrize(
    ("model", "path", "left"),
    [((5, -0.5), "/models/a.gguf", True), ((5, -0.51), "/models/a.gguf", True), ((5, -0.6), "/models/a.gguf", False),
     ((6, -0.5), "/models/a.gguf", False), ((5, -0.5), "/models/b.gguf", False)],
)  # fmt: skip
async def test_snapshots_of_another_model_are_never_restored(
    tmp_path: Path, model: tuple[int, float], path: str, left: bool
) -> None:
    async with stand(memory=Memory(tmp_path, SystemClock())) as (server, rig):
        snapshot = await led(rig)
        files = server.files
    second = Slotted([Slot(), Slot()], model=model, path=path, mark="process 2")
    second.files = files
    async with stand(memory=Memory(tmp_path, SystemClock()), server=second) as (server, rig):
        answer = await rig.ask(body("two"), slot=1, pin=True, restore=snapshot)
        assert answer.status == 200
        assert bool(server.acts("restore")) is left
        assert (rig.engine.snapshots != {}) is left
        assert (answer.choice.restore is not None) is left


async def test_a_model_that_was_never_proved_counts_as_another(tmp_path: Path) -> None:
    memory = Memory(tmp_path, SystemClock())
    async with stand(memory=memory, slots=1) as (server, rig):
        first = body("my first question")
        await rig.ask(first, slot=0, pin=True)
        await rig.ask(first, slot=0, pin=True, save=True, replaced=rig.held(first, len(rendered(first))))
        snapshot, files = rig.engine.snapshots[rig.chain(first).digests[-1]], server.files
        assert server.acts("prove") == []
    second = Slotted([Slot()], mark="process 2")
    second.files = files
    async with stand(memory=Memory(tmp_path, SystemClock()), server=second, slots=1) as (server, rig):
        answer = await rig.ask(first, slot=0, pin=True, restore=snapshot)
        assert (answer.cached, server.acts("restore")) == (0, [])


async def test_a_process_is_asked_for_its_proof_once_also_by_the_next_gateway(tmp_path: Path) -> None:
    async with stand(memory=Memory(tmp_path, SystemClock())) as (server, rig):
        snapshot = await led(rig)
        await rig.ask(body("two"), slot=1, pin=True, restore=snapshot)
        assert len(server.acts("prove")) == 1
        files = server.files
    again = Slotted([Slot(), Slot()])
    again.files = files
    async with stand(memory=Memory(tmp_path, SystemClock()), server=again) as (server, rig):
        answer = await rig.ask(body("three"), slot=0, pin=True, restore=rig.engine.snapshots[snapshot.node])
        assert (server.acts("prove"), answer.cached) == ([], len(HEAD) + 13)


# what else


async def test_the_proof_is_never_run_over_what_is_about_to_be_restored_or_saved() -> None:
    async with stand("emptied", slots=2) as (server, rig):
        await led(rig)
        assert [one.split()[0] for one in server.acts("prove", "lead", "save", "restore", "chat")] == [
            "prove", "lead", "save", "restore", "chat",
        ]  # fmt: skip


async def test_events_tell_what_was_done() -> None:
    async with stand() as (_, rig):
        snapshot = await led(rig)
        done = [(event.act, event.outcome) for event in rig.events if isinstance(event, SnapshotDone)]
        assert done == [("proof", "ok"), ("save", "ok"), ("lead", "ok")]
        last = [event for event in rig.events if isinstance(event, SnapshotsChanged)][-1]
        assert (last.count, last.size) == (1, snapshot.size)
        status = rig.snapshots.status(NAME)
        assert status is not None
        assert (status["count"], status["tokens"], status["written_today"]) == (1, snapshot.tokens, snapshot.size)


async def test_forgetting_offers_nothing_any_more() -> None:
    async with stand() as (_, rig):
        await led(rig)
        rig.memory.forget()
        rig.snapshots.forget()
        assert rig.engine.snapshots == {}


async def test_turns_come_one_after_another_and_nobody_waits_for_ever() -> None:
    turns, order = Turns(), list[str]()

    async def start(name: str, seconds: float) -> None:
        async with turns.turn("b") as turn:
            assert turn is not None
            order.append(name)
            turn.begin(0.1)
            await asyncio.sleep(seconds)

    began = time.monotonic()
    await asyncio.gather(start("slow", 1.0), start("quick", 0.0), start("last", 0.0))
    assert order == ["slow", "quick", "last"]
    assert time.monotonic() - began < 1.5
    async with turns.turn("b"), turns.turn("b", patience=0.05) as second:
        assert second is None
    async with turns.turn("b", patience=0.05) as third:
        assert third is not None
