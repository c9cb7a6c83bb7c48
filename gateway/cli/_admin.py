"""Asking the running gateway over its admin port."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx

from gateway import config as configuration
from gateway.config import Config
from gateway.errors import ConfigError, WarmgateError

PATIENCE = 30.0  # seconds


class NoGateway(WarmgateError):
    """Nobody listens at the admin address."""


class NotDone(WarmgateError):
    """The gateway refused, failed, or did not answer in time; the text says which."""


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
    host, port = config.admin.address
    url = f"http://{f'[{host}]' if ':' in host else host or '127.0.0.1'}:{port}{path}"
    headers = {"Authorization": f"Bearer {config.admin.token}"} if config.admin.token else {}
    try:
        reply = httpx.post(url, headers=headers, timeout=PATIENCE, trust_env=False)
    except httpx.ConnectError as error:
        raise NoGateway(f"No gateway answers at {url}: {error}") from error
    except httpx.HTTPError as error:
        raise NotDone(f"The gateway at {url} does not answer: {error}") from error
    try:
        document = reply.json()
        if reply.is_success and isinstance(document, dict):
            return document
        raise NotDone(str(document["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        raise NotDone(f"{url} answered {reply.status_code}, not as a gateway does.") from None
