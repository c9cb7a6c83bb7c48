"""The admin port: health, metrics, status, reload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from gateway import __version__
from gateway.metrics import CONTENT_TYPE
from gateway.server import guard
from gateway.server.gateway import Gateway

OPEN = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths for machines, which need no token."""

Reload = Callable[[], Awaitable[str | None]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

GATEWAY = web.AppKey("gateway", Gateway)
RELOAD: web.AppKey[Reload] = web.AppKey("reload")


def admin_app(gateway: Gateway, reload: Reload) -> web.Application:
    app = web.Application(middlewares=[door], client_max_size=1 << 20)
    app[GATEWAY], app[RELOAD] = gateway, reload
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/status", status)
    app.router.add_post("/-/reload", reload_config)
    return app


@web.middleware
async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Host, token and origin checks, and errors as JSON."""
    config = request.app[GATEWAY].now.config
    if not guard.host_allowed(request.headers.get("Host"), config.admin.address[0], config.hosts):
        return problem(403, "host_not_allowed", "This Host name is not served here; add it under `hosts:`.")
    if request.path not in OPEN and not guard.token_valid(request.headers, config.admin.token):
        return problem(401, "invalid_token", "Send the admin token as `Authorization: Bearer ...`.")
    if not guard.same_origin(request.method, request.headers):
        return problem(403, "origin_not_allowed", "Pages of other origins may not do this.")
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem(error.status, (error.reason or "error").lower().replace(" ", "_"), f"{error.status}: {error.reason}")


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
    body = await asyncio.to_thread(request.app[GATEWAY].metrics.render)
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})


async def status(request: web.Request) -> web.Response:
    gateway = request.app[GATEWAY]
    return _json(describe(gateway))


async def reload_config(request: web.Request) -> web.Response:
    if (fault := await request.app[RELOAD]()) is not None:
        return problem(409, "invalid_config", fault)
    return _json({"status": "reloaded"})


def describe(gateway: Gateway) -> dict[str, Any]:
    """What `/status` shows. No prompt text, no keys."""
    return {
        "version": __version__,
        "draining": gateway.draining,
        "listeners": [
            {"address": f"{door.host}:{door.port}", "identity": gateway.identity(door)} for door in gateway.now.doors.values()
        ],
        "backends": [_backend(gateway, name) for name in gateway.fleet.states],
        "models": {model.name: list(model.aliases) for model in gateway.now.catalog.models},
        "in_flight": gateway.requests.in_flight(),
        "recent": gateway.requests.recent(20),
    }


def _backend(gateway: Gateway, name: str) -> dict[str, Any]:
    state = gateway.fleet.states[name]
    probe, view = state.probe, gateway.fleet.view.get(name)
    return {
        "name": name,
        "url": state.config.base_url,
        "kind": state.kind.name,
        "up": bool(probe and probe.up),
        "loading": bool(probe and probe.loading),
        "sleeping": bool(probe and probe.sleeping),
        "problem": probe.problem if probe else "not looked at yet",
        "version": probe.version if probe else None,
        "slots": probe.slots if probe else None,
        "circuit_open": bool(view and view.circuit_open),
        "in_flight": state.in_flight,
        "waiting": gateway.dispatcher.waiting(name),
        "probed": state.probed,
        "models": [
            {"name": m.name, "context": m.context, "resident": m.resident, "bytes": m.resident_bytes, "expires": m.expires}
            for m in (view.models.values() if view else ())
        ],
    }


def problem(status: int, code: str, message: str) -> web.Response:
    return _json({"error": {"code": code, "message": message}}, status)


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value, default=str), content_type="application/json", charset="utf-8")
