"""The status page: static files of `ui/` under `/ui/`, and the cookie that a browser shows the admin token by.

The files themselves need no token (they hold nothing of this gateway's); what they show they ask of the other admin paths. A
page cannot send an Authorization header with its event stream, so it trades the token once for an HttpOnly cookie.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import orjson
from aiohttp import web

from gateway.server import guard
from gateway.server.admin_replies import json_reply, problem

FOLDER = Path(__file__).parent / "ui"
SESSION = "/ui/session"
MAX_FORM = 4096  # bytes of what may be sent to it by somebody whose token is not known yet

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

POLICY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Nothing from elsewhere, nothing inline, no frames: a name that a client chose stays text whatever it holds."""

NAMES = tuple(sorted(file.name for file in FOLDER.iterdir() if file.suffix in TYPES))
PATHS = frozenset({"/ui", "/ui/", SESSION, *(f"/ui/{name}" for name in NAMES)})
"""Everything served here, all of it before the token is known."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Token = Callable[[], str | None]
"""The admin token of the configuration that is in force."""


def add_page(app: web.Application, token: Token) -> None:
    """Serve the page from this application, which itself checks Host and Origin."""
    app.router.add_get("/ui", _slash)
    app.router.add_get("/ui/", _static("index.html"))
    for name in NAMES:
        app.router.add_get(f"/ui/{name}", _static(name))
    session = Session(token)
    app.router.add_get(SESSION, session.look)
    app.router.add_post(SESSION, session.sign_in)
    app.router.add_delete(SESSION, session.sign_out)


async def _slash(_: web.Request) -> web.Response:
    """The page's addresses are relative to `/ui/`, and so is this one, for the sake of proxies that add a path in front."""
    return web.Response(status=308, headers={"Location": "ui/"})


def _static(name: str) -> Handler:
    """A handler for one file, read once: the files change with the version only."""
    body = (FOLDER / name).read_bytes()
    tag = sha256(body).hexdigest()[:20]
    headers = {**POLICY, "Cache-Control": "no-cache", "ETag": f'"{tag}"'}

    async def serve(request: web.Request) -> web.Response:
        if request.if_none_match and any(sent.value in (tag, "*") for sent in request.if_none_match):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers={**headers, "Content-Type": TYPES[Path(name).suffix]})

    return serve


class Session:
    """The cookie. It holds the token itself, so that nothing has to be remembered here and a new token ends it."""

    def __init__(self, token: Token) -> None:
        self._token = token

    async def look(self, request: web.Request) -> web.Response:
        """{"token": whether one is set, "valid": whether this request carries it}: asked first, to know what to show."""
        token = self._token()
        return json_reply({"token": bool(token), "valid": guard.token_valid(request.headers, token)})

    async def sign_in(self, request: web.Request) -> web.Response:
        """{"token": "..."} -> 204 with the cookie; 401 when it is another token."""
        token = self._token()
        if not token:
            return web.Response(status=204)
        if not guard.token_valid({guard.TOKEN_HEADER: await _sent(request)}, token):
            return problem(401, "invalid_token", "This is not the token under `admin.token`.")
        if not guard.token_valid({"Cookie": f"{guard.TOKEN_COOKIE}={token}"}, token):
            return problem(409, "token_not_for_cookies", "A cookie cannot carry this token; choose letters and digits.")
        return _cookie(request, token)

    async def sign_out(self, request: web.Request) -> web.Response:
        return _cookie(request, "", "Max-Age=0")


async def _sent(request: web.Request) -> str:
    """The token of the form, or "" when the body is anything else."""
    if (request.content_length or 0) > MAX_FORM or "Transfer-Encoding" in request.headers:
        return ""
    try:
        value = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        return ""
    token = value.get("token") if isinstance(value, dict) else None
    return token if isinstance(token, str) else ""


def _cookie(request: web.Request, value: str, *more: str) -> web.Response:
    """204 that sets the cookie, written by hand: `set_cookie` would quote characters that `guard` reads as they are."""
    secure = ("Secure",) if request.secure else ()
    text = "; ".join([f"{guard.TOKEN_COOKIE}={value}", "Path=/", "HttpOnly", "SameSite=Strict", *secure, *more])
    return web.Response(status=204, headers={"Set-Cookie": text, "Cache-Control": "no-store"})
