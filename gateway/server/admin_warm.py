"""`POST /warm/{pin}`: have a prefix read now. `GET /warm`: the pins there are."""

from __future__ import annotations

import asyncio
import hmac

from aiohttp import web

from gateway.config import Config
from gateway.control.warmup import Warmer
from gateway.errors import NotFound
from gateway.server.admin_replies import GATEWAY, json_reply, problem

WARMER: web.AppKey[Warmer] = web.AppKey("warmer")

PATIENCE = 600.0
"""Seconds that a warm-up may take before the asker is told to come again."""


def add_routes(app: web.Application, warmer: Warmer) -> None:
    app[WARMER] = warmer
    app.router.add_get("/warm", listed)
    app.router.add_post("/warm/{pin}", warm)


def allowed(request: web.Request, config: Config) -> bool:
    """Whether the warm-up's own token opens this path."""
    token = config.warmup.token
    if not token or request.method != "POST" or not request.path.startswith("/warm/"):
        return False
    kind, _, sent = request.headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), token.encode())


async def listed(request: web.Request) -> web.Response:
    return json_reply({"pins": request.app[WARMER].rows()})


async def warm(request: web.Request) -> web.Response:
    """Answers when it has been read, or could not be."""
    name, warmer = request.match_info["pin"], request.app[WARMER]
    pin = request.app[GATEWAY].memory.pins.find(name)
    if pin is None:
        known = ", ".join(row["name"] for row in warmer.rows()[:20]) or "none yet"
        raise NotFound(f"There is no pin {name[:80]!r}. Pins: {known}.", code="unknown_pin")
    try:
        async with asyncio.timeout(PATIENCE):
            done = await warmer.demand(pin)
    except TimeoutError:
        return problem(504, "still_busy", "Its backend was busy all the time; it is read when that is idle.")
    if done.outcome in ("failed", "skipped"):
        return problem(502, f"warm_up_{done.outcome}", f"{name} was not read: {done.problem}.")
    return json_reply({"status": done.outcome, "pin": name, "tokens": done.tokens})
