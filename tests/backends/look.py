"""One look at a mocked server."""

from __future__ import annotations

import httpx
import respx

from gateway.backends import KINDS
from gateway.backends.control import Control
from gateway.values import Probe

URL = "http://127.0.0.1:9"
NOT_FOUND = httpx.Response(404, json={"error": "not found"})


async def look(
    kind: str, routes: dict[str, httpx.Response | dict | Exception], *, otherwise: httpx.Response = NOT_FOUND
) -> Probe:
    """One probe. otherwise: the answer to every path that is not in `routes`."""
    with respx.mock(assert_all_called=False) as mock:
        for path, reply in routes.items():
            route = mock.route(url=URL + path)
            if isinstance(reply, Exception):
                route.mock(side_effect=reply)
            else:
                route.mock(return_value=reply if isinstance(reply, httpx.Response) else httpx.Response(200, json=reply))
        mock.route().mock(return_value=otherwise)
        control = Control(URL)
        try:
            return await KINDS[kind].probe(control)
        finally:
            await control.close()
