"""The least that a proxy on aiohttp can be: `python -m bench.bare UPSTREAM_PORT`. It parses, checks and keeps nothing.

What it costs is the floor under the gateway's figures, whatever the gateway does.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import aiohttp
from aiohttp import web


async def main(upstream: int) -> None:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    )

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body, url = await request.content.read(), f"http://127.0.0.1:{upstream}{request.path}"
        async with session.request(request.method, url, data=body, headers={"Content-Type": "application/json"}) as reply:
            response = web.StreamResponse(status=reply.status, headers={"Content-Type": reply.headers["Content-Type"]})
            response.content_length = reply.content_length
            if reply.content_length is None:
                response.enable_chunked_encoding()
            await response.prepare(request)
            while data := await reply.content.readany():
                await response.write(data)
            await response.write_eof()
            return response

    server = await asyncio.get_running_loop().create_server(web.Server(handle, access_log=None), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await session.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
