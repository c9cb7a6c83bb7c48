"""Checks of the configuration and of the gateway that runs with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from gateway.config import Address
from gateway.dialects.counts import as_dict
from gateway.doctor.base import Check, Seen
from gateway.doctor.running import Running, Silent, listeners
from gateway.doctor.subject import Setup
from gateway.units import show_duration

PATIENT = 100.0
"""Seconds of silence below which no known client gives up. Source: recorded; one gives up at 120 s without headers."""

LOADING = 120.0
"""Seconds that loading a model and reading a long prompt may well take."""

SCRAPED = 300.0
"""Seconds after which somebody who collects metrics would have come again."""


# who may ask


def addresses(setup: Setup) -> list[Address]:
    """Where clients ask: of the running gateway, which the command line may have moved, else of the configuration."""
    if isinstance(setup.running, Running):
        parts = [text.rpartition(":") for text in listeners(setup.running.status)]
        return [Address(host.strip("[]"), int(port)) for host, _, port in parts if port.isdigit()]
    return [entry.address for entry in setup.config.listen]


async def open_data(setup: Setup) -> Iterable[Seen]:
    wide = [] if setup.config.api_keys else [address for address in addresses(setup) if not address.is_loopback]
    return [Seen(f"{address} is open to other machines, and `api_keys` is empty.") for address in wide]


async def open_admin(setup: Setup) -> Iterable[Seen]:
    admin = setup.config.admin
    wide = not admin.listen.is_loopback and not admin.token
    return [Seen(f"The admin address {admin.listen} is open to other machines, without a token.")] if wide else []


async def plain_keys(setup: Setup) -> Iterable[Seen]:
    wide = [str(address) for address in addresses(setup) if not address.is_loopback] if setup.config.api_keys else []
    return [Seen(f"Keys and prompts reach {', '.join(wide)} without encryption.")] if wide else []


async def passthrough(setup: Setup) -> Iterable[Seen]:
    wide = setup.config.passthrough == "all" and any(not address.is_loopback for address in addresses(setup))
    return [Seen("`passthrough: all` lets other machines delete and unload models.")] if wide else []


async def open_servers(setup: Setup) -> Iterable[Seen]:
    urls = {name: backend.base_url for name, backend in setup.backends.items() if not backend.headers}
    return [Seen(f"{name} is asked at {url}, without a key.") for name, url in urls.items() if _in_lan(url)]


def _in_lan(url: str) -> bool:
    """Whether its host is an address of a private network that is not this machine."""
    try:
        address = ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return address.is_private and not address.is_loopback


# the gateway


async def not_running(setup: Setup) -> Iterable[Seen]:
    silent = isinstance(setup.running, Silent) and not setup.running.locked
    return [Seen(setup.running.problem)] if silent and isinstance(setup.running, Silent) else []


async def locked(setup: Setup) -> Iterable[Seen]:
    return [Seen(setup.running.problem)] if isinstance(setup.running, Silent) and setup.running.locked else []


async def not_scraped(setup: Setup) -> Iterable[Seen]:
    if not isinstance(setup.running, Running) or "scraped" not in setup.running.status:
        return []
    age = setup.running.scraped
    if age is None:
        return [Seen("Nobody has asked for /metrics since the gateway started.")]
    return [Seen(f"/metrics was last asked for {show_duration(round(age))} ago.")] if age > SCRAPED else []


async def no_servers(setup: Setup) -> Iterable[Seen]:
    return [] if setup.backends else [Seen("No server is configured, and none was found on this machine's well-known ports.")]


async def canonical(setup: Setup) -> Iterable[Seen]:
    mode = setup.config.canonical.mode
    if isinstance(setup.running, Running):
        mode = as_dict(setup.running.status.get("canonical")).get("mode") or mode
    return [] if mode == "rewrite" else [Seen(f"`canonical.mode` is {mode}.")]


async def heartbeat(setup: Setup) -> Iterable[Seen]:
    beats = setup.config.heartbeat
    waits = {"before_headers": beats.before_headers, "after_headers": beats.after_headers}
    return [
        Seen(f"`heartbeat.{name}` is {show_duration(seconds)}{'' if seconds else ' (never)'}.", {"name": name})
        for name, seconds in waits.items()
        if not 0 < seconds <= PATIENT
    ]


async def first_byte(setup: Setup) -> Iterable[Seen]:
    short = {name: b.timeouts.first_byte for name, b in setup.backends.items() if b.timeouts.first_byte < LOADING}
    return [Seen(f"{name} has {show_duration(time)} for its first byte.", {"backend": name}) for name, time in short.items()]


# what is remembered


async def memory_only(setup: Setup) -> Iterable[Seen]:
    return [] if setup.config.state_dir else [Seen('`state_dir` is "": nothing is kept on disk.')]


async def state_broken(setup: Setup) -> Iterable[Seen]:
    if isinstance(setup.running, Running):
        ledger = as_dict(as_dict(setup.running.status.get("canonical")).get("ledger"))
        return [Seen(f"The gateway says: {ledger['problem']}.")] if ledger.get("problem") else []
    directory = setup.config.state_dir
    problem = unusable(directory) if directory else None
    return [Seen(problem)] if problem else []


def unusable(directory: Path) -> str | None:
    """Why a gateway of this user could not keep files there; None if it could."""
    there = next((path for path in (directory, *directory.parents) if path.exists()), None)
    if there is None or not there.is_dir():
        return f"{directory} cannot be made: {there or directory} is no directory."
    return None if os.access(there, os.W_OK | os.X_OK) else f"{there} cannot be written to by this user."


CHECKS: tuple[Check[Setup], ...] = (
    Check(
        "open-data",
        "serious",
        "Other machines may ask without a key.",
        "Whoever reaches the address uses your models, and pushes your prompts out of their caches.",
        'Set `api_keys: ["${{WARMGATE_KEY}}"]`, or listen on 127.0.0.1.',
        open_data,
    ),
    Check(
        "open-admin",
        "serious",
        "Other machines may read and use the admin address without a token.",
        "It shows who asks for what, and forgets and reloads on demand.",
        'Set `admin: {{ token: "${{WARMGATE_ADMIN_TOKEN}}" }}`, or `admin: {{ listen: 127.0.0.1:8485 }}`.',
        open_admin,
    ),
    Check(
        "plain-keys",
        "note",
        "Keys and prompts travel through the network without encryption.",
        "Whoever listens there can read and use them.",
        "Put a proxy with TLS in front of it, or reach it through a VPN or an SSH tunnel.",
        plain_keys,
    ),
    Check(
        "open-passthrough",
        "serious",
        "Other machines may delete and unload models.",
        "`passthrough: all` lets through what takes models and caches away from everyone.",
        "Set `passthrough: safe`, or listen on 127.0.0.1.",
        passthrough,
    ),
    Check(
        "open-server",
        "advice",
        "A server in the network is asked without a key.",
        "Others may ask it beside the gateway, and push prompts out of its caches.",
        "Give that server a key and put it into its `headers`, or let only the gateway's machine reach it.",
        open_servers,
    ),
    Check(
        "not-running",
        "note",
        "No gateway runs at the configured admin address.",
        "What clients do cannot be looked at.",
        "Start it with `warmgate run`, use it for a while, and ask again.",
        not_running,
    ),
    Check(
        "locked",
        "advice",
        "The running gateway does not take the token.",
        "What clients do cannot be looked at.",
        "Name the configuration that it runs with: `warmgate doctor --config FILE`.",
        locked,
    ),
    Check(
        "not-scraped",
        "note",
        "Nobody collects the metrics.",
        "Without them there is no dashboard and no alert; the gateway itself remembers only its last requests.",
        "Let Prometheus scrape /metrics of the admin port: `grafana/prometheus.yml` shows how.",
        not_scraped,
    ),
    Check(
        "no-servers",
        "serious",
        "There is no server to ask.",
        "The gateway has nobody to send requests to.",
        "Start a model server, or write a configuration with `warmgate init`.",
        no_servers,
    ),
    Check(
        "canonical-off",
        "advice",
        "Prompts are not given a stable prefix.",
        "A clock or a folder in the system text has all that stands behind it read again.",
        "Set `canonical: {{ mode: rewrite }}`; `warmgate canon FILE` shows what it does to a prompt of yours.",
        canonical,
    ),
    Check(
        "heartbeat",
        "advice",
        "Clients are not kept waiting, or too late.",
        "Some give up after two minutes of silence, and ask again from the beginning.",
        "Leave out `heartbeat.{name}`: the defaults suit all clients that are known.",
        heartbeat,
    ),
    Check(
        "first-byte",
        "advice",
        "A server has little time for its first byte.",
        "Loading a model and reading a long prompt take minutes; the request is given up and its work with it.",
        "Leave out `backends.{backend}.timeouts.first_byte`, or set it to 15m.",
        first_byte,
    ),
    Check(
        "state-memory",
        "advice",
        "Nothing that was learned is kept on disk.",
        "After a restart of the gateway, running conversations are read anew once.",
        "Leave out `state_dir`, or name a directory that only you can read.",
        memory_only,
    ),
    Check(
        "state-broken",
        "serious",
        "What was learned cannot be kept on disk.",
        "After a restart of the gateway, running conversations are read anew once.",
        "Make the directory of `state_dir` writable for the user that runs the gateway, or name another.",
        state_broken,
    ),
)
