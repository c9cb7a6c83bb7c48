"""`POST /release/{model}`: unload a model now, and keep nothing of it for a while."""

from __future__ import annotations

from aiohttp import web

from gateway import units
from gateway.control.residency import Keeper
from gateway.errors import BadRequest, NotFound
from gateway.server.admin_replies import GATEWAY, json_reply, problem

KEEPER: web.AppKey[Keeper] = web.AppKey("keeper")


def add_routes(app: web.Application, keeper: Keeper) -> None:
    app[KEEPER] = keeper
    app.router.add_post("/release/{model:.+}", release)


async def release(request: web.Request) -> web.Response:
    """?for=2h: for so long; else until the next real request. Answers once the servers have unloaded it, or refused to."""
    gateway, asked, span = request.app[GATEWAY], request.match_info["model"], request.query.get("for")
    named = gateway.now.catalog.find(asked)
    label = named.name if named else asked
    if not named and not gateway.residency.knows(asked):
        known = ", ".join(gateway.residency.names()[:20]) or "none"
        raise NotFound(f"Model {asked[:80]!r} is not known here. Known models: {known}.", code="unknown_model")
    try:
        seconds = units.parse_duration(span) if span is not None else None
    except ValueError as error:
        raise BadRequest(f"`for`: {error}.", code="invalid_duration") from None
    todo = gateway.residency.release(label, seconds)
    problems = await request.app[KEEPER].do(todo)
    if problems:
        return problem(502, "not_unloaded", f"It is not kept any more, but not unloaded: {'; '.join(problems)}")
    return json_reply({"status": "released", "model": label, "unloaded": [f"{one.backend}/{one.wish.model}" for one in todo]})
