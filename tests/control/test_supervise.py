from __future__ import annotations

import asyncio

import pytest

from gateway.control import supervise
from gateway.control.supervise import Supervisor


async def test_work_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(supervise, "PAUSE", (0.0, 0.01))
    runs = 0
    done = asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise RuntimeError("no")
        done.set()

    supervisor = Supervisor()
    supervisor.start("w", work)
    await asyncio.wait_for(done.wait(), 2)
    assert runs == 3
    assert "w failed" in caplog.text
    await supervisor.aclose()


async def test_nothing_outlives_its_owner() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    supervisor = Supervisor()
    supervisor.start("w", work)
    supervisor.start("w", work)  # running already: nothing happens
    await asyncio.sleep(0)
    await supervisor.aclose()
    assert ended.is_set()
