"""What the running gateway says of itself: its status, and the requests of the last time. Texts of prompts are in neither."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.backends.control import Control
from gateway.config import Config
from gateway.dialects.counts import as_dict, as_list
from gateway.errors import Unreachable

PATIENCE = 2.0  # seconds for each question
LIMIT = 500
"""Requests that are looked at."""

DOCTOR = "warmgate-doctor"
"""What the doctor calls itself when it asks through the gateway."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A finished request. What the gateway does not tell is None; times in seconds, since the request had been read."""

    id: str
    agent: str
    backend: str | None
    model: str | None
    path: str
    outcome: str
    reason: str | None
    cached_source: str | None
    prompt: int | None
    ttft: float | None
    ttfb: float | None
    duration: float


@dataclass(frozen=True, slots=True)
class Running:
    """status: what /status answers; asked: requests, the newest first; explained: they tell why something was not reused."""

    status: Mapping[str, Any]
    asked: tuple[Asked, ...]
    explained: bool

    @property
    def scraped(self) -> float | None:
        """Seconds since /metrics was last asked for; None: never, since the gateway started."""
        when = self.status.get("scraped")
        return max(0.0, time.time() - when) if isinstance(when, int | float) else None


@dataclass(frozen=True, slots=True)
class Silent:
    """No gateway that could be asked. problem: a sentence; locked: there is one, but it does not take the token."""

    problem: str
    locked: bool = False


def reachable(host: str) -> str:
    """A host to ask, for one that is listened on."""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


async def ask(config: Config) -> Running | Silent:
    """The gateway that listens at the admin address of this configuration."""
    host, port = config.admin.address
    headers = {"authorization": f"Bearer {config.admin.token}"} if config.admin.token else {}
    control = Control(f"http://{reachable(host)}:{port}", headers, verify=False, timeout=PATIENCE)  # http
    try:
        status = await control.get("/status")
        if status.status in (401, 403):
            return Silent(f"The gateway at {control.base_url} does not take the token of this configuration.", locked=True)
        if not status.ok or not isinstance(status.field("backends"), list):
            return Silent(f"What answers at {control.base_url} is no gateway: {status.status}.")
        listed = await control.get(f"/requests?limit={LIMIT}")
    except Unreachable as error:
        return Silent(f"No gateway answers: {error}")
    finally:
        await control.close()
    explained = listed.ok
    rows = listed.rows("requests") if explained else status.rows("recent")
    asked = (asked for asked in map(read, rows) if asked.agent != DOCTOR)
    return Running(as_dict(status.body), tuple(asked), explained)


def read(row: Mapping[str, Any]) -> Asked:
    """A row of /requests, or of the shorter list in /status."""
    usage = as_dict(row.get("usage"))
    return Asked(
        id=_text(row.get("id")) or "",
        agent=_product(_text(as_dict(row.get("client")).get("agent")) or ""),
        backend=_text(row.get("backend")),
        model=_text(row.get("model")),
        path=_text(row.get("path")) or "",
        outcome=_text(row.get("outcome")) or "",
        reason=_text(row.get("reason")),
        cached_source=_text(row.get("cached_source")) or _text(usage.get("source")),
        prompt=_whole(row.get("prompt", usage.get("prompt"))),
        ttft=_number(row.get("ttft")),
        ttfb=_number(row.get("ttfb")),
        duration=_number(row.get("duration")) or 0.0,
    )


def listeners(status: Mapping[str, Any]) -> list[str]:
    """The data addresses, as `host:port`."""
    return [str(as_dict(row).get("address")) for row in as_list(status.get("listeners"))]


def _product(agent: str) -> str:
    """`hermes-agent/0.19 (linux)` -> `hermes-agent`: versions of one client are one client."""
    return agent.split("/")[0].split(" ")[0][:60] or "unnamed client"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
