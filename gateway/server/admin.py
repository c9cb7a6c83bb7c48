"""The admin port: its door, health, metrics, reload, forget, and dry runs of the canonical form.

What `/status`, `/requests` and `/events` say is in `admin_status`, `admin_requests` and `admin_events`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import get_args

from aiohttp import web

from gateway.canonical.settings import Mode
from gateway.control.residency import Keeper
from gateway.control.warmup import Warmer
from gateway.dialects.prompt_ranges import Doubt, locate
from gateway.errors import BadRequest, Refusal
from gateway.metrics import CONTENT_TYPE
from gateway.server import admin_events, admin_requests, admin_residency, admin_warm, dry_run, gauges, guard, page
from gateway.server.admin_replies import GATEWAY, json_reply, problem
from gateway.server.admin_status import describe
from gateway.server.gateway import MAX_AGENT, Gateway
from gateway.server.reading import parse
from gateway.values import Client

log = logging.getLogger("warmgate.admin")

OPEN = frozenset({"/healthz", "/readyz", "/metrics"}) | page.PATHS
"""Paths that need no token: those for machines, and the page's own files, which say nothing of this gateway."""

MAX_BODY = 64 << 20
"""Bytes of a request for a dry run: a whole prompt, images included."""

Reload = Callable[[], Awaitable[str | None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RELOAD: web.AppKey[Reload] = web.AppKey("reload")


def admin_app(gateway: Gateway, reload: Reload, keeper: Keeper, warmer: Warmer) -> web.Application:
    app = web.Application(middlewares=[door], client_max_size=MAX_BODY)
    app[GATEWAY], app[RELOAD] = gateway, reload
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/status", status)
    app.router.add_post("/canonicalize", canonicalize)
    app.router.add_post("/-/reload", reload_config)
    app.router.add_post("/-/forget", forget)
    admin_requests.add_routes(app)
    admin_events.add_routes(app)
    admin_residency.add_routes(app, keeper)
    admin_warm.add_routes(app, warmer)
    page.add_page(app, lambda: gateway.now.config.admin.token)
    return app


@web.middleware
async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Host, token and origin checks, and errors as JSON."""
    config = request.app[GATEWAY].now.config
    if not guard.host_allowed(request.headers.get("Host"), config.admin.address[0], config.hosts):
        return problem(403, "host_not_allowed", "This Host name is not served here; add it under `hosts:`.")
    let_in = request.path in OPEN or guard.token_valid(request.headers, config.admin.token)
    if not (let_in or admin_warm.allowed(request, config)):
        return problem(401, "invalid_token", "Send the admin token as `Authorization: Bearer ...`.")
    if not guard.same_origin(request.method, request.headers):
        return problem(403, "origin_not_allowed", "Pages of other origins may not do this.")
    try:
        return await handler(request)
    except Refusal as error:
        return problem(error.status, error.code, str(error))
    except web.HTTPException as error:
        return problem(error.status, (error.reason or "error").lower().replace(" ", "_"), f"{error.status}: {error.reason}")
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return problem(500, "internal_error", "The gateway failed on this request; its log says why.")


async def healthz(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """Ready: not shutting down, and a backend is up (or none is configured to wait for)."""
    gateway = request.app[GATEWAY]
    backends = gateway.fleet.view.backends
    if gateway.draining:
        return problem(503, "draining", "The gateway is shutting down.")
    if not any(backend.up for backend in backends):
        words = "No backend is up." if backends else "No backend is configured."
        return problem(503, "no_backend", words)
    return web.json_response({"status": "ready"})


async def metrics(request: web.Request) -> web.Response:
    """Rendered in a thread: thousands of series take longer than a streamed event may wait."""
    gateway = request.app[GATEWAY]
    gateway.scraped = gateway.clock.wall()
    gauges.look(gateway)
    body = await asyncio.to_thread(gateway.metrics.render)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


async def status(request: web.Request) -> web.Response:
    return json_reply(describe(request.app[GATEWAY], request.app[admin_warm.WARMER].rows()))


async def reload_config(request: web.Request) -> web.Response:
    if (fault := await request.app[RELOAD]()) is not None:
        return problem(409, "invalid_config", fault)
    return json_reply({"status": "reloaded"})


async def forget(request: web.Request) -> web.Response:
    """Drop what was learned of prompts. Answers once it has left the disk as well."""
    gateway = request.app[GATEWAY]
    rows = gateway.forget()
    if not await asyncio.to_thread(gateway.memory.flush):
        return problem(503, "disk_is_slow", "It was dropped from memory; the disk has not followed yet. Ask again.")
    if fault := gateway.memory.problem:
        return problem(500, "disk_failed", f"It was dropped from memory, but {fault}.")
    return json_reply({"status": "forgotten", "rows": rows})


async def canonicalize(request: web.Request) -> web.Response:
    """What would become of a request: {"path", "body", "mode"?} -> edits, notes and the canonical body. Reads the ledger only.

    In a thread, because a text that was never seen takes milliseconds.
    """
    gateway = request.app[GATEWAY]
    raw = await request.read()
    client = Client(request.remote or "", request.headers.get("User-Agent", "")[:MAX_AGENT])
    run = dry_run.DryRun(gateway.now.config.canonical, client, gateway.memory.ledger, gateway.memory.secret)
    now = gateway.clock.wall()

    def answer() -> bytes:
        asked, mode = _asked(raw)
        return dry_run.document(asked, run.play(asked, now, mode))

    return web.Response(body=await asyncio.to_thread(answer), content_type="application/json", charset="utf-8")


def _asked(raw: bytes) -> tuple[dry_run.Request, Mode | None]:
    """The request for a dry run, with its body in the client's own spelling. Raises BadRequest."""
    given, exact = parse(raw)
    path, mode, body = given.get("path"), given.get("mode"), given.get("body")
    if not exact:
        raise BadRequest("A body with a BOM, NaN or lone surrogates is passed on as it is.", code="invalid_json")
    if not isinstance(body, dict) or not isinstance(path, str | None):
        raise BadRequest('Send {"path": "/v1/chat/completions", "body": {...}}, and "mode" if you like.', code="invalid_body")
    if mode not in (None, *get_args(Mode)):
        raise BadRequest(f"`mode` is one of {', '.join(get_args(Mode))}.", code="invalid_mode")
    try:
        start, end = locate(raw, [("body",)])["body",]
    except Doubt as doubt:
        raise BadRequest(f"`body` cannot be found: {doubt}.", code="invalid_body") from None
    return dry_run.request(raw[start:end], body, path), mode
