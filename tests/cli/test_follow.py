"""`tail` and `top` as processes, over the ends and starts of a real gateway."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.waiting import CHAT, body, until
from tests.support.clients import fetch
from tests.support.process import REPOSITORY, GatewayProcess
from tests.support.replies import Reply
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import ordinary

AT_ONCE = 2.0  # seconds, for a process of Python on a busy machine


class Verb:
    """A verb on a terminal of its own, as a user has one."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int):
        self.process = process
        self._terminal = terminal
        self._text = ""

    async def shows(self, words: str) -> bool:
        shown = await until(lambda: self._has(words), within=20)
        assert shown, f"{words!r} is not in\n{self._text}"
        return True

    async def _has(self, words: str) -> bool:
        try:
            self._text += os.read(self._terminal, 1 << 20).decode("utf-8", "replace")
        except BlockingIOError:
            pass
        except OSError as error:  # EIO: the verb has ended
            raise AssertionError(f"it ended, and showed:\n{self._text}") from error
        return words in self._text

    def forget(self) -> None:
        self._text = ""

    async def interrupt(self) -> tuple[int, float]:
        """Its exit code, and the seconds that it took after Ctrl-C."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        code = await asyncio.wait_for(self.process.wait(), 20)
        return code, time.monotonic() - began


@asynccontextmanager
async def running(verb: str, gateway: GatewayProcess) -> AsyncIterator[Verb]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", verb, "--config", str(gateway.config_file)),
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY, env={**os.environ, "COLUMNS": "150", "LINES": "50"},
        )  # fmt: skip
        os.close(theirs)
        try:
            yield Verb(process, ours)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
    finally:
        os.close(ours)


async def chat(gateway: GatewayProcess, id: str) -> None:
    asked: dict[str, Any] = body(stream=False)
    assert (await fetch(gateway.url + CHAT, asked, ("X-Request-Id", id))).status == 200


@pytest.mark.parametrize("verb", ["tail", "top"])
async def test_a_gateway_that_is_started_again_is_followed_on(tmp_path: Path, verb: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on(CHAT, ordinary(Reply()))
        gateway = GatewayProcess(tmp_path, {"backends": {"b": {"url": upstream.url, "kind": "openai"}}})
        async with gateway, running(verb, gateway) as follower:
            await chat(gateway, "first")
            assert await follower.shows("first")
            await gateway.stop()
            assert await follower.shows("Trying again")
            follower.forget()
            async with gateway:
                if verb == "tail":
                    assert await follower.shows("connected again")
                await chat(gateway, "second")
                assert await follower.shows("second")
            assert await follower.shows("Trying again")
            code, seconds = await follower.interrupt()
            assert code == 0
            assert seconds < AT_ONCE


@pytest.mark.parametrize("verb", ["tail", "top"])
async def test_without_a_gateway_it_ends_at_once(tmp_path: Path, verb: str) -> None:
    gateway = GatewayProcess(tmp_path, {"backends": {}})
    gateway.write_config()
    async with running(verb, gateway) as follower:
        assert await follower.shows("No gateway answers")
        assert await asyncio.wait_for(follower.process.wait(), 20) == 1
