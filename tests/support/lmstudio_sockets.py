"""The beginning of LM Studio's WebSocket API: greeting, handshake, and of the remote calls the list of what is loaded.

The wire shapes are those that the official Python SDK sends and accepts (lmstudio 1.5, json_api.py and _ws_impl.py): the first
message names the client and is answered by `success`; then `rpcCall` is
answered by `rpcResult` or `rpcError`, and `channelCreate` begins a stream or is answered by `channelError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from tests.support.fake_lmstudio import FakeLmStudio

NAMESPACES = ("llm", "embedding", "system", "files", "repository")
CLIENT = {"authVersion", "clientIdentifier", "clientPasskey"}


def routes(fake: FakeLmStudio) -> list[web.RouteDef]:
    sockets = _Sockets(fake)
    return [web.get("/lmstudio-greeting", sockets.greet), *(web.get(f"/{name}", sockets.serve) for name in NAMESPACES)]


class _Sockets:
    """Writes each message, but for what tells one client from another, into the server's `heard`."""

    def __init__(self, fake: FakeLmStudio):
        self._fake = fake

    async def greet(self, request: web.Request) -> web.Response:
        self._fake.heard.append((request.path, None))
        return web.json_response({"lmstudio": True})

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        known = False
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            said = message.json()
            if known:
                self._fake.heard.append((request.path, said))
                await socket.send_json(self._answer(request.path, said))
                continue
            self._fake.heard.append((request.path, sorted(said)))
            known = set(said) == CLIENT and said["authVersion"] == 1
            await socket.send_json({"success": known} if known else {"success": False, "error": "Unknown client."})
        return socket

    def _answer(self, path: str, said: dict[str, Any]) -> dict[str, Any]:
        error = {"title": f"{said.get('endpoint')} is not simulated"}
        if said.get("type") == "channelCreate":
            return {"type": "channelError", "channelId": said["channelId"], "error": error}
        if said.get("type") != "rpcCall":
            return {"type": "communicationWarning", "warning": f"{said.get('type')} is not simulated"}
        if said["endpoint"] != "listLoaded":
            return {"type": "rpcError", "callId": said["callId"], "error": error}
        found = [i for i in self._fake.instances.loaded if i.model.embedding == (path == "/embedding")]
        return {"type": "rpcResult", "callId": said["callId"], "result": [{"identifier": i.id} for i in found]}
