"""Prefixes on a real llama.cpp server that saves its slots, and on models that cannot go back: what a restart leaves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gateway.engine.gguf import Model
from tests.support.clients import fetch
from tests.support.engine import StartEngine, needs_engine
from tests.support.process import GatewayProcess
from tests.warm.house import ask, config, learn, read_ahead, restart, warm

pytestmark = needs_engine


def files(tmp_path: Path) -> tuple[str, str]:
    directory = tmp_path / "slots"
    directory.mkdir()
    return "--slot-save-path", f"{directory}/"


@pytest.mark.parametrize("flags", [(), ("-np", "2", "--cache-ram", "0")], ids=["default", "np2-noram"])
async def test_a_restart_restores_what_was_saved(start_engine: StartEngine, tmp_path: Path, flags: tuple[str, ...]) -> None:
    server = start_engine("-c", "32768", *flags, *files(tmp_path))
    async with GatewayProcess(tmp_path, config(server)) as gateway:
        before = await learn(gateway)
        await saved(gateway)
        await restart(server)
        pin = await warm(gateway, "restored", "already_warm", since=time.time())  # the latter: of one that was interrupted
        assert pin["last"]["tokens"] < 0.1 * before.prompt, "what was saved is not computed again"
        counted = await ask(gateway.url, "Pelle", "What is in tray 9?")
        assert counted.cached >= 0.98 * pin["tokens"]


async def saved(gateway: GatewayProcess, within: float = 30.0) -> None:
    """Wait until a head is in a file: a request has led it, or it is saved when nobody asks for anything."""
    async with asyncio.timeout(within):
        while True:
            [backend] = (await fetch(f"{gateway.admin}/status")).json()["backends"]
            if (backend.get("snapshots") or {}).get("count"):
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("kind", ["hybrid", "hybrid-swa"])
@pytest.mark.parametrize("saves", [False, True], ids=["no-files", "files"])
async def test_models_that_cannot_go_back_are_never_worse_off(
    start_engine: StartEngine, tmp_path: Path, kind: str, saves: bool
) -> None:
    """Their limit is the same with a warm-up as in the third request of a session that was never interrupted."""
    server = start_engine("-c", "16384", "-np", "1", *(files(tmp_path) if saves else ()), model=Model(kind))
    async with GatewayProcess(tmp_path, config(server)) as gateway:
        before = await learn(gateway, paragraphs=3)
        await restart(server)
        assert (await read_ahead(gateway))["outcome"] in ("prefilled", "restored")
        counted = await ask(gateway.url, "Pelle", "What is in tray 9?", paragraphs=3)
        assert counted.cached >= 0.95 * before.cached
