from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dispatch.admission import Admission
from gateway.errors import Busy


@asynccontextmanager
async def place(admission: Admission, backend: str, capacity: int | None, queue: int) -> AsyncIterator[None]:
    leave = await admission.enter(backend, "m", capacity, queue)
    try:
        yield
    finally:
        leave()


async def hold(
    admission: Admission, release: asyncio.Event, entered: list[int], number: int, capacity: int = 1, queue: int = 8
) -> None:
    async with place(admission, "b", capacity, queue):
        entered.append(number)
        await release.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_first_come_first_served() -> None:
    admission, entered = Admission(), list[int]()
    events = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(hold(admission, event, entered, n)) for n, event in enumerate(events)]
    await settle()
    assert (entered, admission.waiting("b")) == ([0], 2)
    for event in events:
        event.set()
        await settle()
    assert entered == [0, 1, 2]
    await asyncio.gather(*tasks)
    assert not admission._gates, "a gate that nobody uses is dropped"


async def test_a_full_queue_is_busy_at_once() -> None:
    admission, entered, release = Admission(), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(admission, release, entered, n, queue=1)) for n in range(2)]
    await settle()
    with pytest.raises(Busy) as caught:
        async with place(admission, "b", 1, 1):
            raise AssertionError("entered")
    assert (caught.value.status, caught.value.retry_after) == (429, 5)
    async with place(admission, "other", 1, 1):
        pass  # another backend has its own bound
    release.set()
    await asyncio.gather(*tasks)


async def test_no_capacity_means_no_limit() -> None:
    admission = Admission()
    async with place(admission, "b", None, 0), place(admission, "b", None, 0):
        assert admission.waiting("b") == 0


async def test_one_who_leaves_the_queue_gives_up_no_place() -> None:
    admission, entered, release = Admission(), list[int](), asyncio.Event()
    first, second, third = (asyncio.create_task(hold(admission, release, entered, n)) for n in range(3))
    await settle()
    second.cancel()
    await settle()
    assert admission.waiting("b") == 1
    release.set()
    await asyncio.gather(first, third)
    assert entered == [0, 2]


async def test_one_who_leaves_as_a_place_becomes_free() -> None:
    """The place is given on before the one who has left can say so."""
    admission, entered, release = Admission(), list[int](), asyncio.Event()
    first, second, third = (asyncio.create_task(hold(admission, release, entered, n)) for n in range(3))
    await settle()
    release.set()
    second.cancel()
    results = await asyncio.gather(first, second, third, return_exceptions=True)
    assert [type(result) for result in results] == [type(None), asyncio.CancelledError, type(None)]
    assert entered == [0, 2]
    assert not admission._gates


async def test_more_places_wake_those_who_wait() -> None:
    admission, entered, release = Admission(), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(admission, release, entered, n)) for n in range(4)]
    await settle()
    admission.resize("other", None)
    await settle()
    assert entered == [0]
    admission.resize("b", 3)
    await settle()
    assert entered == [0, 1, 2]
    admission.resize("b", None)
    await settle()
    assert entered == [0, 1, 2, 3]
    release.set()
    await asyncio.gather(*tasks)


@given(st.lists(st.sampled_from(["start", "finish", "cancel"]), max_size=40), st.integers(1, 3))
def test_never_more_than_the_capacity_and_no_place_is_lost(steps: list[str], capacity: int) -> None:
    async def play() -> None:
        admission, entered = Admission(), list[int]()
        running: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        for number, step in enumerate(steps):
            if step == "start":
                event = asyncio.Event()
                running.append((asyncio.create_task(hold(admission, event, entered, number, capacity, 99)), event))
            elif running:
                task, event = running.pop(number % len(running))
                event.set() if step == "finish" else task.cancel()
            await settle()
            gate = admission._gates.get(("b", "m"))
            assert gate is None or (gate.active <= capacity and (not gate.waiting or gate.active == capacity))
        for _, event in running:
            event.set()
        await asyncio.gather(*(task for task, _ in running), return_exceptions=True)
        await settle()
        assert not admission._gates

    asyncio.run(play())
