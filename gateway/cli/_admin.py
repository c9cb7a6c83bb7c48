"""Asking the running gateway over its admin port."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson

from gateway import config as configuration
from gateway.config import Config
from gateway.errors import ConfigError, WarmgateError
from gateway.wire import sse

PATIENCE = 30.0  # seconds
SILENCE = 60.0  # seconds without a word on /events, which says something at least every 15


class NoGateway(WarmgateError):
    """Nobody listens at the admin address."""


class NotDone(WarmgateError):
    """The gateway refused, failed, or did not answer in time; the text says which."""


class Lost(NotDone):
    """The connection broke, or ended, or nothing came over it in time: it may work another time."""


def load_named(path: Path | None) -> Config:
    """The configuration in the file that is named or found. Raises ConfigError, also where there is none."""
    found = configuration.find(path, os.environ)
    if found is None:
        raise ConfigError("No configuration was found; name it with --config.")
    return configuration.load(found, os.environ)


def load_or_defaults(path: Path | None) -> Config:
    """The same, but the defaults where no file is named and none is found."""
    found = configuration.find(path, os.environ)
    return configuration.load(found, os.environ) if found else configuration.loads("", "defaults", os.environ)


def ask(config: Config, path: str) -> dict[str, Any]:
    """POST to a path of the admin port that this configuration names, with its token. Raises NoGateway, NotDone."""
    return _send("POST", config, path)


def get(config: Config, path: str, **query: str | int | float | None) -> dict[str, Any]:
    """GET a path of the admin port; values that are None are left out of the query. Raises NoGateway, NotDone."""
    return _send("GET", config, path, {name: value for name, value in query.items() if value is not None})


async def look(config: Config, path: str, **query: str | int | float) -> dict[str, Any]:
    """The same as `get`, for verbs that go on meanwhile and may be interrupted. Raises NoGateway, NotDone."""
    url = base_url(config) + path
    try:
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
            return _document(await client.get(url, params=query or None, headers=_token(config)))
    except httpx.HTTPError as error:
        raise _failure(url, error) from error


async def events(config: Config) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """(name, data) of what /events tells, from `hello` on. Raises NoGateway, NotDone, and in the end always Lost.

    The last words of a gateway that ends, or drops a reader, are in the error.
    """
    url, last_words = f"{base_url(config)}/events", "it said nothing"
    timeout = httpx.Timeout(PATIENCE, read=SILENCE)
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream("GET", url, headers=_token(config)) as reply,
        ):
            if not reply.is_success:
                await reply.aread()
                _document(reply)
            framer = sse.Events()
            async for data in reply.aiter_bytes():
                _, whole = framer.feed(data)
                for frame in framer.split(whole):
                    name, value = _event(frame)
                    if name:
                        yield name, value
                    else:
                        last_words = value["comment"]
    except httpx.HTTPError as error:
        raise _failure(url, error) from error
    raise Lost(f"The gateway ended the stream: {last_words}.")


def base_url(config: Config) -> str:
    host, port = config.admin.address
    return f"http://{f'[{host}]' if ':' in host else host or '127.0.0.1'}:{port}"


def _send(method: str, config: Config, path: str, query: dict[str, str | int | float] | None = None) -> dict[str, Any]:
    url = base_url(config) + path
    try:
        reply = httpx.request(method, url, params=query or None, headers=_token(config), timeout=PATIENCE, trust_env=False)
    except httpx.HTTPError as error:
        raise _failure(url, error) from error
    return _document(reply)


def _document(reply: httpx.Response) -> dict[str, Any]:
    """What a gateway answered. Raises NotDone with the sentence that it gave, or with one that says that it is no gateway."""
    try:
        document = reply.json()
        if reply.is_success and isinstance(document, dict):
            return document
        raise NotDone(str(document["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        raise NotDone(f"{reply.url.copy_with(query=None)} answered {reply.status_code}, not as a gateway does.") from None


def _event(frame: bytes) -> tuple[str, dict[str, Any]]:
    name, data = sse.parse(frame)
    if not data:
        return "", {"comment": frame.decode("utf-8", "replace").strip().removeprefix(":").strip()}
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise NotDone("/events told something that is no JSON object, as no gateway does.")
    return name.decode("utf-8", "replace"), value


def _failure(url: str, error: httpx.HTTPError) -> WarmgateError:
    if isinstance(error, httpx.ConnectError):
        return NoGateway(f"No gateway answers at {url}: {error}")
    return Lost(f"The gateway at {url} does not answer: {error}")


def _token(config: Config) -> dict[str, str]:
    return {"Authorization": f"Bearer {config.admin.token}"} if config.admin.token else {}
