"""The only aiohttp client: one session for the data path to all backends, and how its errors read in our words.

Measured on the same path: aiohttp's client costs a small fraction of httpx's CPU time for a request, and httpx's pool loses
places when requests are cancelled.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable
from dataclasses import dataclass
from functools import lru_cache

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gateway.dispatch.pool import ATTEMPT, Attempt, Pool
from gateway.errors import Unreachable, UpstreamDied, UpstreamError, UpstreamSilent

POOL_IDLE = 3.0  # seconds an idle connection is kept: below the 5 s after which servers close theirs
HEADER_LIMIT = 64 << 10  # bytes in a reply's header line
AUTO_HEADERS = ("User-Agent", "Content-Type", "Accept", "Accept-Encoding")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a backend is reached. tls: a context for its certificate, False = not verified, True = the system's store."""

    base_url: str
    connect: float  # seconds
    tls: ssl.SSLContext | bool = True

    def join(self, path_query: str) -> URL:
        """The URL for a path as the client wrote it (percent-encoding kept); a base path that ends in /v1 is not doubled."""
        base = self.base_url
        if base.endswith("/v1") and (path_query == "/v1" or path_query.startswith(("/v1/", "/v1?"))):
            base = base[:-3]
        return _url(base + path_query)


@lru_cache(maxsize=32)
def _url(text: str) -> URL:
    """The same object for the same address: it keeps the parts that the client asks it for with every request."""
    return URL(text, encoded=True)


@lru_cache(maxsize=32)
def _timeout(connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect)


class Upstream:
    def __init__(self) -> None:
        self._pooled = _session(Pool(keepalive_timeout=POOL_IDLE))
        self._fresh = _session(Pool(force_close=True))

    async def send(
        self,
        method: str,
        address: Address,
        path_query: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterable[bytes] | None,
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the reply's headers.

        A reused connection that dies before any byte of the reply was closed by the server as we took it; if the body can be
        sent again, it is, once, on a fresh connection. Raises UpstreamError. The caller bounds the wait by its deadline.
        """
        attempt = Attempt()
        ATTEMPT.set(attempt)
        try:
            return await self._ask(self._pooled, method, address, path_query, headers, body)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError) as error:
            again = attempt.was_stale and (body is None or isinstance(body, bytes))
            if not again or isinstance(error, aiohttp.ClientConnectorError):
                raise translate(error, address) from error
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise translate(error, address) from error
        try:
            return await self._ask(self._fresh, method, address, path_query, headers, body)
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise translate(error, address) from error

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        method: str,
        address: Address,
        path_query: str,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterable[bytes] | None,
    ) -> aiohttp.ClientResponse:
        return await session.request(
            method,
            address.join(path_query),
            headers=headers,
            data=body,
            allow_redirects=False,
            ssl=address.tls,
            timeout=_timeout(address.connect),
        )

    def websocket(
        self, address: Address, path_query: str, headers: CIMultiDict[str], protocols: tuple[str, ...]
    ) -> aiohttp.client._BaseRequestContextManager[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to a backend; messages of any size, pings passed on by the caller."""
        return self._fresh.ws_connect(
            address.join(path_query), headers=headers, protocols=protocols, ssl=address.tls, autoping=False, max_msg_size=0
        )

    async def close(self) -> None:
        await self._pooled.close()
        await self._fresh.close()


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,  # see dispatch.reading
        skip_auto_headers=AUTO_HEADERS,
        max_line_size=HEADER_LIMIT,
        max_field_size=HEADER_LIMIT,
    )


async def listens(address: Address) -> bool:
    """Whether anybody takes connections there: False only if they are refused."""
    url = URL(address.base_url)
    try:
        async with asyncio.timeout(address.connect):
            _, writer = await asyncio.open_connection(url.host, url.port)
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return True
    writer.close()
    return True


def transport_of(socket: aiohttp.ClientWebSocketResponse) -> asyncio.Transport | None:
    """The connection under a WebSocket, to break it: `close` alone waits until the peer has read everything. Only while it
    is open; aiohttp has no public way to it."""
    connection = socket._response.connection
    return connection.transport if connection else None


def translate(error: BaseException, address: Address) -> UpstreamError:
    """A client library's error as one of ours, with a sentence for the caller."""
    where = address.base_url
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return Unreachable(f"The TLS connection to {where} failed; see tls.ca and tls.verify of this backend.")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unreachable(f"{where} did not accept a connection within {address.connect:g} s.")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unreachable(f"{where} refuses connections; is the server running?")
    if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        return UpstreamSilent(f"{where} did not answer in time.")
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return UpstreamError(f"The path cannot be sent to {where}.", status=400, code="bad_path")
    return UpstreamDied(f"{where} closed the connection before its answer was complete.")
