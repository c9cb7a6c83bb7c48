"""`/requests`: what the finished requests reused, and why not more."""

from __future__ import annotations

import math
from typing import Any

from aiohttp import web

from gateway.errors import BadRequest, NotFound
from gateway.server.admin_replies import GATEWAY, json_reply
from gateway.state.log import Log
from gateway.values import OUTCOMES, REASONS

DEFAULT_ROWS, MOST_ROWS = 100, 1000

NAMES = ("model", "backend")
"""Filters with values that only the configuration and the clients know."""

CHOICES: dict[str, tuple[str, ...]] = {"reason": REASONS, "outcome": OUTCOMES, "kind": ("main", "side")}
"""Filters with a closed set of values."""


def add_routes(app: web.Application) -> None:
    app.router.add_get("/requests", requests)
    app.router.add_get("/requests/{id:[^/]+}", one)
    app.router.add_get("/requests/{id:[^/]+}/explain", explain)


async def requests(request: web.Request) -> web.Response:
    """?limit=&model=&backend=&reason=&outcome=&kind=&since= -> {"requests": [row, the newest first]}."""
    limit, filters = _asked(request)
    return json_reply({"requests": _log(request).rows(limit, **filters)})


async def one(request: web.Request) -> web.Response:
    row = _log(request).row(request.match_info["id"])
    if row is None:
        raise _missing(request)
    return json_reply(row)


async def explain(request: web.Request) -> web.Response:
    log, id = _log(request), request.match_info["id"]
    if log.row(id) is None:
        raise _missing(request)
    if (found := log.explain(id)) is None:
        raise NotFound(
            "Nothing is known that would explain this request: it had no prompt that could be compared, `explain.store` is"
            " `none`, or what was known was dropped by `warmgate forget`.",
            code="not_explained",
        )
    return json_reply(found)


def _log(request: web.Request) -> Log:
    return request.app[GATEWAY].log


def _asked(request: web.Request) -> tuple[int, dict[str, Any]]:
    """Limit and filters of a query; an empty value is no filter. Raises BadRequest for one that cannot match anything."""
    query = {name: value for name, value in request.query.items() if value != ""}
    limit = _number(query.pop("limit", str(DEFAULT_ROWS)), "limit")
    if not 1 <= limit <= MOST_ROWS:
        raise BadRequest(f"`limit` is a number from 1 to {MOST_ROWS}.", code="invalid_filter")
    filters: dict[str, Any] = {}
    for name, value in query.items():
        if name == "since":
            filters[name] = _number(value, name)
        elif name in NAMES or value in CHOICES.get(name, ()):
            filters[name] = value
        elif name in CHOICES:
            raise BadRequest(f"`{name}` is one of {', '.join(CHOICES[name])}.", code="invalid_filter")
        else:
            raise BadRequest(f"Filters are limit, since, {', '.join((*NAMES, *CHOICES))}.", code="invalid_filter")
    return int(limit), filters


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRequest(f"`{name}` is a number{' of seconds since 1970' if name == 'since' else ''}.", code="invalid_filter")
    return number


def _missing(request: web.Request) -> NotFound:
    gateway, id = request.app[GATEWAY], request.match_info["id"]
    if any(running.id == id for running in gateway.requests.in_flight()):
        return NotFound("This request is still running; it is explained when it is finished.", code="still_running")
    return NotFound(
        "No request has this id. It is unknown, or it has been forgotten: the log keeps the newest ones, as many as"
        " `explain.keep` says, until the gateway ends.",
        code="unknown_request",
    )
