"""Looking for servers, against scripted ones on free loopback ports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest

from gateway import config as configuration
from gateway.backends.openai import NEEDS_KEY
from gateway.control import discover
from gateway.control.discover import Discovery, Sight, free_name, look, watch
from gateway.values import Probe
from tests.support import personas
from tests.support.clock import ManualClock
from tests.support.personas import Canned, Persona
from tests.support.process import free_port
from tests.support.scripted import ScriptedUpstream
from tests.support.steps import never

WEB_SITE = Persona("web site", {}, Canned(404, b"<html>Not Found</html>", "text/html"))
LOCKED = Persona("locked", {}, Canned(401, b'{"error": {"message": "Invalid API Key"}}'))
BROKEN_PROXY = Persona("proxy", {}, Canned(503, b"<html>Bad</html>", "text/html"))


@asynccontextmanager
async def serving(*servers: Persona | ScriptedUpstream) -> AsyncIterator[list[ScriptedUpstream]]:
    async with AsyncExitStack() as stack:
        upstreams = [server if isinstance(server, ScriptedUpstream) else ScriptedUpstream(server) for server in servers]
        for upstream in upstreams:
            await stack.enter_async_context(upstream)
        yield upstreams


def over(*upstreams: ScriptedUpstream, **options: object) -> Discovery:
    return Discovery(tuple(upstream.port for upstream in upstreams), **options)  # type: ignore[arg-type]


def asked(upstream: ScriptedUpstream) -> int:
    return len(upstream.connections)


async def test_servers_are_found_with_kind_version_models_and_contexts() -> None:
    async with serving(personas.ollama("gem", num_ctx=4096, loaded=True), personas.llamacpp("tiny", n_ctx=8192)) as found:
        discovery = over(*found)
        new = await discovery.look()
    assert list(new) == ["ollama", "llamacpp"]
    assert new == discovery.servers
    probes = [sight.probe for sight in new.values()]
    assert [probe.version for probe in probes] == ["0.33.3", "b11549-0123abc"]
    assert [(model.name, model.context) for probe in probes for model in probe.models] == [("gem", 4096), ("tiny", 8192)]


async def test_a_second_of_a_kind_gets_a_number() -> None:
    async with serving(personas.llamacpp("a"), personas.openai("b"), personas.llamacpp("c")) as found:
        discovery = over(*found)
        await discovery.look()
        config = configuration.loads(discovery.text(), "found", {})
    assert {name: backend.url for name, backend in config.backends.items()} == dict(
        zip(("llamacpp", "openai", "llamacpp2"), (upstream.url for upstream in found), strict=True)
    )


def test_names_that_are_taken_are_passed_over() -> None:
    assert free_name("vllm", {}) == "vllm"
    assert free_name("vllm", {"vllm": 1, "vllm3": 1}) == "vllm2"
    assert free_name("vllm", {"vllm": 1, "vllm2": 1, "vllm3": 1}) == "vllm4"


async def test_nothing_found_is_a_configuration_too() -> None:
    discovery = Discovery((free_port(),))
    assert await discovery.look() == {}
    assert not discovery.strangers
    assert configuration.loads(discovery.text(), "found", {}).backends == {}


async def test_the_order_is_that_of_the_ports_whatever_was_found_first() -> None:
    port = free_port()
    async with serving(personas.llamacpp()) as (llama,):
        discovery = Discovery((port, llama.port))
        await discovery.look()
        late = ScriptedUpstream(personas.ollama())
        late.port = port
        async with late:
            assert list(await discovery.look()) == ["ollama"]
            assert list(configuration.loads(discovery.text(), "found", {}).backends) == ["ollama", "llamacpp"]


async def test_own_ports_are_never_touched() -> None:
    async with serving(personas.ollama(), personas.llamacpp()) as (own, other):
        discovery = over(own, other, own={own.port})
        await discovery.look()
        await discovery.look_again()
    assert (asked(own), list(discovery.servers)) == (0, ["llamacpp"])


async def test_all_ports_are_asked_at_once_and_none_for_longer_than_allowed() -> None:
    silent = [ScriptedUpstream(personas.openai()) for _ in range(3)]
    for upstream in silent:
        upstream.on("*", never())
        upstream.persona = WEB_SITE
    async with serving(*silent, personas.ollama()) as found:
        began = time.monotonic()
        seen = await look([upstream.port for upstream in found], seconds=0.6)
        took = time.monotonic() - began
    assert [sight.usable for sight in seen] == [False, False, False, True]
    assert took < 1.7, "one after the other they take 1.8 s"


async def test_what_does_not_speak_http_is_no_server() -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        (sight,) = await look([server.sockets[0].getsockname()[1]], seconds=2.0)
    assert not sight.usable
    assert sight.probe.problem


@pytest.mark.parametrize(
    ("persona", "usable", "locked"),
    [
        (WEB_SITE, False, False),
        (BROKEN_PROXY, False, False),
        (LOCKED, False, True),
        (personas.llamacpp_loading(), True, False),
        (personas.openai(), True, False),
    ],
    ids=lambda value: value.name if isinstance(value, Persona) else "",
)
async def test_what_can_be_used(persona: Persona, usable: bool, locked: bool) -> None:
    async with serving(persona) as (upstream,):
        (sight,) = await look([upstream.port], seconds=3.0)
    assert (sight.usable, sight.locked) == (usable, locked)


def test_locked_is_what_the_probes_say() -> None:
    assert Sight(1, Probe("vllm", up=False, problem=NEEDS_KEY)).locked


async def test_other_servers_are_asked_less_and_less_often() -> None:
    clock = ManualClock()
    async with serving(WEB_SITE) as (site,):
        discovery = over(site, clock=clock)
        counts = []
        for _ in range(200):
            await discovery.look()
            counts.append(asked(site))
            clock.advance(3.0)
    looks = [at for at, (before, after) in enumerate(pairwise([0, *counts])) if after > before]
    pauses = [later - earlier for earlier, later in pairwise(looks)]
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert max(pauses) * 3.0 <= discover.LONGEST_PAUSE


async def test_a_model_server_that_takes_a_strangers_port_is_found() -> None:
    clock = ManualClock()
    async with serving(WEB_SITE) as (site,):
        discovery = over(site, clock=clock)
        await discovery.look()
        site.persona = personas.ollama()
        assert await discovery.look() == {}, "it is not due yet"
        clock.advance(discover.EVERY)
        assert list(await discovery.look()) == ["ollama"]
    assert not discovery.strangers


async def test_a_known_server_is_left_alone_and_kept_while_it_is_down() -> None:
    async with serving(personas.ollama()) as (upstream,):
        discovery = over(upstream)
        await discovery.look()
        before = asked(upstream)
        assert await discovery.look() == {}
        assert asked(upstream) == before
    assert await discovery.look() == {}
    assert list(discovery.servers) == ["ollama"]


async def test_looking_again_forgets_who_is_gone_and_keeps_who_is_slow() -> None:
    async with serving(personas.ollama(), personas.llamacpp()) as (slow, gone):
        discovery = over(slow, gone)
        await discovery.look()
        await gone.stop()
        slow.on("GET /running", never())
        assert await discovery.look_again(seconds=0.3) == {}
        assert list(discovery.servers) == ["ollama"]
        assert discovery.strangers == {}
        await gone.start()
        assert list(await discovery.look_again()) == ["llamacpp"]


async def test_the_watch_tells_of_servers_that_appear() -> None:
    port = free_port()
    discovery, told = Discovery((port,)), asyncio.Event()
    names: list[str] = []

    async def found(new: dict[str, Sight]) -> None:
        names.extend(new)
        told.set()

    task = asyncio.create_task(watch(discovery, found, every=0.02))
    try:
        await asyncio.sleep(0.1)
        assert names == []
        late = ScriptedUpstream(personas.llamacpp())
        late.port = port
        async with late, asyncio.timeout(5.0):
            await told.wait()
            told.clear()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(told.wait(), 0.1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert names == ["llamacpp"]
