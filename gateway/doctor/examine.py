"""Makes all checks: of the setup, and of each server at the same time. Every question has a limit, and so has the whole."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from typing import TypeVar

import httpx

from gateway import config as configuration
from gateway.backends.control import describe
from gateway.config import Backend, Config
from gateway.contract.base import Settled
from gateway.control.discover import FIRST, PORTS, Discovery
from gateway.dialects.counts import as_dict
from gateway.doctor import canary, measure, running
from gateway.doctor.absent import ABSENT_CHECKS, UNANSWERED, Absent, Failed
from gateway.doctor.base import Check, Finding
from gateway.doctor.checks import SERVER_CHECKS, SETUP_CHECKS
from gateway.doctor.report import Looked, Report, ordered
from gateway.doctor.running import Running, Silent
from gateway.doctor.subject import Setup, Subject, open_backend
from gateway.doctor.target import open_target
from gateway.errors import Unreachable
from gateway.values import Probe

SERVER = 12.0
"""Seconds for all checks of a server. With the looks at the gateway and at the ports, the whole takes 20 at most."""

CHECK = 6.0  # seconds for one check

ONE_MODEL = 300.0
"""Seconds for a probe or a canary, in which the model may have to be loaded."""

GATEWAY = "gateway"
About = TypeVar("About")


async def diagnose(config: Config, ports: tuple[int, ...] = PORTS) -> Report:
    """ports: where servers are looked for when neither the configuration nor a running gateway names any."""
    began = time.monotonic()
    setup = await look(config, ports)
    findings = await examine_setup(setup)
    servers: list[Looked] = []
    for looked, found in await asyncio.gather(*(examine_server(name, setup) for name in setup.backends)):
        servers.append(looked)
        findings += found
    scraped = setup.running.scraped if isinstance(setup.running, Running) else None
    return Report(ordered(findings), tuple(servers), seconds=time.monotonic() - began, scraped=scraped)


async def look(config: Config, ports: tuple[int, ...]) -> Setup:
    """The running gateway, and the servers that are to be looked at."""
    answer = await running.ask(config)
    return Setup(config, answer, config.backends or await _found(config, answer, ports))


async def _found(config: Config, answer: Running | Silent, ports: tuple[int, ...]) -> Mapping[str, Backend]:
    """Servers that the running gateway has found, else those that answer on the ports."""
    if isinstance(answer, Running):
        rows = [as_dict(row) for row in answer.status.get("backends", ())]
        text = configuration.to_yaml({"backends": {str(row.get("name")): {"url": row.get("url")} for row in rows}})
    else:
        own = {config.admin.address[1], *(entry.address.port for entry in config.listen)}
        discovery = Discovery(ports, own=own)
        await discovery.look(FIRST)
        text = discovery.text()
    return configuration.loads(text, "servers that were found", os.environ).backends


async def examine_setup(setup: Setup) -> list[Finding]:
    """The configuration, the gateway and its clients."""
    return await _all(SETUP_CHECKS, setup, GATEWAY, time.monotonic() + CHECK)


async def examine_server(name: str, setup: Setup) -> tuple[Looked, list[Finding]]:
    """One server. It always comes to an end, whatever the server does."""
    backend, deadline = setup.backends[name], time.monotonic() + SERVER
    looked = Looked(name, backend.base_url, backend.kind, None, up=False)
    try:
        async with asyncio.timeout(SERVER), open_backend(backend, None, CHECK) as (server, seen):
            looked = Looked(name, backend.base_url, seen.kind, seen.version, seen.up)
            if not seen.up:
                return looked, await _absent(name, backend, seen)
            checks = [check for check in SERVER_CHECKS if seen.kind in check.kinds]
            looked = Looked(name, backend.base_url, seen.kind, seen.version, True, len(checks))
            return looked, await _all(checks, Subject(name, backend, server, setup), name, deadline - 0.5)
    except TimeoutError:
        problem = "it does not answer in time"
    except OSError as error:  # the file of its authority
        problem = str(error)
    return looked, await _absent(name, backend, Probe(backend.kind, up=False, problem=problem))


async def _absent(name: str, backend: Backend, seen: Probe) -> list[Finding]:
    return await _all(ABSENT_CHECKS, Absent(name, backend.base_url, seen), name, time.monotonic() + CHECK)


async def _all(checks: Iterable[Check[About]], about: About, where: str, deadline: float) -> list[Finding]:
    found: list[Finding] = []
    for check in checks:
        found += await _one(check, about, where, deadline)
    return found


async def _one(check: Check[About], about: About, where: str, deadline: float) -> list[Finding]:
    """Whatever a server does, the other checks are still made."""
    left = min(CHECK, deadline - time.monotonic())
    try:
        if left <= 0:
            raise TimeoutError
        async with asyncio.timeout(left):
            return [check.finding(seen, where) for seen in await check.look(about)]
    except Settled as settled:
        problem = settled.finding.detail
    except TimeoutError:
        problem = "no answer in time"
    except (httpx.HTTPError, Unreachable, OSError) as error:
        problem = describe(error)
    except (LookupError, TypeError, ValueError, AttributeError) as error:  # a reply of a shape that nobody has seen yet
        problem = f"the reply could not be read, {type(error).__name__}"
    return [UNANSWERED.finding(seen, where) for seen in await UNANSWERED.look(Failed(check.name, problem))]


# one model


async def probe_model(config: Config, model: str, *, direct: bool = False, ports: tuple[int, ...] = PORTS) -> Report:
    """`--probe`. Raises NoTarget, Settled with what was answered instead, or httpx.HTTPError."""
    began = time.monotonic()
    async with asyncio.timeout(ONE_MODEL), open_target(await look(config, ports), model, direct=direct) as target:
        measured = await measure.measure(target.server, through=target.through)
    findings = await _all(measure.CHECKS, measured, target.name, time.monotonic() + CHECK)
    return Report(ordered(findings), (), measured.data(), time.monotonic() - began)


async def canary_model(config: Config, model: str, *, direct: bool = False, ports: tuple[int, ...] = PORTS) -> Report:
    """`--canary`. Raises as probe_model does."""
    began = time.monotonic()
    async with asyncio.timeout(ONE_MODEL), open_target(await look(config, ports), model, direct=direct) as target:
        heard = await canary.sing(target.server)
    findings = await _all(canary.CHECKS, heard, target.name, time.monotonic() + CHECK)
    return Report(ordered(findings), (), heard.data(), time.monotonic() - began)
