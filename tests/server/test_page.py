"""The page's files and its cookie, in front of a real App on loopback. What a browser makes of them is in tests/ui."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway import config as configuration
from gateway.server import page
from gateway.server.app import App
from gateway.server.gateway import Gateway
from tests.support.clients import RawClient, Response, fetch, request_bytes
from tests.support.process import free_port

TOKEN = 'se,sa"me='


async def start(directory: Path, token: str) -> tuple[App, str]:
    listen, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
    text = json.dumps({
        "listen": listen, "admin": {"listen": admin, "token": token}, "state_dir": str(directory),
        "backends": {"local": {"kind": "openai", "url": f"http://127.0.0.1:{free_port()}"}},
    })  # fmt: skip
    config = configuration.loads(text, "test", {})

    async def load() -> configuration.Config:
        return config

    app = App(Gateway(config), load)
    await app.start()
    return app, f"http://{admin}"


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[str]:
    app, url = await start(tmp_path, TOKEN)
    try:
        yield url
    finally:
        await app.stop()


async def ask(admin: str, method: str, path: str, body: bytes = b"", *headers: tuple[str, str]) -> Response:
    async with RawClient(admin) as client:
        await client.send(request_bytes(method, path, body, *headers, host=admin.removeprefix("http://")))
        response = await client.response()
        async for _ in response.pieces():
            pass
        return response


def sent(token: str) -> bytes:
    return json.dumps({"token": token}).encode()


@pytest.mark.parametrize(("name", "kind"), [
    ("", "text/html; charset=utf-8"), ("index.html", "text/html; charset=utf-8"), ("app.js", "text/javascript; charset=utf-8"),
    ("style.css", "text/css; charset=utf-8"), ("icon.svg", "image/svg+xml"),
])  # fmt: skip
async def test_files_need_no_token_and_bring_their_policy(admin: str, name: str, kind: str) -> None:
    reply = await fetch(f"{admin}/ui/{name}")
    assert (reply.status, reply.header("Content-Type")) == (200, kind)
    assert reply.body == (page.FOLDER / (name or "index.html")).read_bytes()
    policy = reply.header("Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (reply.header("X-Content-Type-Options"), reply.header("Cache-Control")) == ("nosniff", "no-cache")


async def test_what_has_not_changed_is_not_sent_again(admin: str) -> None:
    tag = (await fetch(f"{admin}/ui/app.js")).header("ETag")
    again = await fetch(f"{admin}/ui/app.js", None, ("If-None-Match", tag))
    assert (again.status, again.body) == (304, b"")
    assert (await fetch(f"{admin}/ui/style.css", None, ("If-None-Match", tag))).status == 200


async def test_every_file_that_the_page_names_is_served(admin: str) -> None:
    for file in page.FOLDER.iterdir():
        for name in re.findall(r"""(?:from|href|src)(?:=| )"(?:\./)?([\w.-]+\.\w+)";?""", file.read_text()):
            assert (await fetch(f"{admin}/ui/{name}")).status == 200, (file.name, name)


@pytest.mark.parametrize(
    "path", ["/ui/nothing.js", "/ui/../page.py", "/ui/%2e%2e/page.py", "/ui//index.html", "/ui/index.html/", "/ui/sub/"]
)
async def test_nothing_else_is_served(admin: str, path: str) -> None:
    assert (await ask(admin, "GET", path)).status in (401, 404)
    assert (await ask(admin, "GET", path, b"", ("X-Warmgate-Token", TOKEN))).status == 404


async def test_the_page_is_found_without_the_slash(admin: str) -> None:
    reply = await ask(admin, "GET", "/ui")
    assert (reply.status, reply.header("Location")) == (308, "ui/")


async def test_a_cookie_for_the_token(admin: str) -> None:
    assert (await fetch(f"{admin}/ui/session")).json() == {"token": True, "valid": False}
    reply = await ask(admin, "POST", "/ui/session", sent(TOKEN))
    cookie, *attributes = reply.header("Set-Cookie").split("; ")
    assert (reply.status, attributes) == (204, ["Path=/", "HttpOnly", "SameSite=Strict"])
    assert (await fetch(f"{admin}/status")).status == 401
    assert (await fetch(f"{admin}/status", None, ("Cookie", cookie))).status == 200
    assert (await fetch(f"{admin}/ui/session", None, ("Cookie", cookie))).json() == {"token": True, "valid": True}
    gone = (await ask(admin, "DELETE", "/ui/session", b"", ("Cookie", cookie))).header("Set-Cookie")
    assert gone.startswith("warmgate_token=; ")
    assert gone.endswith("Max-Age=0")


@pytest.mark.parametrize(
    "body", [sent("other"), sent(""), b"", b"[]", b"{", b'{"token": 1}', b'{"token": null}', b"\xff", sent(TOKEN).ljust(5000)]
)
async def test_no_cookie_for_anything_else(admin: str, body: bytes) -> None:
    reply = await ask(admin, "POST", "/ui/session", body)
    assert (reply.status, reply.header("Set-Cookie")) == (401, "")
    assert "admin.token" in reply.json()["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_pages_of_others_do_not_sign_in_or_out(admin: str, method: str) -> None:
    reply = await ask(admin, method, "/ui/session", sent(TOKEN), ("Origin", "http://127.0.0.1:1"))
    assert (reply.status, reply.header("Set-Cookie")) == (403, "")


async def test_without_a_token_nobody_is_asked(tmp_path: Path) -> None:
    app, admin = await start(tmp_path, "")
    try:
        assert (await fetch(f"{admin}/ui/session")).json() == {"token": False, "valid": True}
        reply = await ask(admin, "POST", "/ui/session", sent("any"))
        assert (reply.status, reply.header("Set-Cookie")) == (204, "")
    finally:
        await app.stop()


async def test_a_token_that_no_cookie_can_carry_is_named(tmp_path: Path) -> None:
    app, admin = await start(tmp_path, "se;same")
    try:
        reply = await ask(admin, "POST", "/ui/session", sent("se;same"))
        assert (reply.status, reply.header("Set-Cookie")) == (409, "")
        assert "letters and digits" in reply.json()["error"]["message"]
    finally:
        await app.stop()
