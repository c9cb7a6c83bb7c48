"""Prefixes on a real llama.cpp server: warm again after restarts and sleep, and in nobody's way. Tokens by its own count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.clients import fetch
from tests.support.engine import StartEngine, needs_engine
from tests.support.process import GatewayProcess, free_port
from tests.warm.house import ask, config, learn, pins, restart, warm

pytestmark = needs_engine


@pytest.mark.parametrize("flags", [(), ("-np", "1"), ("-np", "2", "--cache-ram", "0")], ids=["default", "np1", "np2-noram"])
async def test_a_restart_is_followed_by_the_prefixes(start_engine: StartEngine, tmp_path: Path, flags: tuple[str, ...]) -> None:
    server = start_engine("-c", "32768", *flags)
    async with GatewayProcess(tmp_path, config(server)) as gateway:
        warm_share = (await learn(gateway)).share
        await restart(server)
        pin = await warm(gateway, "prefilled")
        assert pin["source"] == "learned"
        counted = await ask(gateway.url, "Pelle", "What is in tray 9?")
        assert counted.share >= min(0.98, warm_share), "as warm as it was before the restart"
        assert counted.cached >= 0.98 * pin["tokens"]
        rows = (await fetch(f"{gateway.admin}/requests")).json()["requests"]
        assert len(rows) == 4, "a warm-up is nobody's request"


async def test_pins_survive_the_gateway(start_engine: StartEngine, tmp_path: Path) -> None:
    server = start_engine("-c", "16384", "-np", "1")
    async with GatewayProcess(tmp_path, config(server), check=False) as gateway:
        await learn(gateway)
        before = await pins(gateway)
        await asyncio.sleep(0.3)  # the disk follows within milliseconds
        await gateway.stop(grace=0)
    await restart(server)
    async with GatewayProcess(tmp_path, config(server)) as gateway:
        after = await warm(gateway, "prefilled")
        assert after["name"] == before[0]["name"]
        counted = await ask(gateway.url, "Pelle", "What is in tray 9?")
        assert counted.cached >= 0.98 * after["tokens"]


async def test_on_demand_with_a_token_of_its_own(start_engine: StartEngine, tmp_path: Path) -> None:
    server = start_engine("-c", "16384", "-np", "2")
    (tmp_path / "house.md").write_text("You are the house.\n" + "Lights and doors obey you, and nobody else.\n" * 200)
    pin = {"name": "house", "model": "tiny", "system_file": str(tmp_path / "house.md"), "when": ["demand"]}
    settings = config(server, warmup={"token": "wake", "pins": [pin]})
    settings["admin"] = {"token": "sesame", "listen": f"127.0.0.1:{free_port()}"}
    async with GatewayProcess(tmp_path, settings) as gateway:
        url = f"{gateway.admin}/warm/house"
        assert (await fetch(url, {})).status == 401
        assert (await fetch(url, {}, ("Authorization", "Bearer wale"))).status == 401
        assert (await fetch(f"{gateway.admin}/status", None, ("Authorization", "Bearer wake"))).status == 401
        assert (await fetch(f"{gateway.admin}/warm/other", {}, ("Authorization", "Bearer wake"))).status == 404
        told = await fetch(url, {}, ("Authorization", "Bearer wake"), within=60)
        assert (told.status, told.json()["status"]) == (200, "prefilled"), told.body
        again = await fetch(url, {}, ("Authorization", "Bearer wake"), within=60)
        assert again.json()["status"] == "already_warm"
        system = (tmp_path / "house.md").read_text().strip()
        talk = [{"role": "system", "content": system}, {"role": "user", "content": "Lights off."}]
        reply = await fetch(
            gateway.url + "/v1/chat/completions", {"model": "tiny", "messages": talk, "max_tokens": 2}, within=60
        )
        timings = reply.json()["timings"]
        assert timings["prompt_n"] < 40 < timings["cache_n"]


async def test_a_user_does_not_wait_for_a_warm_up(start_engine: StartEngine, tmp_path: Path) -> None:
    """What the server computed for the warm-up after the user came is at most a step, and what it had read is not lost."""
    server = start_engine("-c", "32768", "-np", "1", "-b", "256", "-ub", "256", "--metrics")
    lines = "".join(f"Shelf {n} holds {n * 7 % 31} boxes of part {n * 13 % 97}, counted on day {n % 28}.\n" for n in range(500))
    (tmp_path / "long.md").write_text(lines)
    pin = {"name": "long", "model": "tiny", "system_file": str(tmp_path / "long.md"), "when": ["demand"]}
    async with GatewayProcess(tmp_path, config(server, warmup={"pins": [pin]})) as gateway:
        asked = asyncio.create_task(fetch(f"{gateway.admin}/warm/long", {}, within=120))
        while not (await _metrics(server.url)) > 1000:
            await asyncio.sleep(0.01)
        before = await _metrics(server.url)
        counted = await ask(gateway.url, "Pelle", "Quick, tray 1!", paragraphs=1)
        meanwhile = await _metrics(server.url) - before
        assert meanwhile <= counted.prompt - counted.cached + 512
        told = (await asked).json()
        assert told["status"] == "prefilled", "it went on when nobody else wanted the server"
        assert [row["outcome"] for row in (await fetch(f"{gateway.admin}/requests")).json()["requests"]] == ["ok"]


async def test_a_sleeping_server_is_kept_awake_within_its_hours_only(start_engine: StartEngine, tmp_path: Path) -> None:
    server = start_engine("-c", "16384", "-np", "1", "--sleep-idle-seconds", "8")
    models = {"tiny": {"targets": ["llama/tiny"], "keep": {"resident": True}}}
    async with GatewayProcess(tmp_path, config(server, models=models)) as gateway:
        await learn(gateway)
        pin = await warm(gateway, "prefilled", within=60)
        assert pin["last"]["tokens"] > 0, "it slept once, was woken, and read again"


async def _metrics(url: str) -> float:
    text = (await fetch(f"{url}/metrics", within=30)).body.decode()
    [value] = [line.split()[1] for line in text.splitlines() if line.startswith("llamacpp:prompt_tokens_total ")]
    return float(value)
