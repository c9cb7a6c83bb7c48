from __future__ import annotations

import asyncio

import pytest

from gateway.dispatch.deadline import Deadline, Expired


async def test_it_expires_and_says_on_whom() -> None:
    with pytest.raises(Expired) as caught:
        async with Deadline() as deadline:
            deadline.move(0.02, "client")
            await asyncio.sleep(5)
    assert (caught.value.waiting, caught.value.seconds) == ("client", 0.02)


async def test_moving_it_later_keeps_it_from_expiring() -> None:
    async with Deadline() as deadline:
        for _ in range(5):
            deadline.move(0.06, "upstream")
            await asyncio.sleep(0.03)


async def test_moving_it_earlier_counts() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(Expired):
        async with Deadline() as deadline:
            deadline.move(50, "upstream")
            deadline.move(0.02, "client")
            await asyncio.sleep(5)
    assert asyncio.get_running_loop().time() - began < 1


async def test_a_stopped_one_never_expires() -> None:
    async with Deadline() as deadline:
        deadline.move(0.01, "queue")
        deadline.stop()
        await asyncio.sleep(0.05)


async def test_a_cancellation_from_outside_stays_one() -> None:
    async def work() -> None:
        async with Deadline() as deadline:
            deadline.move(50, "upstream")
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_other_errors_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        async with Deadline() as deadline:
            deadline.move(1, "client")
            1 / 0
