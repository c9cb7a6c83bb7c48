"""The body of a reply as it comes off the network, without its Content-Encoding where that is one that is understood."""

from __future__ import annotations

import aiohttp

from gateway.wire.inflate import CODINGS, Inflater


class Body:
    """coded: what `read` gives is still in the server's Content-Encoding; decoded: it no longer is."""

    def __init__(self, response: aiohttp.ClientResponse, *, decode: bool):
        coding = response.headers.get("Content-Encoding", "identity").strip().lower()
        self._content = response.content
        self._inflater = Inflater(coding) if decode and coding in CODINGS else None
        self.decoded = self._inflater is not None
        self.coded = not self.decoded and coding not in ("", "identity")

    async def read(self) -> bytes:
        """What comes next, b"" at the end. Raises aiohttp.ClientError, OSError, Undecodable."""
        inflater = self._inflater
        if inflater is None:
            return await self._content.readany()
        while True:
            if inflater.more:
                piece = inflater.take()
            elif data := await self._content.readany():
                piece = inflater.take(data)
            else:
                inflater.end()
                return b""
            if piece:
                return piece
