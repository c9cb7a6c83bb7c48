"""A new configuration is taken over as a whole or not at all, and no running request notices."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle.waiting import CHAT, ask, body, until
from tests.support import personas
from tests.support.clients import RawClient, fetch
from tests.support.process import REPOSITORY, GatewayProcess, free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import chunk, json_reply, status, wait

Ask = Callable[[GatewayProcess], Awaitable[str | None]]


async def by_command(gateway: GatewayProcess) -> str | None:
    """`warmgate reload`; what it says if it failed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "reload", "--config", str(gateway.config_file),
        cwd=REPOSITORY, env={**os.environ, "PYTHONWARNINGS": "error"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == (1 if err else 0), (out, err)
    return err.decode() or None


async def by_request(gateway: GatewayProcess) -> str | None:
    reply = await fetch(f"{gateway.admin}/-/reload", {})
    return None if reply.status == 200 else str(reply.json()["error"]["message"])


async def by_signal(gateway: GatewayProcess) -> str | None:
    before = gateway.log.count("reloaded")
    gateway.signal(signal.SIGHUP)

    async def said() -> bool:
        return gateway.log.count("reloaded") > before

    assert await until(said)
    return gateway.log if await gauge(gateway) == 0 else None


async def gauge(gateway: GatewayProcess) -> float:
    return (await gateway.metrics()).value("warmgate_config_last_reload_successful")


def one(url: str, **more: Any) -> dict[str, Any]:
    return {"b": {"url": url, "kind": "openai", **more}}


@pytest.mark.parametrize("ask_for_it", [by_command, by_request, by_signal])
async def test_a_broken_file_changes_nothing(tmp_path: Path, ask_for_it: Ask) -> None:
    async with ScriptedUpstream() as upstream, GatewayProcess(tmp_path, {"backends": one(upstream.url)}) as gateway:
        upstream.on(CHAT, *json_reply({"ok": True}))
        good = gateway.config_file.read_text()
        gateway.config_file.write_text(good + "lisen: 127.0.0.1:1\nlimits: { body: 5 parsecs }\n")
        line = good.count("\n") + 1
        said = await ask_for_it(gateway)
        assert said
        for text in (said, gateway.log) if ask_for_it is not by_command else (said,):  # the command looks at the file first
            assert f"config.yaml:{line}:1: lisen: " in text
            assert f"config.yaml:{line + 1}:" in text
        assert await gauge(gateway) == (1 if ask_for_it is by_command else 0)
        assert (await fetch(gateway.url + CHAT, body())).json() == {"ok": True}
        gateway.config_file.write_text(good)
        assert await ask_for_it(gateway) is None
        assert await gauge(gateway) == 1


async def test_running_requests_finish_on_what_they_began_with(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with (
        ScriptedUpstream() as old,
        ScriptedUpstream() as new,
        GatewayProcess(tmp_path, {"backends": one(old.url)}) as gateway,
        RawClient(gateway.url) as client,
        RawClient(gateway.url) as waiting,
    ):
        head = status(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
        old.on(CHAT, head, chunk(b'data: {"from": "old"}\n\n'), wait(go), chunk(b"data: [DONE]\n\n"), chunk(b""))
        new.on(CHAT, *json_reply({"from": "new"}))
        await client.send(ask())
        response = await client.response()
        assert await response.read_until(b"old")
        await waiting.send(ask(stream=False))  # in the queue of the backend as it was
        await asyncio.sleep(0.2)
        gateway.write_config(backends={"b": {"url": new.url, "kind": "openai"}, "c": {"url": new.url, "kind": "openai"}})
        assert await by_request(gateway) is None
        assert (await fetch(gateway.url + CHAT, body())).json() == {"from": "new"}
        gateway.write_config(backends={"c": {"url": new.url, "kind": "openai"}})
        assert await by_request(gateway) is None
        assert not response.complete
        go.set()
        await response.read()
        assert response.complete
        second = await waiting.response()
        assert b"old" in await second.read()
        metrics = await gateway.metrics()
        assert metrics.value("warmgate_inflight") == 0
        assert set(metrics.matching("warmgate_backend_up")) == {frozenset({("backend", "c")})}
        assert metrics.value("warmgate_requests_total", outcome="ok") == 3


async def test_listeners_come_go_and_change_their_identity(tmp_path: Path) -> None:
    first, second = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    async with (
        ScriptedUpstream(personas.llamacpp("tiny")) as llama,
        ScriptedUpstream(personas.ollama("tiny:latest")) as ollama,
        GatewayProcess(
            tmp_path,
            {
                "listen": first,
                "backends": {"l": {"url": llama.url, "kind": "llamacpp"}, "o": {"url": ollama.url, "kind": "ollama"}},
            },
        ) as gateway,
        RawClient(gateway.url) as kept,
    ):

        async def statuses(address: str) -> tuple[int, int]:
            return (await fetch(f"http://{address}/props")).status, (await fetch(f"http://{address}/api/version")).status

        assert await statuses(first) == (200, 404)
        gateway.write_config(listen=[{"address": first, "identity": "ollama"}, {"address": second, "identity": "llamacpp"}])
        assert await by_request(gateway) is None
        assert await statuses(first) == (404, 200)
        assert await statuses(second) == (200, 404)
        gateway.write_config(listen=second)
        assert await by_request(gateway) is None
        assert await statuses(second) == (200, 404)
        with pytest.raises(ConnectionError):
            await fetch(f"http://{first}/props")
        assert not await asyncio.wait_for(kept.fill(), 5), "an idle connection to a listener that has gone is closed"


async def test_an_address_that_cannot_be_taken_changes_nothing(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, GatewayProcess(tmp_path, {"backends": one(upstream.url)}) as gateway:
        mine, free = gateway.config["listen"], f"127.0.0.1:{free_port()}"
        gateway.write_config(listen=[mine, free, f"127.0.0.1:{upstream.port}"], backends={})
        said = await by_request(gateway)
        assert said is not None
        assert f"127.0.0.1:{upstream.port} cannot be listened on: Address already in use" in said
        assert await gauge(gateway) == 0
        with pytest.raises(ConnectionError):
            await fetch(f"http://{free}/v1/models")
        assert (await fetch(f"{gateway.url}/v1/models")).json()["data"][0]["id"] == "tiny"
        gateway.write_config(listen=[mine, free], backends=one(upstream.url))
        assert await by_request(gateway) is None
        assert (await fetch(f"http://{free}/v1/models")).status == 200


async def test_the_admin_address_needs_a_restart_and_its_token_does_not(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, GatewayProcess(tmp_path, {"backends": one(upstream.url)}) as gateway:
        admin = gateway.config["admin"]
        gateway.write_config(admin={"listen": f"127.0.0.1:{free_port()}"})
        assert "admin.listen" in str(await by_request(gateway))
        gateway.write_config(admin={**admin, "token": "first"})
        assert await by_command(gateway) is None
        assert (await fetch(f"{gateway.admin}/status")).status == 401
        assert (await fetch(f"{gateway.admin}/status", None, ("Authorization", "Bearer first"))).status == 200
        assert await by_command(gateway) is None
        gateway.write_config(admin={**admin, "token": "second"})
        assert "admin token" in str(await by_command(gateway))
        assert await by_signal(gateway) is None
        assert (await fetch(f"{gateway.admin}/status", None, ("Authorization", "Bearer second"))).status == 200


async def test_another_parallel_frees_those_who_wait(tmp_path: Path) -> None:
    go = asyncio.Event()
    async with ScriptedUpstream() as upstream, GatewayProcess(tmp_path, {"backends": one(upstream.url)}) as gateway:
        upstream.on(CHAT, wait(go), *json_reply({"ok": True}))
        answers = [asyncio.create_task(fetch(gateway.url + CHAT, body())) for _ in range(3)]
        await upstream.wait_for(CHAT)
        gateway.write_config(backends=one(upstream.url, parallel=2))
        assert await by_request(gateway) is None
        await upstream.wait_for(CHAT, 2)
        go.set()
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200] * 3


async def test_every_signal_is_obeyed(tmp_path: Path) -> None:
    """The file as it is after the last signal is what counts, however quickly they come."""
    async with ScriptedUpstream() as upstream, GatewayProcess(tmp_path, {"backends": one(upstream.url)}) as gateway:
        for number in range(10):
            gateway.write_config(models={f"m{number}": {"targets": ["b/tiny"]}})
            gateway.signal(signal.SIGHUP)
            await asyncio.sleep(0.002)

        async def last() -> bool:
            return list((await fetch(f"{gateway.admin}/status")).json()["models"]) == ["m9"]

        assert await until(last), gateway.log
