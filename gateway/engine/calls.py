"""Plain blocking HTTP to loopback servers, with the standard library alone and without the environment's proxies."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def open_url(url: str, body: object = None, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> IO[bytes]:
    """GET, or POST of the body as JSON; the caller closes the reply.

    timeout: seconds that the connection may be silent. Raises urllib.error.HTTPError for 4xx and 5xx, OSError otherwise.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})})
    reply: IO[bytes] = _OPENER.open(request, timeout=timeout)
    return reply


def fetch(url: str, body: object = None, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> bytes:
    """The whole reply; arguments and errors as in open_url."""
    with open_url(url, body, headers=headers, timeout=timeout) as reply:
        return reply.read()


def fetch_json(url: str, body: object = None, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> Any:
    """The reply, parsed; arguments and errors as in open_url, and ValueError when it is not JSON."""
    return json.loads(fetch(url, body, headers=headers, timeout=timeout))


def answers(url: str, *, timeout: float = 5.0) -> bool:
    """True for a reply with status 2xx; False for any other, and when nobody listens."""
    try:
        open_url(url, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False
    return True
