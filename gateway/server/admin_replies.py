"""Replies of the admin port: JSON, errors included."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from gateway.server.gateway import Gateway

GATEWAY = web.AppKey("gateway", Gateway)


def json_reply(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(value, default=str), content_type="application/json", charset="utf-8")


def problem(status: int, code: str, message: str) -> web.Response:
    return json_reply({"error": {"code": code, "message": message}}, status)
